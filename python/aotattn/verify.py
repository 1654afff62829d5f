"""Run cases on a device through the C library, one plan after another, and judge the numbers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import runtime
from .bench.cases import Case
from .bench.inputs import Stored, draw, store
from .bench.sets import handed_id
from .device import Device, DeviceFault
from .dtypes import DTYPES
from .reference import Check, Mask, Tally, blocks, score_resolution, worst
from .runtime import AotError, View

OUTPUT_BYTES_AT_A_TIME = 16 << 30  # of all plans whose results wait for the reference
TWICE_BELOW_BYTES = 64 << 20  # smaller outputs are computed twice: what a first call leaves behind must not matter

Outputs = Mapping[str, Stored]


@dataclass(frozen=True)
class Result:
    """One plan on one case. passed None: nobody takes the case, or it does not fit the device; `reason` says why."""

    case: Case
    arch: str
    device: str
    plan: str = ""  # backend/kernel/config
    check: str = ""  # the figure that `error` and `allowed` are of
    error: float = 0.0
    allowed: float = 0.0
    passed: bool | None = None
    reason: str = ""

    def row(self) -> dict[str, Any]:
        """What --json prints; a figure that is not finite is null."""
        row: dict[str, Any] = {
            "case": str(self.case),
            "arch": self.arch,
            "device": self.device,
            "backend": self.plan.partition("/")[0],
            "error": self.error if math.isfinite(self.error) else None,
            "allowed": self.allowed,
            "passed": self.passed,
            "plan": self.plan,
            "check": self.check,
            "reason": self.reason,
        }
        name = handed_id(self.case)
        return row | ({"id": name} if name else {})


def verify(
    cases: Sequence[Case], device: Device, *, seed: int, backend: str = "", plan: str = "", required: bool = True
) -> Iterator[Result]:
    """Judge each case under every plan that takes it.

    backend, plan   only plans of this backend, only plans "backend/kernel/config" that start with this
    required        a case that no plan takes has failed
    Ends early after a fault of the device, which is the last result then.
    """
    import torch

    for case in cases:
        try:
            with device.scratch():
                yield from verify_case(case, device, seed=seed, backend=backend, plan=plan, required=required)
        except torch.OutOfMemoryError:
            reason = "does not fit the memory of the device"
            yield Result(case, device.arch, device.name, passed=False if required else None, reason=reason)
        except DeviceFault as fault:
            yield Result(case, device.arch, device.name, passed=False, reason=f"the device failed: {fault}")
            return


def verify_case(
    case: Case, device: Device, *, seed: int, backend: str = "", plan: str = "", required: bool = True
) -> Iterator[Result]:
    tensors = draw(case, device.compute, seed)
    inputs = {name: view(tensors[name], device.upload(tensors[name].storage)) for name in ("q", "k", "v")}
    if case.empty:
        yield _verify_empty(case, device, inputs)
        return
    answer = explain_on(case, device, tensors, inputs, plan)
    plans = [p for p in candidates(answer) if p.partition("/")[0] == backend or not backend]
    if not plans:
        yield Result(
            case,
            device.arch,
            device.name,
            passed=False if required else None,
            reason=f"unsupported: {answer['reason'] or 'no plan is of this backend'}",
        )
        return
    size = sum(t.storage.nbytes for name, t in tensors.items() if name not in inputs)
    step = max(1, OUTPUT_BYTES_AT_A_TIME // size)
    del tensors["out"]
    for start in range(0, len(plans), step):
        yield from _verify_plans(case, device, tensors, inputs, plans[start : start + step])


def candidates(answer: Mapping[str, Any]) -> list[str]:
    """The plans that take a problem, out of runtime.explain()."""
    return [str(c["plan"]) for c in answer["candidates"] if c["refused"] is None]


def explain_on(
    case: Case, device: Device, tensors: Mapping[str, Stored], inputs: Mapping[str, View], plan: str
) -> dict[str, Any]:
    """Ask for the case as it lies in memory, outputs where their storages are."""
    outputs = {n: view(t, t.storage.data_ptr()) for n, t in tensors.items() if n not in inputs}
    params = runtime.parameters(case.op, case.arguments({**inputs, **outputs}))
    return runtime.explain(case.op, params, device.arch, compute_units=device.compute_units, plan=plan or None)


def view(tensor: Stored, pointer: int) -> View:
    size, stride = tuple(tensor.view.shape), tuple(tensor.view.stride())
    return View(pointer + tensor.offset * DTYPES[tensor.dtype].bytes, tensor.dtype, size, stride)


def run(case: Case, device: Device, inputs: Mapping[str, View], plan: str | None) -> tuple[dict[str, Stored], str]:
    """Compute into fresh poisoned outputs. Returns them and what was written outside of them, "" if nothing.

    Raises AotError if the library refuses, DeviceFault if the device fails.
    """
    placements = case.tensors()
    outputs = {n: store(p, device.compute) for n, p in placements.items() if n not in inputs}
    pointers = {name: device.upload(t.storage) for name, t in outputs.items()}
    try:
        views = {name: view(t, pointers[name]) for name, t in outputs.items()}
        params = runtime.parameters(case.op, case.arguments({**inputs, **views}))
        runtime.launch(case.op, params, device.call(plan))
        device.synchronize()
        for name, tensor in outputs.items():
            device.download(pointers[name], tensor.storage)
    finally:
        for pointer in pointers.values():
            device.free(pointer)
    strays = {name: tensor.stray_writes() for name, tensor in outputs.items()}
    return outputs, ", ".join(f"{n} elements outside {name} were written" for name, n in strays.items() if n)


def failure(error: AotError, device: Device) -> str:
    """The library's sentence, and what the device reports where it was the device that failed."""
    report = device.report() if error.name == "AOT_DEVICE_ERROR" else ""
    return f"{error}; {report}" if report else str(error)


