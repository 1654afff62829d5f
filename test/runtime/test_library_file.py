"""The file itself: what it exports, what it needs, how large it is."""

import re
from pathlib import Path

from aotattn import runtime
from lab import BUILD, is_sanitized, output

LIBRARY = BUILD / "lib" / runtime.LIBRARY
HEADER = Path(__file__).parents[2] / "include" / "aotattn" / "aotattn.h"


def test_it_exports_what_the_header_declares_and_nothing_else() -> None:
    exported = set(re.findall(r" [TWVBDRiu] (\w+)", output("nm", "-D", "--defined-only", LIBRARY)))
    declared = set(re.findall(r"^AOT_API .*?(aot_\w+)\(", HEADER.read_text(), re.MULTILINE))
    assert exported == declared
    assert len(declared) == 11


def test_it_needs_only_the_c_and_cxx_libraries() -> None:
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", LIBRARY)))
    allowed = {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2"}
    assert is_sanitized(LIBRARY) or needed <= allowed


def test_it_is_small() -> None:
    assert is_sanitized(LIBRARY) or LIBRARY.stat().st_size <= 3 << 20
