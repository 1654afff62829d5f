"""What the library would do with a case, asked without a device."""

from typing import Any

from . import runtime
from .bench.cases import Case
from .describe import text
from .dtypes import DTYPES
from .kernels import KERNELS

FAKE_ADDRESS, FAKE_STEP = 1 << 40, 1 << 36  # what tensors are laid at where no memory is needed; 16-byte aligned


def explain_case(case: Case, arch: str, compute_units: int = 0, plan: str = "") -> dict[str, Any]:
    """The answer of aot_explain, the case's text first."""
    views = {
        name: runtime.View(FAKE_ADDRESS + at * FAKE_STEP + p.offset * DTYPES[p.dtype].bytes, p.dtype, p.size, p.stride)
        for at, (name, p) in enumerate(case.tensors().items())
    }
    params = runtime.parameters(case.op, case.arguments(views))
    answer = runtime.explain(case.op, params, arch, compute_units=compute_units, plan=plan or None)
    return {"case": str(case), **answer, "declined": declined(case.op, arch, str(answer["features"]))}


def declined(operator: str, arch: str, features: str) -> dict[str, str]:
    """Kernel -> why it does not compute a functional on an arch, whatever is built."""
    words = dict(word.split("=") for word in features.split(",") if word)
    found = {}
    for kernel in KERNELS.values():
        choices = {f.name: f.values for f in kernel.operator.features}
        if kernel.operator.name == operator and choices.keys() == words.keys():
            values = {n: next(v for v in choices[n] if text({n: v}) == f"{n}={words[n]}") for n in choices}
            if reason := kernel.declines(arch, values):
                found[kernel.name] = reason
    return found
