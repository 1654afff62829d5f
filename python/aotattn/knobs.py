"""The environment variables that the library reads, one row each; v2src/knobs.h has the same rows for the runtime.

Nobody else in the package reads or changes the environment. `aotattn knobs` prints the table.
"""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Knob:
    """An environment variable; an empty one counts as not set."""

    name: str
    default: str
    meaning: str


KNOBS = {
    k.name: k
    for k in (
        Knob(
            "AOTATTN_STORE_DIR",
            "",
            "directory of kernel stores and tuning.db, in place of the one beside the library",
        ),
        Knob("AOTATTN_TUNING_DB", "", "a user's tuning database laid over the installed one"),
        Knob("AOTATTN_HIP_LIBRARY", "", "the HIP runtime library to load (default libamdhip64.so.7, .6, .so)"),
        Knob("AOTATTN_CUDA_LIBRARY", "", "the CUDA driver library to load (default libcuda.so.1)"),
    )
}


def value(name: str) -> str:
    """What the environment says of a knob, else its default."""
    return os.environ.get(name) or KNOBS[name].default


def choose(name: str, value: str) -> None:
    """Set a knob for this process, the C library in it included, where it is not set."""
    if not os.environ.get(name):
        os.environ[KNOBS[name].name] = value
