"""What a case costs on the emulator: counted instructions and bytes, modelled cycles. Nothing here is measured."""

from collections.abc import Iterator, Mapping
from typing import Any

from .. import runtime
from ..describe import UserError
from ..device import Device, EmulatedDevice
from ..verify import candidates, explain_on, failure, run, view
from .cases import Case
from .inputs import draw

NOTE = "modelled, not measured"
SWITCHES = {"count": "1", "cycles": "1"}


def profile(case: Case, device: Device, *, seed: int, plan: str = "") -> dict[str, Any]:
    """The emulator's profile of the case under its chosen plan, or the first that starts with `plan`.

    The figures are those of the last launch of the plan; `launches` says how many there were.
    Raises UserError if the device is not the emulator, or no plan takes the case, or the launch fails.
    """
    if not isinstance(device, EmulatedDevice):
        raise UserError(f"profile: {device.name} ({device.arch}) is not the emulator; only its launches are modelled")
    if case.empty:
        raise UserError(f"profile: {case} is empty, nothing is launched")
    with device.scratch():
        tensors = draw(case, device.compute, seed)
        inputs = {name: view(tensors[name], device.upload(tensors[name].storage)) for name in ("q", "k", "v")}
        answer = explain_on(case, device, tensors, inputs, plan)
        plans = candidates(answer)
        if not plans:
            raise UserError(f"profile: no plan takes {case}: {answer['reason']}")
        before = runtime.launch_count()
        for name, value in SWITCHES.items():
            device.set(name, value)
        try:
            run(case, device, inputs, plans[0])
        except runtime.AotError as error:
            raise UserError(f"profile: {plans[0]}: {failure(error, device)}") from None
        finally:
            device.set("cycles", "0")
        launches = runtime.launch_count() - before
    figures = device.profile()
    figures["emulation_seconds"] = figures.pop("seconds")
    labels = {"case": str(case), "arch": device.arch, "device": device.name, "plan": plans[0], "note": NOTE}
    return {**labels, "launches": launches, **figures}


def table(row: Mapping[str, Any]) -> list[dict[str, str]]:
    """The figures of a profile, one a row, each with how it came to be: counted, or modelled. Lists are left out."""
    labels = ("case", "arch", "device", "plan", "note", "report")
    return [
        {"figure": name, "value": value, "": "modelled" if name.startswith("modelled.") else "counted"}
        for name, value in _flat({name: value for name, value in row.items() if name not in labels})
    ]


def _flat(figures: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in figures.items():
        if isinstance(value, list):
            continue
        if not isinstance(value, Mapping):
            yield prefix + name, _short(value)
        elif value.keys() == {"median", "low", "high"}:
            yield prefix + name, f"{_short(value['median'])} ({_short(value['low'])} to {_short(value['high'])})"
        else:
            yield from _flat(value, f"{prefix}{name}.")


def _short(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"