def _verify_empty(case: Case, device: Device, inputs: Mapping[str, View]) -> Result:
    """Nothing to compute: success, nothing launched, nothing written."""
    launched = runtime.launch_count()
    try:
        _, reason = run(case, device, inputs, None)
    except AotError as error:
        reason = str(error)
    if runtime.launch_count() != launched:
        reason = reason or "a kernel was launched for an empty problem"
    return Result(case, device.arch, device.name, passed=not reason, reason=reason)


def _verify_plans(
    case: Case, device: Device, tensors: Mapping[str, Stored], inputs: Mapping[str, View], plans: Sequence[str]
) -> Iterator[Result]:
    results: dict[str, list[Outputs]] = {}
    reasons: dict[str, str] = {}
    for plan in plans:
        results[plan] = []
        try:
            twice = sum(p.extent for p in case.tensors().values()) * 4 < TWICE_BELOW_BYTES
            for _ in range(1 + twice):
                outputs, reasons[plan] = run(case, device, inputs, plan)
                results[plan].append(outputs)
                if reasons[plan]:
                    break
        except AotError as error:
            reasons[plan] = failure(error, device)
        except DeviceFault as fault:
            raise DeviceFault(f"{plan}: {fault}") from None
    checks = judge_all(case, tensors, results)
    for plan in plans:
        figure = worst(checks[plan])
        yield Result(
            case,
            device.arch,
            device.name,
            plan,
            figure.name,
            figure.error,
            figure.allowed,
            passed=figure.passed and not reasons[plan] and bool(results[plan]),
            reason=reasons[plan]
            or ("" if math.isfinite(figure.error) else f"{figure.name}: NaN, Inf or never written"),
        )


def judge_all(
    case: Case, tensors: Mapping[str, Stored], results: Mapping[str, Sequence[Outputs]]
) -> dict[str, list[Check]]:
    """The checks of each plan, over all of its runs; the reference is computed once."""
    q, k, v = (tensors[name].view for name in "qkv")
    resolution = score_resolution(q, k, case.sm_scale)
    tallies = {plan: {"out": Tally("out", case.dtype, resolution), "lse": Tally("lse", "f32")} for plan in results}
    mask = Mask(case.mask, case.alignment, case.window_left, case.window_right)
    for index, exact, baseline in blocks(q, k, v, sm_scale=case.sm_scale, mask=mask):
        for plan, runs in results.items():
            for outputs in runs:
                for at, name in enumerate(("out", "lse")):
                    if name in outputs:
                        tallies[plan][name].add(outputs[name].view[index], exact[at], baseline[at])
    return {plan: [c for tally in named.values() for c in tally.checks()] for plan, named in tallies.items()}
