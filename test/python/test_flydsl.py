"""The FlyDSL backend: recipes, keys, refusals, and images that depend on their input alone."""

import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aotattn.backends import Compiled, amdgcn, flydsl, source
from aotattn.backends.recipe import SIZES
from aotattn.describe import UserError, Value, Variant
from aotattn.kernels import fwd_dual_wave

FOLDER = source.REPOSITORY / "kernels" / "attention"
# Compiles the first variant of a head_dim and prints a digest of it.
CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from test_flydsl import digest, variant
print(digest(variant(head_dim=64)))
"""
# Prints which files of a folder the kernel has loaded.
LOADED = """
import sys
from pathlib import Path
from aotattn.backends import source
from aotattn.kernels import fwd_dual_wave
source.device_function(fwd_dual_wave.source)
files = [Path(file) for m in list(sys.modules.values()) if (file := getattr(m, "__file__", None))]
print(*(file for file in files if file.parent == Path(sys.argv[1])), sep="\\n")
"""


def variant(head_dim: int = 64, mask: str = "causal", padded: bool = False, **config: Value) -> Variant:
    features = {"dtype": "bf16", "head_dim": head_dim, "head_dim_v": head_dim, "mask": mask, "padded_head": padded}
    first = fwd_dual_wave.configs("gfx950", features)[0]
    return Variant(fwd_dual_wave, "gfx950", features, {**first, **config})


def digest(v: Variant) -> str:
    return hashlib.sha256(flydsl.compile_variant(v).image).hexdigest()


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return flydsl.compile_variant(variant())


def test_a_recipe_matches_what_the_compiler_declares(compiled: Compiled) -> None:
    assembly, image = flydsl.compile_function(variant())
    sizes = amdgcn.parameters(assembly)
    offsets = [int(n) for n in re.findall(r"\.offset:\s+(\d+)\s+\.size:", assembly)]
    assert image == compiled.image
    assert compiled.refused == ()
    assert sizes == [SIZES[a.type][0] for a in compiled.arguments]
    assert offsets == [a.offset for a in compiled.arguments]
    found = re.search(r"\.kernarg_segment_size:\s+(\d+)", assembly)
    assert found is not None
    assert compiled.argument_bytes == (int(found[1]) + 15) // 16 * 16


def test_a_recipe_names_the_parameters_in_their_order(compiled: Compiled) -> None:
    names = [a.name for a in compiled.arguments]
    assert names[:5] == ["q.ptr", "k.ptr", "v.ptr", "out.ptr", "lse.ptr"]
    assert names[5:8] == ["q.stride.0", "q.stride.1", "q.stride.2"]
    assert names[-4:] == ["scale_log2", "window_left", "window_right", "bottom_right"]
    assert len(set(names)) == len(names)


def test_an_image_whose_parameters_differ_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amdgcn, "parameters", lambda _: [8, 4, -1])
    (reason,) = flydsl.compile_variant(variant()).refused
    assert reason.startswith("the compiler declares parameters of [8, 4, -1] bytes, the recipe has [8, 8, 8,")


def test_several_processes_at_once_make_the_same_bytes(compiled: Compiled) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(Path(__file__).parent)],
            stdout=subprocess.PIPE,
            text=True,
            env={**dict(environment()), "PYTHONHASHSEED": str(seed)},
        )
        for seed in (1, 2)
    ]
    answers = {child.communicate()[0].strip() for child in children}
    assert answers == {hashlib.sha256(compiled.image).hexdigest()}


def environment() -> Iterator[tuple[str, str]]:
    """Without what an earlier compile has set in this process; with what a developer may have set."""
    yield from ((n, v) for n, v in os.environ.items() if not n.startswith("FLYDSL_"))
    yield from (("COMPILE_ONLY", "1"), ("ARCH", "gfx942"), ("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", "1"))


def test_images_hold_no_path_of_this_machine(compiled: Compiled) -> None:
    for trace in (str(source.REPOSITORY), str(Path.home()), ".py", "/tmp"):
        assert trace.encode() not in compiled.image


# ---- Keys ------------------------------------------------------------------------------------------------------------


def test_variants_of_one_request_share_a_key() -> None:
    """Columns that are not there are zeros: one image serves every smaller head_dim."""
    shared = [variant(48), variant(48, padded=True), variant(32), variant(64, padded=True)]
    assert len({flydsl.compile_key(v) for v in shared}) == 1


def test_what_differs_in_anything_has_its_own_key() -> None:
    different = [
        variant(),
        variant(padded=True),
        variant(128),
        variant(mask="none"),
        variant(stagger=False),
        variant(aligned=False),
        replace(variant(), kernel=replace(fwd_dual_wave, options=lambda _: {"num_warps": 8, "waves_per_eu": 1})),
    ]
    assert len({flydsl.compile_key(v) for v in different}) == len(different)


@pytest.fixture
def kernel_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The kernel's folder in a repository of its own, in which files may be edited."""
    shutil.copytree(FOLDER, tmp_path / "kernels" / "attention")
    monkeypatch.setattr(source, "REPOSITORY", tmp_path)
    yield tmp_path / "kernels" / "attention"
    source._code_digest.cache_clear()


