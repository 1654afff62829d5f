"""What the metadata of an AMD code object says, read from its assembly text."""

import re


def parameters(assembly: str) -> list[int]:
    """Sizes of the kernel's arguments; -1 for a hidden one."""
    arguments = re.findall(r"\.size:\s+(\d+)\s+\.value_kind:\s+(\w+)", assembly)
    return [-1 if kind.startswith("hidden") else int(size) for size, kind in arguments]


def facts(assembly: str) -> dict[str, int]:
    scratch = max(4 * _number("vgpr_spill_count", assembly), _number("private_segment_fixed_size", assembly))
    return {"registers": _number("vgpr_count", assembly), "spill_bytes": scratch}


def static_lds_bytes(assembly: str) -> int:
    return _number("group_segment_fixed_size", assembly)


def _number(name: str, assembly: str) -> int:
    found = re.search(rf"\.{name}:\s+(\d+)", assembly)
    return int(found[1]) if found else 0
