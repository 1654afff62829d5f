"""Device memory, from torch where torch has the device, else from the HIP library that AOTATTN_HIP_LIBRARY names.

Where there is neither, the emulator that was built beside the library is named there.
Values are drawn and judged in torch tensors on `Device.compute`; `upload` makes a flat one readable by kernels and
`download` brings back what kernels have written to it. For a torch device both are the tensor itself.
"""

import ctypes
import json
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import knobs, runtime
from .describe import UserError

if TYPE_CHECKING:
    import torch

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2  # hipMemcpyKind


class DeviceFault(Exception):
    """Work on the device failed; nothing more can run there in this process."""


@dataclass
class Device:
    """A device that torch has. `compute` is a torch device: where values are drawn and judged."""

    platform: str
    ordinal: int
    arch: str
    compute_units: int
    name: str
    compute: str
    held: dict[int, "torch.Tensor | None"] = field(default_factory=dict)  # pointer -> what keeps it alive

    def upload(self, storage: "torch.Tensor") -> int:
        """Pointer to device memory with the contents of a flat tensor, until `free`."""
        self.held[storage.data_ptr()] = storage
        return storage.data_ptr()

    def download(self, pointer: int, storage: "torch.Tensor") -> None:
        """Copy the device memory back into the flat tensor that it came from."""

    def free(self, pointer: int) -> None:
        del self.held[pointer]

    def allocate(self, size: int) -> int:
        """Workspace for the C library."""
        import torch

        return self.upload(torch.empty(size, dtype=torch.uint8, device=self.compute))

    def stream(self) -> int:
        import torch

        return torch.cuda.current_stream(self.ordinal).cuda_stream

    def synchronize(self) -> None:
        """Wait for all work. Raises DeviceFault."""
        import torch

        try:
            torch.cuda.synchronize(self.ordinal)
        except RuntimeError as error:
            raise DeviceFault(str(error).splitlines()[0]) from None

    def report(self) -> str:
        """What is known of a launch that has just failed, "" if nothing."""
        return ""

    def call(self, plan: str | None = None) -> runtime.CCall:
        return runtime.call(self.platform, self.ordinal, stream=self.stream(), allocate=self.allocate, plan=plan)

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """Frees on exit what was uploaded and allocated inside."""
        before = set(self.held)
        try:
            yield
        finally:
            for pointer in set(self.held) - before:
                self.free(pointer)


@dataclass
class HipDevice(Device):
    """A device of a HIP library that torch does not know of, such as an emulator's."""

    hip: ctypes.CDLL = field(kw_only=True)

    def upload(self, storage: "torch.Tensor") -> int:
        pointer = self.allocate(storage.nbytes)
        self._try("hipMemcpy", c_void_p(pointer), c_void_p(storage.data_ptr()), storage.nbytes, HOST_TO_DEVICE)
        return pointer

    def download(self, pointer: int, storage: "torch.Tensor") -> None:
        self._try("hipMemcpy", c_void_p(storage.data_ptr()), c_void_p(pointer), storage.nbytes, DEVICE_TO_HOST)

    def free(self, pointer: int) -> None:
        del self.held[pointer]
        self._try("hipFree", c_void_p(pointer))

    def allocate(self, size: int) -> int:
        pointer = c_void_p()
        self._try("hipSetDevice", self.ordinal)
        self._try("hipMalloc", byref(pointer), max(size, 1))
        self.held[pointer.value or 0] = None
        return pointer.value or 0

    def stream(self) -> int:
        return 0

    def synchronize(self) -> None:
        self._try("hipDeviceSynchronize")

    def _try(self, function: str, *arguments: object) -> None:
        if code := getattr(self.hip, function)(*arguments):
            raise DeviceFault(f"{function}: {self.hip.hipGetErrorString(code).decode()} ({code})")


