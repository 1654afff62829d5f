"""What a parameter of a device function gets, by its name.

q_ptr q_stride_1 q_size_2    pointer, 64-bit stride, 64-bit size of a tensor of the operator
counter_ptr                  workspace `counter`, if the kernel has one of that name
seqlen_q scale_log2          a name of the operator's vocabulary; integers are passed as 32 bits
"""

import dataclasses
from collections.abc import Iterable

from ..describe import Kernel, UserError, Variant
from ..dtypes import DTYPES
from ..store import Argument

# argument type -> bytes and alignment; a tensor map is a CUtensorMap
SIZES = {"ptr": (8, 8), "i64": (8, 8), "i32": (4, 4), "f32": (4, 4), "tensormap": (128, 64)}


def argument_of(name: str, kernel: Kernel) -> Argument:
    """The recipe of one parameter, its offset still 0. Raises UserError for a name that nothing is called."""
    vocabulary = kernel.operator.vocabulary()
    base, _, what = name.partition("_")
    if what == "ptr" and base in {w.name for w in kernel.workspace}:
        return Argument(f"workspace.{base}.ptr", "ptr", 0)
    dotted = f"{base}.{what.replace('_', '.')}"
    if dotted in vocabulary:
        return Argument(dotted, vocabulary[dotted], 0)
    if name in vocabulary:
        return Argument(name, "f32" if vocabulary[name] == "f32" else "i32", 0)
    raise UserError(f"{kernel.source}: parameter {name} is in no vocabulary of {kernel.operator.name}")


def element_of(argument: Argument, variant: Variant) -> str:
    """The dtype that a pointer points to."""
    *_, base, _ = argument.name.split(".")
    kinds = {t.name: t.dtype for t in variant.kernel.operator.tensors} | {
        w.name: w.dtype for w in variant.kernel.workspace
    }
    return kinds[base] if kinds[base] in DTYPES else str(variant.features[kinds[base]])


def place(arguments: Iterable[Argument]) -> tuple[tuple[Argument, ...], int]:
    """Arguments at their alignment, one behind the other, and where the last ends."""
    placed, end = [], 0
    for argument in arguments:
        size, align = SIZES[argument.type]
        offset = -(-end // align) * align
        placed.append(dataclasses.replace(argument, offset=offset))
        end = offset + size
    return tuple(placed), end
