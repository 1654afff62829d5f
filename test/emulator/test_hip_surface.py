"""The HIP entry points: what programs ask of a runtime, and that errors are statuses and no crashes."""

import ctypes

import assembler
import numpy as np
import pytest
from emulated_hip import HipError

STORE = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_load_dword s6, s[0:1], 0x8
  v_lshlrev_b32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  v_add_u32 v2, s6, v0
  global_store_dword v1, v2, s[4:5]
  s_endpgm
"""
PROPERTY_BYTES = 1472


def test_device_looks_like_a_gfx950(hip):
    count, properties = ctypes.c_int(), ctypes.create_string_buffer(PROPERTY_BYTES + 64)
    hip.check(hip.lib.hipInit(0))
    hip.check(hip.lib.hipGetDeviceCount(ctypes.byref(count)))
    hip.check(hip.lib.hipGetDevicePropertiesR0600(properties, 0))
    integer = lambda at: ctypes.c_int.from_buffer(properties, at).value  # noqa: E731
    assert count.value == 1
    assert properties[1160:1190].split(b"\0")[0] == b"gfx950:sramecc+:xnack-"
    assert (integer(308), integer(388), ctypes.c_size_t.from_buffer(properties, 296).value) == (64, 256, 163840)
    assert properties.raw[PROPERTY_BYTES:] == bytes(64), "nothing is written past the structure"
    value = ctypes.c_int()
    for attribute, expected in ((87, 64), (63, 256), (74, 163840)):
        hip.check(hip.lib.hipDeviceGetAttribute(ctypes.byref(value), attribute, 0))
        assert value.value == expected
    assert hip.lib.hipSetDevice(1) != 0


def test_memory_moves_between_host_and_device(hip):
    data = np.arange(1000, dtype=np.uint8)
    buffer = hip.array(data)
    assert (buffer.numpy() == data).all()
    pointer = ctypes.c_void_p(buffer.pointer)
    hip.check(hip.lib.hipMemsetD8Async(pointer, 5, ctypes.c_size_t(10), None))
    hip.check(hip.lib.hipMemsetD32Async(ctypes.c_void_p(buffer.pointer + 12), 0x01020304, ctypes.c_size_t(2), None))
    assert list(buffer.numpy()[:20]) == [5] * 10 + [10, 11] + [4, 3, 2, 1] * 2
    assert hip.lib.hipMemset(pointer, 0, ctypes.c_size_t(1001)) != 0, "past the end"
    assert hip.lib.hipFree(ctypes.c_void_p(12345)) != 0
    attributes = (ctypes.c_uint64 * 4)()
    hip.check(hip.lib.hipPointerGetAttributes(attributes, pointer))
    assert (attributes[0] & 0xFFFFFFFF, attributes[1]) == (2, buffer.pointer)


def test_launch_takes_pointers_to_arguments_or_a_packed_block(hip):
    function = hip.function(assembler.kernel(STORE), "test_kernel")
    out = hip.empty(64, np.uint32)
    hip.launch(function, (1, 1, 1), (64, 1, 1), 0, out, 100)
    assert (out.numpy() == np.arange(64) + 100).all()
    hip.launch_packed(function, (1, 1, 1), (64, 1, 1), 0, out.pointer.to_bytes(8, "little") + (7).to_bytes(8, "little"))
    assert (out.numpy() == np.arange(64) + 7).all()


def test_registered_host_memory_can_be_used_by_kernels(hip):
    data = np.zeros(64, np.uint32)
    address = data.ctypes.data_as(ctypes.c_void_p)
    function = hip.function(assembler.kernel(STORE), "test_kernel")
    block = address.value.to_bytes(8, "little") + (3).to_bytes(8, "little")
    with pytest.raises(HipError, match=r"near no allocation|past the end|before an allocation"):
        hip.launch_packed(function, (1, 1, 1), (64, 1, 1), 0, block)
    hip.check(hip.lib.hipHostRegister(address, ctypes.c_size_t(data.nbytes), 0))
    hip.launch_packed(function, (1, 1, 1), (64, 1, 1), 0, block)
    assert hip.lib.hipHostRegister(ctypes.c_void_p(address.value + 64), ctypes.c_size_t(8), 0) != 0, "overlaps"
    hip.check(hip.lib.hipHostUnregister(address))
    assert (data == np.arange(64) + 3).all()


def test_streams_and_events_run_in_order(hip):
    stream, first, last, status = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(9)
    lib = hip.lib
    hip.check(lib.hipStreamCreateWithFlags(ctypes.byref(stream), 1))
    hip.check(lib.hipEventCreate(ctypes.byref(first)))
    hip.check(lib.hipEventCreate(ctypes.byref(last)))
    hip.check(lib.hipEventRecord(first, stream))
    hip.check(lib.hipEventRecord(last, stream))
    elapsed = ctypes.c_float(-1)
    hip.check(lib.hipEventElapsedTime(ctypes.byref(elapsed), first, last))
    assert elapsed.value >= 0
    hip.check(lib.hipStreamGetDevice(stream, ctypes.byref(status)))
    assert status.value == 0
    hip.check(lib.hipStreamIsCapturing(stream, ctypes.byref(status)))
    assert status.value == 0
    assert lib.hipGetErrorName(lib.hipStreamBeginCapture(stream, 0)) == b"hipErrorStreamCaptureUnsupported"
    hip.check(lib.hipStreamSynchronize(stream))
    hip.check(lib.hipStreamDestroy(stream))
    assert lib.hipStreamSynchronize(stream) != 0, "a destroyed stream"


def test_wrong_launches_are_refused_in_words(hip):
    function = hip.function(assembler.kernel(STORE), "test_kernel")
    out = hip.empty(64, np.uint32)
    for grid, block, shared, text in (
        ((1, 1, 1), (512, 1, 1), 0, "at most 256"),
        ((0, 1, 1), (64, 1, 1), 0, "empty grid"),
        ((1, 1, 1), (64, 1, 1), 200000, "163840"),
    ):
        with pytest.raises(HipError, match=text):
            hip.launch(function, grid, block, shared, out, 1)
    with pytest.raises(HipError, match="hipErrorNotFound"):
        hip.function(assembler.kernel(STORE), "other")
    assert hip.lib.hipModuleLaunchKernel(ctypes.c_void_p(4096), 1, 1, 1, 64, 1, 1, 0, None, None, None) != 0


def test_modes_that_are_not_emulated_are_refused(hip):
    image = bytearray(assembler.kernel(STORE))
    descriptor = next(offset for name, _, _, offset, _ in assembler.sections(image) if name == ".rodata")
    for byte, value, text in ((49, 0x10, "rounding mode"), (50, 0x01, "denormal mode")):
        changed = bytearray(image)
        changed[descriptor + byte] ^= value
        with pytest.raises(HipError, match=text):
            hip.function(bytes(changed), "test_kernel")


def test_a_bundle_is_opened_and_its_gfx950_entry_taken(hip):
    image = assembler.kernel(STORE)
    entries = [(b"host-x86_64-unknown-linux-gnu-", b""), (b"hipv4-amdgcn-amd-amdhsa--gfx950", image)]
    head = b"__CLANG_OFFLOAD_BUNDLE__" + len(entries).to_bytes(8, "little")
    at, table, data = 4096, b"", b""
    for name, content in entries:
        table += b"".join(x.to_bytes(8, "little") for x in (at + len(data), len(content), len(name))) + name
        data += content
    bundle = (head + table).ljust(at, b"\0") + data
    out = hip.empty(64, np.uint32)
    hip.launch(hip.function(bundle, "test_kernel"), (1, 1, 1), (64, 1, 1), 0, out, 0)
    assert (out.numpy() == np.arange(64)).all()


def test_last_error_is_kept_once(hip):
    hip.lib.hipGetLastError()
    assert hip.lib.hipSetDevice(7) == hip.lib.hipPeekAtLastError() == hip.lib.hipGetLastError() == 101
    assert hip.lib.hipGetLastError() == 0
    assert hip.lib.hipGetErrorName(719) == b"hipErrorLaunchFailure"


def test_knobs_reject_unknown_names_and_values(hip):
    assert hip.lib.aotattn_emu_set(b"order", b"sideways") == 1
    assert hip.lib.aotattn_emu_set(b"colour", b"1") == 1
