"""What a call costs the host, against the budgets of the design.

The C library is called through ctypes, whose own cost is taken off: the same number of arguments to a C function that
does nothing. The driver's launch is taken off as well: an empty kernel with as many parameters, launched in turn with
our calls in the same run. Times are of calls enqueued one after another, the queue emptied between rounds.
"""

import ctypes
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from time import perf_counter
from typing import Any

from .. import knobs, runtime
from ..device import Device, open_device
from ..verify import view
from .against import OURS, ours, peer, sdpa, takes
from .cases import Case
from .inputs import draw
from .timing import Side, Timing, alternate

SMALL = Case(heads_q=2, seqlen_q=64, head_dim=64)
ABI_BUDGET_US, FIRST_CALL_BUDGET_US, LIBRARY_BUDGET_BYTES = 1.0, 10_000.0, 3_000_000
FRESH_PROCESSES = 5
LAUNCH_ARGUMENTS = 11  # of cuLaunchKernel
HEX_DIGITS = 16  # of an 8-byte parameter in the argument block
EMPTY_KERNEL = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry empty({parameters})\n{{ ret; }}\n"


def host(device: Device) -> Iterator[dict[str, Any]]:
    """One row a figure: measure, device, value, unit, budget, spread, how."""
    yield from _sizes()
    yield from _abi(device)
    yield from _sdpa(device)
    yield from _first_call(device)


def _row(measure: str, device: str, value: float, unit: str, how: str, **more: Any) -> dict[str, Any]:
    return {"measure": measure, "device": device, "value": round(value, 3), "unit": unit, **more, "how": how}


def _sizes() -> Iterator[dict[str, Any]]:
    path = runtime.library_directory() / runtime.LIBRARY
    size = path.stat().st_size
    yield _row("library_size", "", size, "bytes", f"size of {path.name}", budget=LIBRARY_BUDGET_BYTES)