@dataclass
class EmulatedDevice(HipDevice):
    """The device of our emulator; emulator/hip/aotattn_emulator.h declares what it offers beyond HIP."""

    def report(self) -> str:
        return " ".join(str(self.hip.aotattn_emu_report().decode()).split())

    def set(self, name: str, value: str) -> None:
        """Set one of the emulator's switches, docs/emulator.md. Raises UserError if it has no such name or value."""
        if self.hip.aotattn_emu_set(name.encode(), value.encode()):
            raise UserError(f"the emulator has no switch {name} = {value}")

    def profile(self) -> dict[str, Any]:
        """Counters of the last launch and, with the switch cycles, modelled cycles."""
        answer: dict[str, Any] = json.loads(self.hip.aotattn_emu_profile())
        return answer


def open_device(arch: str | None = None) -> Device:
    """The first device, or the first of `arch`. Raises UserError if there is none."""
    found = []
    for device in _devices():
        if arch in (None, device.arch):
            return device
        found.append(f"{device.name} ({device.arch})")
    wanted = f"no device of arch {arch}" if arch else "no device"
    hint = ""
    if not found and not knobs.value("AOTATTN_HIP_LIBRARY"):
        hint = f"; there is no emulator at {emulator_library()} either, run make build"
    raise UserError(f"{wanted}: there is {', '.join(found) or 'none that torch can use'}{hint}")


def _devices() -> Iterator[Device]:
    import torch

    if torch.cuda.is_available():
        platform = runtime.torch_platform()
        for ordinal in range(torch.cuda.device_count()):
            name = torch.cuda.get_device_name(ordinal)
            torch.zeros(1, device=f"cuda:{ordinal}")  # the driver's context, before the C library asks for it
            yield Device(platform, ordinal, *runtime.device_info(platform, ordinal), name, f"cuda:{ordinal}")
    elif library := knobs.value("AOTATTN_HIP_LIBRARY") or name_emulator():
        hip = _hip_library(library)
        emulated = hasattr(hip, "aotattn_emu_report")
        count = c_int()
        if hip.hipGetDeviceCount(byref(count)):
            return
        for ordinal in range(count.value):
            arch, compute_units = runtime.device_info("hip", ordinal)
            name = f"emulated {arch}" if emulated else f"{arch} of {library}"
            kind = EmulatedDevice if emulated else HipDevice
            yield kind("hip", ordinal, arch, compute_units, name, "cpu", hip=hip)


def emulator_library() -> Path:
    """Where the build puts the emulator: in a directory of its own, so nobody loads it by accident."""
    return runtime.library_directory().parent / "emulator" / "libamdhip64.so"


def name_emulator() -> str:
    """Make the emulator this process's HIP library, before anything loads one; "" if it is not built.

    Only for a process in which torch finds no HIP device and nobody has named a HIP library.
    """
    library = emulator_library()
    if not library.exists():
        return ""
    knobs.choose("AOTATTN_HIP_LIBRARY", str(library))
    return knobs.value("AOTATTN_HIP_LIBRARY")


def load_emulator() -> str:
    """Load the emulator as this process's HIP library, unless one is loaded or named; the path of what is named.

    Raises UserError if there is no emulator or it would stand in for a GPU, AotError if what is named does not load.
    """
    import torch

    library = knobs.value("AOTATTN_HIP_LIBRARY")
    if not library and torch.version.hip:
        raise UserError("torch's GPUs are HIP devices; to have the emulator instead, name it in AOTATTN_HIP_LIBRARY")
    if not (library := library or name_emulator()):
        raise UserError(f"there is no emulator at {emulator_library()}, run make build")
    runtime.device_info("hip", 0)
    return library


def _hip_library(path: str) -> ctypes.CDLL:
    try:
        hip = ctypes.CDLL(path)
    except OSError as error:
        raise UserError(f"AOTATTN_HIP_LIBRARY = {path}: {error}") from None
    hip.hipGetErrorString.restype = c_char_p
    hip.hipMalloc.argtypes = (POINTER(c_void_p), c_size_t)
    hip.hipMemcpy.argtypes = (c_void_p, c_void_p, c_size_t, c_int)
    if hasattr(hip, "aotattn_emu_report"):
        hip.aotattn_emu_report.restype = hip.aotattn_emu_profile.restype = c_char_p
    return hip
