"""`python -m aotattn` is the command `aotattn`."""

import sys

from .cli import main

sys.exit(main())
