"""The PyTorch binding without a GPU: what it links, and how it behaves on a fake CUDA device."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from aotattn import runtime

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BINDING = "libaotattn_torch.so"

# What the binding may ask of libtorch_cpu: it was all there in torch 2.11, compared with that version's library. A name
# to be added here is to be looked up there first: what a newer header calls may be missing, as
# torch_exception_get_what_without_backtrace is.
SHIMS_OF_TORCH_2_11 = {
    "aoti_torch_abi_version",
    "aoti_torch_aten_fill__Scalar",
    "aoti_torch_copy_",
    "aoti_torch_delete_library_object",
    "aoti_torch_delete_tensor_object",
    "aoti_torch_device_type_cpu",
    "aoti_torch_device_type_cuda",
    "aoti_torch_dtype_bfloat16",
    "aoti_torch_dtype_float16",
    "aoti_torch_dtype_float32",
    "aoti_torch_dtype_int64",
    "aoti_torch_dtype_uint64",
    "aoti_torch_dtype_uint8",
    "aoti_torch_empty_strided",
    "aoti_torch_get_device_index",
    "aoti_torch_get_device_type",
    "aoti_torch_get_dim",
    "aoti_torch_get_dtype",
    "aoti_torch_get_sizes",
    "aoti_torch_get_strides",
    "aoti_torch_grad_mode_is_enabled",
    "aoti_torch_library_def",
    "aoti_torch_library_init_def",
    "aoti_torch_library_init_impl",
    "aoti_torch_new_tensor_handle",
    "aoti_torch_new_uninitialized_tensor",
    "torch_call_dispatcher",
    "torch_get_const_data_ptr",
    "torch_get_mutable_data_ptr",
    "torch_library_impl",
    "torch_new_string_handle",
    "torch_set_requires_grad",
}


def undefined_symbols(library: Path) -> set[str]:
    """Names without their versions."""
    listing = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True, text=True)
    return {line.split()[-1].split("@")[0] for line in listing.stdout.splitlines()}


@pytest.fixture(scope="session")
def binding() -> Path:
    return runtime.library_directory() / BINDING


def test_everything_asked_of_torch_was_in_torch_2_11(binding: Path) -> None:
    asked = {s for s in undefined_symbols(binding) if s.startswith(("aoti_", "torch_"))}
    assert asked <= SHIMS_OF_TORCH_2_11


def test_nothing_is_asked_of_torch_but_its_c_shims(binding: Path) -> None:
    """A mangled name of at:: or c10:: would tie the binding to one version of PyTorch."""
    assert not [s for s in undefined_symbols(binding) if re.match(r"_Z.*(2at|3c10|5torch)", s)]


def test_the_binding_links_libtorch_cpu_alone_and_finds_the_library_beside_it(binding: Path) -> None:
    dynamic = subprocess.run(["readelf", "-d", binding], check=True, capture_output=True, text=True).stdout
    needed = [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line]
    assert [n for n in needed if "torch" in n or "c10" in n] == ["libtorch_cpu.so"]
    assert [n for n in needed if "aotattn" in n] == ["libaotattn.so"]
    assert "[$ORIGIN]" in dynamic


def test_a_missing_library_is_an_import_error_that_says_where(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path\n"
        "from aotattn import runtime\n"
        f"runtime.library_directory = lambda: Path({str(tmp_path)!r})\n"
        "import aotattn.torch\n"
    )
    child = run_python(["-c", script])
    assert child.returncode == 1
    assert child.stderr.splitlines()[-1].startswith(f"ImportError: aotattn.torch: {BINDING} is not in {tmp_path}")


@pytest.fixture(scope="session")
def fake_libraries(binding: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The binding beside a stub of the library and a fake CUDA device, compiled here."""
    import torch

    if torch.cuda.is_available() or torch.version.cuda or torch.version.hip:
        pytest.skip("a fake CUDA device needs the CPU build of torch")
    directory = tmp_path_factory.mktemp("fake")
    shutil.copy(binding, directory)
    package = Path(torch.__file__).parent
    compiler = [os.environ.get("CXX", "c++"), *["-std=c++20", "-O0", "-shared", "-fPIC"], "-I", str(ROOT / "include")]
    includes = ["-isystem", package / "include", "-isystem", package / "include/torch/csrc/api/include"]
    runs = [
        subprocess.Popen([*compiler, *includes, HERE / source, "-o", directory / name, *options])
        for name, source, options in (
            ("libaotattn.so", "stub_aotattn.cc", ["-Wl,-soname,libaotattn.so"]),
            ("libfake_cuda.so", "fake_cuda.cc", ["-L", package / "lib", "-ltorch_cpu", "-lc10"]),
        )
    ]
    assert [run.wait() for run in runs] == [0, 0]
    return directory


@pytest.mark.slow
@pytest.mark.parametrize(("platform", "tests"), [("cuda", ""), ("hip", "forms or reach")])
def test_binding_on_a_fake_device(fake_libraries: Path, platform: str, tests: str) -> None:
    """What fake_device_cases.py tests, in a process of its own: what it does to PyTorch's dispatcher stays there."""
    cases = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "fake_device_cases.py"), "-k", tests]
    child = run_python(cases, FAKE_LIBRARIES=fake_libraries, FAKE_PLATFORM=platform)
    print(child.stdout)
    assert child.returncode == 0, child.stdout + child.stderr


def run_python(arguments: list[str], **environment: str | Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {name: str(value) for name, value in environment.items()} | {"PYTHONPATH": path}
    return subprocess.run([sys.executable, *arguments], check=False, capture_output=True, text=True, env=env, cwd=ROOT)
