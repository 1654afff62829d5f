"""The build: images, recipes, incremental compiles, failures, the store it writes."""

import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aotattn import build as build_module
from aotattn import kernels
from aotattn.backends import Compiled, triton
from aotattn.build import build, plan_of, read_cached, select
from aotattn.describe import UserError, Variant
from aotattn.store import Argument, StoredKernel, StoredPlan, write_store

FILTERS = {"dtype": "bf16", "head_dim": "64", "head_dim_v": "64", "mask": "causal", "padded_head": "0"}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for images and stores."""
    monkeypatch.setattr(build_module, "CACHE", tmp_path / "images")
    return tmp_path


def compile_in_child(variant: Variant, directory: Path) -> Compiled:
    """As the build does it: whatever the compiler leaves behind, it is not in this process."""
    path = directory / "image.json"
    assert build_module._compile_apart(variant, path) is None
    return read_cached(path)


@pytest.mark.parametrize("arch", ["gfx950", "sm_90", "gfx942", "gfx1201"])
def test_a_recipe_matches_what_the_compiler_declares(arch: str, tree: Path) -> None:
    """A difference in number or size of the parameters would refuse the image."""
    for variant in select(arch, "core", FILTERS):
        compiled = compile_in_child(variant, tree)
        assert len(compiled.image) > 1000
        ends = [a.offset for a in compiled.arguments]
        assert ends == sorted(ends)
        if variant.kernel.backend == "triton":  # two pointers that its launcher would pass
            assert [str(a).split()[0] for a in compiled.arguments[-2:]] == ["null", "null"]


def test_a_second_build_compiles_nothing(tree: Path) -> None:
    first = build(["gfx950"], filters=FILTERS, out=tree)
    second = build(["gfx950"], filters=FILTERS, out=tree)
    assert first[0].compiled == first[0].images > 0
    assert second[0].compiled == 0
    assert second[0].plans == first[0].plans


def test_the_store_holds_the_images_the_compiler_made(tree: Path) -> None:
    build(["sm_90"], filters=FILTERS, out=tree)
    rows = sqlite3.connect(tree / "aotattn-sm_90.db").execute("SELECT bytes, crc32, data FROM image").fetchall()
    for size, crc, data in rows:
        image = zlib.decompress(data)
        assert (len(image), zlib.crc32(image)) == (size, crc)
        assert image[:4] == b"\x7fELF"


def test_images_hold_no_path_of_the_build_machine(tree: Path) -> None:
    build(["sm_90", "gfx950"], filters=FILTERS, out=tree)
    for path in (tree / "images").rglob("*.json"):
        assert str(build_module.REPOSITORY).encode() not in read_cached(path).image


def test_a_failed_compile_is_named_and_leaves_the_old_store(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tree / "aotattn-gfx950.db"
    old.write_text("the old store")
    broken = replace(kernels.fwd_flash, options=lambda _: {"num_warps": 4, "num_stagse": 2})
    monkeypatch.setitem(kernels.KERNELS, "fwd_flash", broken)
    monkeypatch.setattr(
        build_module, "_compile_apart", build_module.compile_to
    )  # a fork server would not see the patch
    with pytest.raises(UserError, match=r"gfx950/attn_fwd/fwd_flash/dtype=bf16.*has no option num_stagse"):
        build(["gfx950"], filters=FILTERS, out=tree)
    assert old.read_text() == "the old store"
    assert not list(tree.glob("*.part"))


def test_a_compiler_that_dies_is_named(tree: Path) -> None:
    variant = Variant(replace(kernels.fwd_flash, name="no such kernel"), "gfx950", {}, {})
    failure = build_module._compile_apart(variant, tree / "image.json")
    assert failure is not None
    assert "the compiler died" in failure


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"archs": ["gfx900", "gfx950"]}, "unknown arch gfx900; known are gfx950"),
        ({"archs": ["gfx950"], "profile": "huge"}, "unknown profile huge; known are core"),
        ({"archs": ["gfx950"], "filters": {"head_dim": "65"}}, "head_dim=65 has no variant on gfx950"),
    ],
)
def test_bad_requests_are_refused_in_words(arguments: dict[str, object], message: str, tree: Path) -> None:
    with pytest.raises(UserError, match=message):
        build(**arguments, out=tree)  # type: ignore[arg-type]


def test_a_store_that_fails_half_way_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "aotattn-gfx950.db"
    path.write_text("the old store")

    def plans() -> Iterator[StoredPlan]:
        step = StoredKernel(b"image", "k", 64, 0, 1, 8, (Argument("q.ptr", "ptr", 0),), "k", ("1", "1", "1"))
        yield StoredPlan("attn_fwd", "f", "triton", "k", "c", (), (), (step,))
        raise RuntimeError("out of plans")

    with pytest.raises(RuntimeError):
        write_store(path, plans(), {})
    assert path.read_text() == "the old store"
    assert list(tmp_path.iterdir()) == [path]


def test_variants_of_one_image_share_it() -> None:
    padded = of_triton(select("gfx950", "full", FILTERS | {"padded_head": "1", "aligned": "0"}))
    exact = of_triton(select("gfx950", "full", FILTERS | {"aligned": "0"}))
    assert triton.compile_key(padded) == triton.compile_key(exact)


def of_triton(variants: list[Variant]) -> Variant:
    return next(v for v in variants if v.kernel.backend == "triton")


def test_a_plan_names_its_requirements(tree: Path) -> None:
    variant = of_triton(select("gfx950", "core", FILTERS))
    plan = plan_of(variant, compile_in_child(variant, tree))
    assert any("q.ptr 16 % 0 ==" in line and "multiples of 16" in line for line in plan.requirements)
    assert plan.steps[0].grid[0] == f"seqlen_q {variant['block_m']} cdiv heads_q * batch *"
