"""The emulated HIP library through ctypes: loading, memory, modules and launches."""

import ctypes
import json
import os
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


def library_path():
    return Path(os.environ.get("AOTATTN_HIP_LIBRARY", ROOT / "build" / "emulator" / "libamdhip64.so"))


class HipError(RuntimeError):
    def __init__(self, name, report):
        super().__init__(f"{name}: {report}")
        self.name = name
        self.report = report


class WaveState(ctypes.Structure):
    """Registers of one wave, as aotattn_emulator.h lays them out."""

    _fields_ = (
        ("scalar", ctypes.c_uint32 * 128),
        ("scc", ctypes.c_uint32),
        ("flush_f32", ctypes.c_uint32),
        ("vector", ctypes.c_uint32 * 64 * 512),
        ("lds", ctypes.c_uint8 * 65536),
    )


class Buffer:
    """Device memory that holds a copy of an array; `guard` bytes around it find stray writes."""

    def __init__(self, hip, array=None, *, shape=None, dtype=None):
        self.hip = hip
        self.shape = array.shape if array is not None else shape
        self.dtype = array.dtype if array is not None else np.dtype(dtype)
        self.nbytes = int(np.prod(self.shape)) * self.dtype.itemsize
        pointer = ctypes.c_void_p()
        hip.check(hip.lib.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(self.nbytes)))
        self.pointer = pointer.value
        if array is not None:
            data = np.ascontiguousarray(array)
            hip.check(hip.lib.hipMemcpy(pointer, data.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(self.nbytes), 1))

    def numpy(self):
        out = np.empty(self.shape, self.dtype)
        source = ctypes.c_void_p(self.pointer)
        self.hip.check(
            self.hip.lib.hipMemcpy(out.ctypes.data_as(ctypes.c_void_p), source, ctypes.c_size_t(self.nbytes), 2)
        )
        return out

    def __del__(self):
        if getattr(self, "pointer", None):
            self.hip.lib.hipFree(ctypes.c_void_p(self.pointer))


# The default of every knob, restored before a test sets its own.
DEFAULTS = {
    "check": "all", "order": "round_robin", "completion": "issue", "simd": "auto", "preload": "1",
    "threads": "0", "cycles": "0", "count": "1", "print": "0", "waive_races": "", "seed": "1",
    "limit": str(1 << 40),
}  # fmt: skip


class Hip:
    """One loaded library. Knobs are set for the process; `knobs` restores the defaults."""

    def __init__(self):
        self.lib = ctypes.CDLL(str(library_path()))
        for name in ("hipGetErrorName", "aotattn_emu_report", "aotattn_emu_profile", "aotattn_emu_rows"):
            getattr(self.lib, name).restype = ctypes.c_char_p
        self.lib.aotattn_emu_disassemble.restype = ctypes.c_char_p
        self.set()

    def set(self, **knobs):
        for name, value in {**DEFAULTS, **{k: str(v) for k, v in knobs.items()}}.items():
            assert self.lib.aotattn_emu_set(name.encode(), value.encode()) == 0, f"knob {name}={value}"

    def check(self, status):
        if status:
            raise HipError(self.lib.hipGetErrorName(status).decode(), self.report())

    def report(self):
        return self.lib.aotattn_emu_report().decode()

    def profile(self):
        return json.loads(self.lib.aotattn_emu_profile())

    def rows(self):
        return json.loads(self.lib.aotattn_emu_rows())

    def array(self, array):
        return Buffer(self, array)

    def empty(self, shape, dtype):
        return Buffer(self, shape=shape, dtype=dtype)

    def module(self, image):
        """Handle of a loaded code object (bytes)."""
        keep = ctypes.create_string_buffer(image, len(image))
        module = ctypes.c_void_p()
        self.check(self.lib.hipModuleLoadData(ctypes.byref(module), keep))
        return module

    def unload(self, module):
        self.check(self.lib.hipModuleUnload(module))

    def function(self, image, name):
        function = ctypes.c_void_p()
        module = image if isinstance(image, ctypes.c_void_p) else self.module(image)
        self.check(self.lib.hipModuleGetFunction(ctypes.byref(function), module, name.encode()))
        return function

    def launch(self, function, grid, block, shared, *args):
        """`args`: Buffers, ints (with a numpy type for other than i32) and floats (f32)."""
        values = [self.argument(a) for a in args]
        pointers = (ctypes.c_void_p * (len(values) + 1))(*[ctypes.addressof(v) for v in values], None)
        self.check(self.lib.hipModuleLaunchKernel(function, *grid, *block, shared, None, pointers, None))

    def launch_packed(self, function, grid, block, shared, block_bytes):
        data = ctypes.create_string_buffer(block_bytes, len(block_bytes))
        size = ctypes.c_size_t(len(block_bytes))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(data), 2, ctypes.addressof(size), 3)
        self.check(self.lib.hipModuleLaunchKernel(function, *grid, *block, shared, None, None, extra))

    @staticmethod
    def argument(value):
        if isinstance(value, Buffer):
            return ctypes.c_uint64(value.pointer)
        if value is None:
            return ctypes.c_uint64(0)
        if isinstance(value, float):
            return ctypes.c_float(value)
        if isinstance(value, np.generic):
            return (ctypes.c_uint8 * value.itemsize).from_buffer_copy(value.tobytes())
        return ctypes.c_int32(value)

    def run_words(self, words, state):
        array = (ctypes.c_uint32 * len(words))(*words)
        if self.lib.aotattn_emu_run(array, ctypes.c_uint64(len(words)), ctypes.byref(state)):
            raise HipError("run", self.report())

    def disassemble(self, words):
        array = (ctypes.c_uint32 * len(words))(*words)
        size = ctypes.c_uint32()
        text = self.lib.aotattn_emu_disassemble(array, ctypes.c_uint64(len(words)), ctypes.byref(size))
        return text.decode(), size.value
