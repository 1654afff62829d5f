"""libaotattn_torch.so through ctypes: registration and counters. Attention calls do not come through here."""

import atexit
import ctypes
import logging
from ctypes import CFUNCTYPE, byref, c_char_p, c_int, c_int32, c_uint64, c_void_p

import torch

from .. import runtime
from ..describe import UserError

LIBRARY = "libaotattn_torch.so"
OLDEST_TORCH = "2.11"  # with TORCH_TARGET_VERSION in v2src/torch/CMakeLists.txt

# The operators as the library knows them at each key, by types: their form is PyTorch's to change.
OPERATORS = {
    "CUDA": {
        "_scaled_dot_product_flash_attention": (
            "Tensor Tensor Tensor float bool bool Optional[float]",
            "Tensor Tensor Tensor Tensor int int Tensor Tensor Tensor",
        ),
        "_scaled_dot_product_efficient_attention": (
            "Tensor Tensor Tensor Optional[Tensor] bool float bool Optional[float]",
            "Tensor Tensor Tensor Tensor",
        ),
        "_scaled_dot_product_cudnn_attention": (
            "Tensor Tensor Tensor Optional[Tensor] bool float bool bool Optional[float]",
            "Tensor Tensor Tensor Tensor int int Tensor Tensor Tensor",
        ),
    },
    "CPU": {
        "_scaled_dot_product_flash_attention_for_cpu": (
            "Tensor Tensor Tensor float bool Optional[Tensor] Optional[float]",
            "Tensor Tensor",
        ),
    },
}

LOG_FN = CFUNCTYPE(c_int, c_char_p)
VISIT_FN = CFUNCTYPE(None, c_char_p, c_uint64)


def load() -> ctypes.CDLL:
    """The binding, loaded and its operators defined. Raises ImportError: what is missing, and where it should be."""
    if torch.__version__ < OLDEST_TORCH:  # compares as versions do
        raise ImportError(f"aotattn.torch needs torch >= {OLDEST_TORCH}; this is {torch.__version__}")
    try:
        directory = runtime.library_directory()
    except UserError as error:
        raise ImportError(f"aotattn.torch: {error}") from error
    if not (directory / LIBRARY).exists():
        raise ImportError(f"aotattn.torch: {LIBRARY} is not in {directory}; a build makes it where it finds torch")
    try:
        runtime.library()  # first, so that its log goes to Python's
        lib = ctypes.CDLL(str(directory / LIBRARY))
    except OSError as error:
        raise ImportError(f"aotattn.torch: {directory / LIBRARY} does not load: {error}") from error
    for name, result, arguments in (
        ("load", c_char_p, (c_int32,)),
        ("register", c_char_p, (c_char_p, c_void_p)),
        ("unregister", None, (c_void_p,)),
        ("counters", None, (c_void_p, c_void_p)),
        ("reasons", None, (VISIT_FN,)),
        ("set_log", None, (LOG_FN, c_int32)),
    ):
        function = getattr(lib, f"aotattn_torch_{name}")
        function.restype, function.argtypes = result, arguments
    if failure := lib.aotattn_torch_load(runtime.PLATFORMS[runtime.torch_platform()]):
        raise ImportError(f"aotattn.torch: {failure.decode(errors='replace')}")
    atexit.register(lib.aotattn_torch_set_log, LOG_FN(), 0)  # nobody calls into a dying interpreter
    return lib


_library = load()


def check_operators(key: str) -> None:
    """Raise RuntimeError if this PyTorch's operators have another form than the library knows."""
    for name, known in OPERATORS[key].items():
        schema = getattr(torch.ops.aten, name).default._schema
        found = tuple(" ".join(str(a.type) for a in part) for part in (schema.arguments, schema.returns))
        if found != known:
            raise RuntimeError(f"aotattn does not know torch {torch.__version__}'s form of aten::{name}: {schema}")


def register(emulator: str | None) -> int:
    """Take over the operators on CUDA; or on the CPU, for the emulator that is this process's HIP library."""
    registration = c_void_p()
    if failure := _library.aotattn_torch_register(emulator and emulator.encode(), byref(registration)):
        raise RuntimeError(f"aotattn: {failure.decode(errors='replace')}")
    assert registration.value is not None
    return registration.value


def unregister(registration: int) -> None:
    _library.aotattn_torch_unregister(registration)


def counts() -> tuple[int, int]:
    """Calls served and declined."""
    served, declined = c_uint64(), c_uint64()
    _library.aotattn_torch_counters(byref(served), byref(declined))
    return served.value, declined.value


def reasons() -> dict[str, int]:
    """How many calls were declined for what."""
    found: dict[str, int] = {}

    def visit(reason: bytes, count: int) -> None:
        found[reason.decode(errors="replace")] = count

    _library.aotattn_torch_reasons(VISIT_FN(visit))
    return found


def log_declines(logger: logging.Logger) -> None:
    """Tell `logger` each decline's reason while its debug level is on.

    A level that is turned on later is noticed at the next activation, or at the 1st, 2nd, 4th, 8th ... decline of a
    reason.
    """
    global _log_fn

    def log(reason: bytes) -> bool:
        logger.debug("left to PyTorch: %s", reason.decode(errors="replace"))
        return logger.isEnabledFor(logging.DEBUG)

    _log_fn = LOG_FN(log)
    _library.aotattn_torch_set_log(_log_fn, logger.isEnabledFor(logging.DEBUG))


_log_fn = LOG_FN()  # what the library holds must stay alive
