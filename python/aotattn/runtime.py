"""The C library from Python: ctypes over include/aotattn/aotattn.h.

The parameter struct of an operator follows from its description: `struct_size`, then the arguments in their order.
Tensors are torch tensors or `View`s of plain pointers; torch is imported only where a torch tensor needs it.
"""

import atexit
import ctypes
import functools
import json
import logging
from collections.abc import Callable, Mapping
from ctypes import byref, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .describe import Choice, Scalar, Tensor, UserError
from .dtypes import DTYPES
from .ops.attn_fwd import attn_fwd as attn_fwd_operator

if TYPE_CHECKING:
    import torch

LIBRARY = "libaotattn.so"
OPERATORS = {op.name: op for op in (attn_fwd_operator,)}
PLATFORMS = {"cuda": 0, "hip": 1}  # aot_platform
SCALARS = {"f32": c_float, "i64": c_int64}
MAX_RANK = 4

Allocate = Callable[[int], int]  # bytes -> device pointer, 0 if there is none
ALLOCATE_FN = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t)
LOG_FN = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p)
LOG_LEVELS = {0: logging.WARNING, 1: logging.DEBUG}


class AotError(RuntimeError):
    """A status of the C library other than AOT_OK, with its sentence."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.name = status_name(status)
        super().__init__(f"{self.name}: {message}")


class CTensor(ctypes.Structure):
    """aot_tensor"""

    _fields_ = (
        ("data", c_void_p),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("size", c_int64 * MAX_RANK),
        ("stride", c_int64 * MAX_RANK),
    )


class CCall(ctypes.Structure):
    """aot_call"""

    _fields_ = (
        ("struct_size", c_uint32),
        ("platform", c_int32),
        ("device", c_int32),
        ("reserved", c_int32),
        ("stream", c_void_p),
        ("allocate", ALLOCATE_FN),
        ("allocate_context", c_void_p),
        ("plan", c_char_p),
    )


@dataclass(frozen=True)
class View:
    """Device memory as the C library sees it; strides count elements."""

    pointer: int
    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...]


def view_of(tensor: "torch.Tensor") -> View:
    names = {d.torch: d.name for d in DTYPES.values()}
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in names:
        raise UserError(f"a tensor has dtype {dtype}; allowed: {', '.join(names)}")
    return View(tensor.data_ptr(), names[dtype], tuple(tensor.shape), tuple(tensor.stride()))


@functools.cache
def parameter_struct(op: str) -> type[ctypes.Structure]:
    """The ctypes form of aot_<op>_params, out of the operator's description."""
    fields: list[tuple[str, Any]] = [("struct_size", c_uint32)]
    for arg in OPERATORS[op].args:
        match arg:
            case Choice():
                fields.append((arg.name, c_int32))
            case Scalar():
                fields.append((arg.name, SCALARS[arg.dtype]))
            case Tensor():
                fields.append((arg.name, CTensor))
    return type(f"aot_{op}_params", (ctypes.Structure,), {"_fields_": tuple(fields)})


def parameters(op: str, values: Mapping[str, Any]) -> ctypes.Structure:
    """Fill the parameter struct of `op`: choices by name, scalars, and tensors (torch tensor, View or None).

    The struct holds pointers only; the caller keeps the memory alive.
    Raises UserError for a name or a choice that the operator does not have.
    """
    operator = OPERATORS[op]
    if unknown := sorted(values.keys() - {a.name for a in operator.args}):
        raise UserError(f"{op} has no argument {', '.join(unknown)}")
    struct = parameter_struct(op)()
    struct.struct_size = ctypes.sizeof(struct)
    for arg in operator.args:
        if values.get(arg.name) is None:
            continue
        value = values[arg.name]
        match arg:
            case Choice():
                if value not in arg.values:
                    raise UserError(f"{op}: {arg.name} = {value}; allowed: {', '.join(map(str, arg.values))}")
                setattr(struct, arg.name, arg.values.index(value))
            case Scalar():
                setattr(struct, arg.name, value)
            case Tensor():
                setattr(struct, arg.name, _tensor(value if isinstance(value, View) else view_of(value)))
    return struct


def _tensor(view: View) -> CTensor:
    if len(view.size) > MAX_RANK or len(view.size) != len(view.stride):
        raise UserError(
            f"a tensor has {len(view.size)} sizes and {len(view.stride)} strides; at most {MAX_RANK} of each"
        )
    struct = CTensor(view.pointer, DTYPES[view.dtype].code, len(view.size))
    struct.size[: len(view.size)] = view.size
    struct.stride[: len(view.stride)] = view.stride
    return struct


def call(
    platform: str, device: int, *, stream: int = 0, allocate: Allocate | None = None, plan: str | None = None
) -> CCall:
    """How and where to run. `plan`: only plans "backend/kernel/config" that start with this."""
    struct = CCall(ctypes.sizeof(CCall), PLATFORMS[platform], device, 0, stream)
    if allocate is not None:
        struct.allocate = ALLOCATE_FN(lambda _, size: allocate(size))
    if plan:
        struct.plan = plan.encode()
    return struct


def torch_call(device: "torch.device", *, plan: str | None = None) -> CCall:
    """A call on torch's current stream of `device`, with workspace from torch's caching allocator.

    The workspace is kept as long as the struct; given back later, it is reused in the order of the stream.
    """
    import torch

    kept: list[torch.Tensor] = []

    def allocate(size: int) -> int:
        kept.append(torch.empty(size, dtype=torch.uint8, device=device))
        return kept[-1].data_ptr()

    ordinal = torch.cuda.current_device() if device.index is None else device.index
    stream = torch.cuda.current_stream(ordinal).cuda_stream
    return call(torch_platform(), ordinal, stream=stream, allocate=allocate, plan=plan)


