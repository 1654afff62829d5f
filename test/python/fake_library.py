"""The C library played by Python on CPU memory: it reads the structs that callers fill, computes the plain formula."""

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from aotattn import runtime
from aotattn.bench.cases import Case
from aotattn.device import Device, DeviceFault
from aotattn.dtypes import DTYPES
from aotattn.reference import Mask, plain
from aotattn.runtime import AotError

torch.set_num_threads(1)  # small tensors on shared cores
Outputs = dict[str, torch.Tensor]


@dataclass
class FakeDevice(Device):
    """CPU memory with the air of a device."""

    def stream(self) -> int:
        return 0

    def synchronize(self) -> None:
        pass


def fake_device() -> FakeDevice:
    return FakeDevice("cuda", 0, "sm_90", 132, "fake", "cpu")


def tensor_of(struct: Any) -> torch.Tensor | None:
    """The torch tensor over the memory that an aot_tensor points to."""
    dtype = next(d for d in DTYPES.values() if d.code == struct.dtype or not struct.data)
    size, stride = list(struct.size)[: struct.rank], list(struct.stride)[: struct.rank]
    if not struct.data or 0 in size:
        return torch.empty(size) if struct.data else None
    count = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    memory = (ctypes.c_char * (count * dtype.bytes)).from_address(struct.data)
    return torch.frombuffer(memory, dtype=getattr(torch, dtype.torch)).as_strided(size, stride)


@dataclass
class FakeLibrary:
    """plans: name -> what it does to right outputs; "decline" in a name makes it refuse at the call."""

    plans: dict[str, Callable[[Outputs], object]]
    features: str = "dtype=bf16"
    launches: list[str | None] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runtime, "explain", self.explain)
        monkeypatch.setattr(runtime, "launch", self.launch)
        monkeypatch.setattr(runtime, "launch_count", lambda: len(self.launches))
        monkeypatch.setattr(runtime, "status_name", lambda status: f"AOT_{status}")

    def explain(
        self, op: str, params: Any, arch: str, *, compute_units: int = 0, plan: str | None = None
    ) -> dict[str, Any]:
        names = [name for name in self.plans if name.startswith(plan or "")]
        status = "ok" if names else "unsupported"
        return {
            "op": op,
            "arch": arch,
            "status": status,
            "reason": None if names else "no kernel takes it",
            "features": self.features,
            "plan": [],
            "candidates": [{"plan": name, "refused": None} for name in names],
        }

    def launch(self, op: str, params: Any, where: Any) -> None:
        assert params.struct_size == ctypes.sizeof(runtime.parameter_struct(op))
        q, k, v, out, lse = (tensor_of(getattr(params, name)) for name in ("q", "k", "v", "out", "lse"))
        assert q is not None
        assert k is not None
        assert v is not None
        assert out is not None
        if out.numel() == 0:
            return
        plan = where.plan.decode() if where.plan else next(iter(self.plans))
        self.launches.append(plan)
        if "decline" in plan:
            raise AotError(3, "declined at the call")
        words = runtime.OPERATORS[op].args[:2]
        mask, alignment = (words[i].values[getattr(params, words[i].name)] for i in range(2))  # type: ignore[union-attr]
        bounds = Mask(str(mask), str(alignment), params.window_left, params.window_right)
        right, right_lse = plain(q, k, v, sm_scale=params.sm_scale, mask=bounds)
        out.copy_(right)
        if lse is not None:
            lse.copy_(right_lse)
        self.plans[plan]({"out": out, "lse": lse if lse is not None else torch.empty(0)})


def right(outputs: Outputs) -> None:
    """Leaves the outputs right."""


def unwritten(outputs: Outputs) -> None:
    outputs["out"][..., -1, :] = math.nan


def stray(outputs: Outputs) -> None:
    out = outputs["out"]
    out.as_strided((1,), (1,), 0)[0] = out.flatten()[0]
    before = (ctypes.c_uint16).from_address(out.data_ptr() - 2)
    before.value = 0


def base_two(outputs: Outputs) -> None:
    outputs["lse"] *= 1.4426950408889634


def coarse(outputs: Outputs) -> None:
    outputs["out"] *= 1.02


def faulty(outputs: Outputs) -> None:
    raise DeviceFault("illegal address")


def some_case() -> Case:
    return Case(batch=2, heads_q=4, heads_k=2, seqlen_q=70, seqlen_k=90, head_dim=16, mask="causal")
