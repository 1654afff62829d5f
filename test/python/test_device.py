"""Device memory through a HIP library that torch does not know of, played by a C file."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from aotattn import device, runtime
from aotattn.bench.cases import Case
from aotattn.describe import UserError
from aotattn.device import DeviceFault, EmulatedDevice, HipDevice, open_device
from aotattn.verify import verify
from fake_library import FakeLibrary, right

FAKE_HIP = r"""
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
static int current = -1, broken = 0;
int hipGetDeviceCount(int* count) { *count = 2; return 0; }
int hipSetDevice(int device) { current = device; return 0; }
int hipMalloc(void** memory, size_t size) {
  *memory = aligned_alloc(256, (size + 255) / 256 * 256);
  return current == 1 ? 0 : 1;
}
int hipFree(void* memory) { free(memory); return 0; }
int hipMemcpy(void* to, const void* from, size_t size, int kind) {
  memcpy(to, from, size);
  return kind == 1 || kind == 2 ? 0 : 1;
}
int hipDeviceSynchronize(void) { return broken; }
void break_it(void) { broken = 700; }
const char* hipGetErrorString(int code) { return code == 700 ? "illegal address" : "bad argument"; }
"""


@pytest.fixture
def hip_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fake HIP library, its two devices a gfx942 and a gfx950."""
    compiler = shutil.which("cc")
    assert compiler, "no C compiler: apt-get install gcc"
    (tmp_path / "hip.c").write_text(FAKE_HIP)
    library = tmp_path / "libfake_hip.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "hip.c"], check=True)
    monkeypatch.setattr(runtime, "device_info", lambda platform, ordinal: (("gfx942", "gfx950")[ordinal], 256))
    return library


@pytest.fixture
def hip(hip_library: Path, monkeypatch: pytest.MonkeyPatch) -> HipDevice:
    """The second device of the fake HIP library; its arch is the one asked for."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("AOTATTN_HIP_LIBRARY", str(hip_library))
    opened = open_device("gfx950")
    assert isinstance(opened, HipDevice)
    return opened


def test_memory_goes_up_and_comes_back(hip: HipDevice) -> None:
    storage = torch.arange(1000, dtype=torch.float32)
    pointer = hip.upload(storage)
    assert pointer not in (0, storage.data_ptr())
    storage.zero_()
    hip.download(pointer, storage)
    assert torch.equal(storage, torch.arange(1000, dtype=torch.float32))
    hip.free(pointer)
    assert hip.held == {}


def test_scratch_frees_what_was_allocated_inside(hip: HipDevice) -> None:
    kept = hip.allocate(10)
    with hip.scratch():
        hip.allocate(0)
        hip.upload(torch.zeros(5))
        assert len(hip.held) == 3
    assert list(hip.held) == [kept]


def test_an_error_of_the_driver_is_a_fault_in_words(hip: HipDevice) -> None:
    hip.hip.break_it()
    with pytest.raises(DeviceFault, match=r"hipDeviceSynchronize: illegal address \(700\)"):
        hip.synchronize()


def test_verify_runs_on_such_a_device(hip: HipDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeLibrary({"triton/fwd/x=1": right}).install(monkeypatch)
    case = Case(heads_q=2, seqlen_q=40, head_dim=16, layout="packed", mask="causal")
    (result,) = verify([case], hip, seed=1)
    assert result.passed
    assert (result.arch, hip.compute) == ("gfx950", "cpu")
    assert hip.held == {}


def test_a_missing_device_is_named(hip: HipDevice) -> None:
    with pytest.raises(UserError, match="no device of arch sm_90: there is gfx942 of"):
        open_device("sm_90")


def test_a_missing_hip_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("AOTATTN_HIP_LIBRARY", "nowhere.so")
    with pytest.raises(UserError, match=r"AOTATTN_HIP_LIBRARY = nowhere.so: "):
        open_device()


@pytest.fixture
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU, and nobody has named a HIP library; what is named meanwhile is forgotten afterwards."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("AOTATTN_HIP_LIBRARY", "")


@pytest.mark.usefixtures("nothing_named")
def test_without_gpu_and_emulator_the_place_of_the_emulator_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "library_directory", lambda: tmp_path / "lib")
    with pytest.raises(UserError, match=rf"no device: .*no emulator at {tmp_path}/emulator/libamdhip64.so either"):
        open_device()
    assert os.environ["AOTATTN_HIP_LIBRARY"] == ""


@pytest.mark.usefixtures("nothing_named")
def test_without_gpu_the_emulator_beside_the_library_is_named(
    hip_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator = tmp_path / "emulator" / "libamdhip64.so"
    emulator.parent.mkdir()
    shutil.copy(hip_library, emulator)
    monkeypatch.setattr(runtime, "library_directory", lambda: tmp_path / "lib")
    assert open_device().name == f"gfx942 of {emulator}"
    assert os.environ["AOTATTN_HIP_LIBRARY"] == str(emulator)


def test_the_emulator_never_stands_in_for_a_named_library(hip: HipDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "emulator_library", lambda: pytest.fail("asked for the emulator"))
    assert open_device("gfx950").name == hip.name
    assert not isinstance(hip, EmulatedDevice)


def test_the_emulator_never_stands_in_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTATTN_HIP_LIBRARY", "")
    monkeypatch.setattr(device, "emulator_library", lambda: pytest.fail("asked for the emulator"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert list(device._devices()) == []
    assert os.environ["AOTATTN_HIP_LIBRARY"] == ""