def _abi(device: Device) -> Iterator[dict[str, Any]]:
    with device.scratch():
        tensors = draw(SMALL, device.compute, seed=1)
        views = {n: view(t, device.upload(t.storage)) for n, t in tensors.items()}
        params = runtime.parameters(SMALL.op, SMALL.arguments(views))
        where = device.call()
        runtime.launch(SMALL.op, params, where)
        answer = runtime.explain(SMALL.op, params, device.arch, compute_units=device.compute_units)
        sides = {"call": _abi_call("aot_attn_fwd", byref(params), byref(where)), "nothing": _nothing(2)}
        sides["choose"] = _abi_call("aot_preload", SMALL.op.encode(), byref(params), byref(where))
        sides["nothing_3"] = _nothing(3)
        if launch := _empty_launch(device, len(answer["plan"][0]["arguments"]) // HEX_DIGITS):
            sides |= {"launch": launch, "nothing_11": _nothing(LAUNCH_ARGUMENTS)}
        times = alternate({n: Side(n, call) for n, call in sides.items()}, _host_time(device))
    call = times["call"].median_us - times["nothing"].median_us
    choose = times["choose"].median_us - times["nothing_3"].median_us
    yield _row("abi_call", device.name, call, "us", "aot_attn_fwd, driver launch included", **_spread(times["call"]))
    yield _row("abi_choose", device.name, choose, "us", "aot_preload of a loaded problem: validate and choose")
    if "launch" in times:
        launch_us = times["launch"].median_us - times["nothing_11"].median_us
        how = "cuLaunchKernel of an empty kernel with as many parameters"
        yield _row("driver_launch", device.name, launch_us, "us", how, **_spread(times["launch"]))
        how = "abi_call - driver_launch: validate, choose and pack"
        yield _row("abi_host", device.name, call - launch_us, "us", how, budget=ABI_BUDGET_US)


def _spread(timing: Timing) -> dict[str, float]:
    return {"spread": round(timing.spread, 4)}


def _host_time(device: Device) -> Callable[[Callable[[], Any], int], float]:
    def measure(call: Callable[[], Any], times: int) -> float:
        device.synchronize()
        start = perf_counter()
        for _ in range(times):
            call()
        elapsed = perf_counter() - start
        device.synchronize()
        return elapsed * 1e6 / times

    return measure


def _abi_call(name: str, *arguments: Any) -> Callable[[], Any]:
    function = getattr(runtime.library(), name)
    return lambda: function(*arguments)


def _nothing(arguments: int) -> Callable[[], Any]:
    """A C function called with this many pointers; it reads the first byte of two of them."""
    function = ctypes.CFUNCTYPE(c_int, *(c_void_p,) * arguments)(("strcmp", ctypes.CDLL(None)))
    texts = [ctypes.create_string_buffer(b"a"), ctypes.create_string_buffer(b"b")]
    pointers = [byref(texts[min(i, 1)]) for i in range(arguments)]
    return lambda: function(*pointers)


def _empty_launch(device: Device, parameters: int) -> Callable[[], Any] | None:
    """A launch of an empty kernel through the CUDA driver; None where there is no such driver or it compiles no PTX."""
    if device.platform != "cuda":
        return None
    cuda = ctypes.CDLL(knobs.value("AOTATTN_CUDA_LIBRARY") or "libcuda.so.1")
    module, function = c_void_p(), c_void_p()
    ptx = EMPTY_KERNEL.format(parameters=", ".join(f".param .u64 p{i}" for i in range(parameters)))
    if cuda.cuModuleLoadData(byref(module), c_char_p(ptx.encode())):
        return None
    if cuda.cuModuleGetFunction(byref(function), module, c_char_p(b"empty")):
        return None
    cuda.cuLaunchKernel.argtypes = (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p)
    value = c_size_t()
    pointers = (c_void_p * max(parameters, 1))(*[ctypes.addressof(value)] * parameters)
    arguments = (function, 1, 1, 1, 128, 1, 1, 0, c_void_p(device.stream()), byref(pointers), None)

    def launch(_kept: Any = (value, pointers)) -> None:
        cuda.cuLaunchKernel(*arguments)

    return launch


def _sdpa(device: Device) -> Iterator[dict[str, Any]]:
    """F.scaled_dot_product_attention on small tensors, ours and PyTorch's flash path in turn."""
    with device.scratch():
        tensors = draw(SMALL, device.compute, seed=1)
        call = sdpa(SMALL, *(tensors[name].view for name in "qkv"))
        sides = {s.name: s for s in (ours(call), *(peer(n, call) for n in ("flash", "cudnn", "efficient"))) if takes(s)}
        times = alternate(sides, _host_time(device))
    flash = {"budget": round(times["flash"].median_us, 3)} if "flash" in times else {}
    for name, timing in times.items():
        how = f"F.scaled_dot_product_attention of {SMALL}"
        budget = flash if name == OURS else {}
        yield _row(f"sdpa_{name}", device.name, timing.median_us, "us", how, **_spread(timing), **budget)


def _first_call(device: Device) -> Iterator[dict[str, Any]]:
    program = "import sys; from aotattn.bench.host import first_call; first_call(sys.argv[1])"
    command = [sys.executable, "-c", program, device.arch]
    runs = []
    for _ in range(FRESH_PROCESSES):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    first, second = (statistics.median(r[name] for r in runs) for name in ("first_us", "second_us"))
    how = f"first aot_attn_fwd of a fresh process with a context, median of {FRESH_PROCESSES}; second {second:.1f} us"
    yield _row("first_call", device.name, first, "us", how, budget=FIRST_CALL_BUDGET_US)


def first_call(arch: str) -> None:
    """What a fresh process runs: print the time of the first call and of the second."""
    device = open_device(arch)
    tensors = draw(SMALL, device.compute, seed=1)
    views = {n: view(t, device.upload(t.storage)) for n, t in tensors.items()}
    params, where = runtime.parameters(SMALL.op, SMALL.arguments(views)), device.call()
    device.synchronize()
    times = []
    for _ in range(2):
        start = perf_counter()
        runtime.launch(SMALL.op, params, where)
        times.append((perf_counter() - start) * 1e6)
        device.synchronize()
    print(json.dumps(dict(zip(("first_us", "second_us"), times, strict=True))))