def key_now() -> str:
    source._code_digest.cache_clear()
    return flydsl.compile_key(variant())


def test_editing_any_file_that_the_kernel_loads_changes_its_key(kernel_copy: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, str(FOLDER)], capture_output=True, text=True, check=True)
    files = [kernel_copy / Path(line).name for line in done.stdout.splitlines()]
    assert {"fwd_dual_wave.py", "tiles.py", "lanes.py"} <= {path.name for path in files}
    for path in files:
        before = key_now()
        path.write_text(path.read_text() + "\n# a comment\n")
        assert key_now() == before
        path.write_text(path.read_text() + "\nFURTHER = 1\n")
        assert key_now() != before, path.name


# ---- What does not fit -----------------------------------------------------------------------------------------------

NUMBERS = itertools.count()


def described(tmp_path: Path, parameters: str, **changes: object) -> Variant:
    """A variant of a kernel with these parameters that does nothing."""
    path = tmp_path / f"kernel_{next(NUMBERS)}.py"
    path.write_text(
        "import flydsl.expr as fx\n\n\n"
        f"def build(**constants):\n    def nothing({parameters}):\n        pass\n\n    return nothing\n"
    )
    kernel = replace(fwd_dual_wave, source=f"{path}:build", **changes)  # type: ignore[arg-type]
    return replace(variant(), kernel=kernel)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ("q_ptr: fx.Pointer, sequlen: fx.Int32", "parameter sequlen is in no vocabulary of attn_fwd"),
        ("q_ptr: fx.Pointer, q_stride_4: fx.Int64", "parameter q_stride_4 is in no vocabulary of attn_fwd"),
        ("q_ptr: fx.Pointer, counter_ptr: fx.Pointer", "parameter counter_ptr is in no vocabulary of attn_fwd"),
        ("q_ptr: fx.Pointer, seqlen_q: fx.Int64", "parameter seqlen_q is i32, not Int64"),
        ("q_ptr: fx.Pointer, k_stride_1: fx.Int32", "parameter k_stride_1 is i64, not Int32"),
        ("q_ptr: fx.Pointer, scale_log2: fx.Int32", "parameter scale_log2 is f32, not Int32"),
        ("q_ptr: fx.Pointer, seqlen_q", "parameter seqlen_q is i32, not _empty"),
    ],
)
def test_parameters_that_do_not_fit_are_the_authors_mistake(parameters: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"kernel_.*build: {sentence}"):
        flydsl.compile_variant(described(tmp_path, parameters))


@pytest.mark.parametrize("options", [{"num_warps": 8}, {"num_warps": 8, "waves_per_eu": 2, "num_stagse": 2}])
def test_options_that_flydsl_does_not_have_are_named(options: dict[str, Value], tmp_path: Path) -> None:
    wrong = described(tmp_path, "q_ptr: fx.Pointer", options=lambda _: options)
    with pytest.raises(UserError, match="fwd_dual_wave: flydsl takes the options num_warps and waves_per_eu, not"):
        flydsl.compile_variant(wrong)


def test_a_source_that_is_not_there_is_named() -> None:
    wrong = replace(variant(), kernel=replace(fwd_dual_wave, source="kernels/attention/nothing.py:build"))
    with pytest.raises(UserError, match=r"kernel source kernels/attention/nothing\.py is not there"):
        flydsl.compile_variant(wrong)


def test_an_image_that_spills_is_refused() -> None:
    """Operands read 16 products ahead find no registers."""
    (reason,) = flydsl.compile_variant(variant(256, ahead=16)).refused
    assert re.fullmatch(r"spills \d+ bytes", reason)


def test_an_image_that_needs_too_much_lds_is_refused() -> None:
    """The compiler prints its error and goes on."""
    with pytest.raises(UserError, match=r"error: .*local memory.* exceeds limit \(163840\)"):
        flydsl.compile_variant(variant(256, block_n=64))


def test_what_native_code_prints_is_caught_and_stderr_comes_back(capfd: pytest.CaptureFixture[str]) -> None:
    with flydsl._printed() as lines:
        os.write(2, b"first\nerror: second\n")
    os.write(2, b"third\n")
    assert lines == ["first", "error: second"]
    assert capfd.readouterr().err == "third\n"