def torch_platform() -> str:
    import torch

    return "hip" if torch.version.hip else "cuda"


def library_directory() -> Path:
    """Where libaotattn.so is: the package's own lib/ (a wheel), else build/lib of the repository."""
    package = Path(__file__).resolve().parent
    places = [package / "lib", package.parent.parent / "build" / "lib"]
    for place in places:
        if (place / LIBRARY).exists():
            return place
    raise UserError(f"{LIBRARY} is neither in {places[0]} nor in {places[1]}; run make build")


@functools.cache
def library() -> ctypes.CDLL:
    """The C library, loaded once, its log sent to the Python logger "aotattn"."""
    lib = ctypes.CDLL(str(library_directory() / LIBRARY))
    for op in OPERATORS:
        _declare(lib, f"aot_{op}", c_int32, c_void_p, c_void_p)
    _declare(lib, "aot_preload", c_int32, c_char_p, c_void_p, c_void_p)
    _declare(
        lib,
        "aot_explain",
        *(c_int32, c_char_p, c_void_p, c_char_p, c_int32, c_char_p, c_char_p, c_size_t, c_void_p),
    )
    _declare(lib, "aot_set_tuning_db", c_int32, c_char_p)
    _declare(lib, "aot_device_info", c_int32, c_int32, c_int32, c_char_p, c_size_t, c_void_p)
    _declare(lib, "aot_last_error", c_char_p)
    _declare(lib, "aot_status_name", c_char_p, c_int32)
    _declare(lib, "aot_version", c_char_p)
    _declare(lib, "aot_build_info", c_char_p)
    _declare(lib, "aot_launch_count", c_uint64)
    _declare(lib, "aot_set_log", None, LOG_FN, c_void_p)
    log = LOG_FN(_log)
    lib.aot_set_log(log, None)
    atexit.register(_end_log, lib, log)
    return lib


def _declare(lib: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> None:
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments


def _log(_context: int | None, level: int, message: bytes) -> None:
    logging.getLogger("aotattn").log(LOG_LEVELS.get(level, logging.DEBUG), "%s", message.decode(errors="replace"))


def _end_log(lib: ctypes.CDLL, _log_kept_until_now: Any) -> None:
    """Nobody calls into a dying interpreter."""
    lib.aot_set_log(LOG_FN(), None)


def status_name(status: int) -> str:
    return str(library().aot_status_name(status).decode())


def check(status: int) -> None:
    """Raise AotError unless `status` is AOT_OK."""
    if status:
        raise AotError(status, library().aot_last_error().decode(errors="replace"))


def launch(op: str, params: ctypes.Structure, where: CCall) -> None:
    """Enqueue `op`; returns before the device has run it."""
    check(getattr(library(), f"aot_{op}")(byref(params), byref(where)))


def attn_fwd(
    q: "torch.Tensor",
    k: "torch.Tensor",
    v: "torch.Tensor",
    out: "torch.Tensor",
    lse: "torch.Tensor | None" = None,
    *,
    sm_scale: float,
    mask: str = "none",
    alignment: str = "top_left",
    window_left: int = -1,
    window_right: int = -1,
    plan: str | None = None,
) -> None:
    """out, lse = attention(q, k, v) on torch's current stream; shapes and rules as in aotattn.h. Raises AotError."""
    named = {"mask": mask, "alignment": alignment, "window_left": window_left, "window_right": window_right}
    params = parameters("attn_fwd", named | {"sm_scale": sm_scale, "q": q, "k": k, "v": v, "out": out, "lse": lse})
    launch("attn_fwd", params, torch_call(q.device, plan=plan))


def preload(op: str, params: ctypes.Structure, where: CCall) -> None:
    """Load what `params` would launch."""
    check(library().aot_preload(op.encode(), byref(params), byref(where)))


def explain(
    op: str, params: ctypes.Structure, arch: str, *, compute_units: int = 0, plan: str | None = None
) -> dict[str, Any]:
    """Which plan a problem gets on `arch` and why, without a device; the JSON object that aotattn.h describes."""
    needed = c_size_t()
    size = 4096
    while True:
        text = ctypes.create_string_buffer(size)
        status = library().aot_explain(
            *(op.encode(), byref(params), arch.encode(), compute_units),
            *(plan.encode() if plan else None, text, size, byref(needed)),
        )
        if status == 0 or needed.value <= size:
            check(status)
            answer: dict[str, Any] = json.loads(text.value)
            return answer
        size = needed.value


def device_info(platform: str, device: int) -> tuple[str, int]:
    """The arch of a device and its number of compute units."""
    arch, compute_units = ctypes.create_string_buffer(64), c_int32()
    check(library().aot_device_info(PLATFORMS[platform], device, arch, len(arch), byref(compute_units)))
    return arch.value.decode(), compute_units.value


def set_tuning_db(path: Path | None) -> None:
    """Lay a user's tuning database over the installed one; None takes it away."""
    check(library().aot_set_tuning_db(str(path).encode() if path else None))


def version() -> str:
    return str(library().aot_version().decode())


def build_info() -> dict[str, Any]:
    info: dict[str, Any] = json.loads(library().aot_build_info())
    return info


def launch_count() -> int:
    """Kernels launched by this process so far."""
    return int(library().aot_launch_count())
