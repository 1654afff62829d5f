"""Times of every plan that takes a case, numbers checked first, for the tuning record."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import runtime
from ..device import Device
from ..reference import worst
from ..tuning.rows import Row, merge, read_rows, rows_path, write_rows
from ..verify import Outputs, candidates, explain_on, judge_all, run, view
from .cases import Case
from .inputs import draw
from .timing import Measure, Side, Timing, alternate, device_time


@dataclass(frozen=True)
class PlanTime:
    """One plan on one case; timing None: its numbers are wrong, `reason` says how."""

    case: Case
    device: str
    features: str
    plan: str
    error: float  # over what is allowed
    timing: Timing | None
    reason: str

    def row(self) -> dict[str, Any]:
        time_us = self.timing and self.timing.median_us
        return {
            "case": str(self.case),
            "device": self.device,
            "plan": self.plan,
            "features": self.features,
            "time_us": time_us and round(time_us, 3),
            "tflops": time_us and round(self.case.flops() / time_us * 1e-6, 2),
            "spread": self.timing and round(self.timing.spread, 4),
            "error": round(self.error, 4),
            "reason": self.reason,
        }


def time_plans(
    cases: Sequence[Case], device: Device, *, seed: int, plan: str = "", measure: Measure = device_time
) -> Iterator[list[PlanTime]]:
    """For each case every plan that takes it, the fastest first; plans with wrong numbers last and without a time."""
    for case in cases:
        with device.scratch():
            yield _time_case(case, device, seed, plan, measure)


def _time_case(case: Case, device: Device, seed: int, prefix: str, measure: Measure) -> list[PlanTime]:
    tensors = draw(case, device.compute, seed)
    inputs = {name: view(tensors[name], device.upload(tensors[name].storage)) for name in ("q", "k", "v")}
    answer = explain_on(case, device, tensors, inputs, prefix)
    features = str(answer["features"])
    errors, reasons = {}, {}
    for plan in candidates(answer):
        errors[plan], reasons[plan] = _error(case, device, tensors, inputs, plan)
    sides = {p: Side(p, _call(case, device, tensors, inputs, p)) for p in errors if not reasons[p]}
    timings = alternate(sides, measure)
    rows = [PlanTime(case, device.name, features, p, errors[p], timings.get(p), reasons[p]) for p in errors]
    return sorted(rows, key=lambda row: (row.timing is None, row.timing and row.timing.median_us, row.plan))


def _error(
    case: Case, device: Device, tensors: Mapping[str, Any], inputs: Mapping[str, runtime.View], plan: str
) -> tuple[float, str]:
    """Error over what is allowed, and what is wrong, "" if nothing."""
    try:
        outputs, reason = run(case, device, inputs, plan)
    except runtime.AotError as error:
        return 0.0, str(error)
    results: dict[str, Sequence[Outputs]] = {plan: [outputs]}
    figure = worst(judge_all(case, tensors, results)[plan])
    if not figure.passed:
        reason = reason or f"{figure.name}: error {figure.error:.3g}, allowed {figure.allowed:.3g}"
    return figure.error / figure.allowed if figure.allowed else 0.0, reason


def _call(
    case: Case, device: Device, tensors: Mapping[str, Any], inputs: Mapping[str, runtime.View], plan: str | None
) -> Callable[[], None]:
    """The call through the C library, its structs filled once."""
    outputs = {n: view(t, device.upload(t.storage)) for n, t in tensors.items() if n not in inputs}
    params = runtime.parameters(case.op, case.arguments({**inputs, **outputs}))
    where = device.call(plan)
    return lambda: runtime.launch(case.op, params, where)


def record(directory: Path, device: Device, timed: Sequence[PlanTime], revision: str) -> Path:
    """Merge the times into `directory`/<arch>-<operator>.tsv as measured rows."""
    path = rows_path(directory, device.arch, timed[0].case.op)
    rows = [_row(device, t, t.timing, revision) for t in timed if t.timing]
    write_rows(path, merge(read_rows(path), rows))
    return path


def _row(device: Device, timed: PlanTime, timing: Timing, revision: str) -> Row:
    backend, kernel, config = timed.plan.split("/", 2)
    return Row(
        features=timed.features,
        compute_units=device.compute_units,
        seqlen_q=timed.case.seqlen_q,
        seqlen_k=timed.case.seqlen_k,
        batch_heads=timed.case.batch * timed.case.heads_q,
        backend=backend,
        kernel=kernel,
        config=config,
        time_us=timing.median_us,
        spread=timing.spread,
        error=timed.error,
        provenance="measured",
        device=device.name,
        revision=revision,
    )
