"""Descriptions, and what is derived from them."""

from pathlib import Path

import pytest
from aotattn.arch import ARCHS
from aotattn.describe import UserError, text
from aotattn.expressions import postfix
from aotattn.kernels import KERNELS, PROFILES
from aotattn.ops.attn_fwd import attn_fwd
from aotattn.pictures import page
from aotattn.support import support_table


def test_text_form_is_stable() -> None:
    assert text({"dtype": "bf16", "head_dim": 128, "padded_head": True}) == "dtype=bf16,head_dim=128,padded_head=1"


def test_vocabulary_names_every_size_stride_and_scalar() -> None:
    names = attn_fwd.vocabulary()
    assert {"q.ptr", "v.stride.3", "lse.size.2", "seqlen_k", "sm_scale", "scale_log2", "out.bytes"} <= names.keys()
    assert "lse.stride.3" not in names  # rank 3


@pytest.mark.parametrize(
    ("written", "tokens"),
    [
        ("cdiv(seqlen_q, block_m) * heads_q * batch", "seqlen_q 128 cdiv heads_q * batch *"),
        ("q.stride.2 % 8 == 0 and q.ptr % 16 == 0", "q.stride.2 8 % 0 == q.ptr 16 % 0 == and"),
        ("min(compute_units, seqlen_q // 64)", "compute_units seqlen_q 64 / min"),
        ("even", "1"),
    ],
)
def test_expressions_become_postfix(written: str, tokens: str) -> None:
    assert postfix(written, attn_fwd.vocabulary(), {"block_m": 128, "even": True}) == tokens


@pytest.mark.parametrize("written", ["seqlen", "q.stride.9 + 1", "2 ** 31", "block_m.bit_length()", "seqlen_q / 2"])
def test_an_expression_with_an_unknown_word_is_refused(written: str) -> None:
    with pytest.raises(UserError, match="is no number, known name or operation"):
        postfix(written, attn_fwd.vocabulary(), {"block_m": 128})


@pytest.mark.parametrize("arch", ARCHS)
def test_keys_of_the_compile_matrix_are_unique(arch: str) -> None:
    keys = [v.key for kernel in KERNELS.values() for v in kernel.variants(arch)]
    assert keys
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_can_run_any_layout_of_every_mask_and_dtype(arch: str, profile: str) -> None:
    """Whatever a problem's alignment, the largest bucket takes it: a plan without requirements exists."""
    open_to_all = [v for k in KERNELS.values() for v in k.variants(arch) if PROFILES[profile](v) and not k.requires(v)]
    served = {(v["dtype"], v["mask"]) for v in open_to_all if v["head_dim"] == 512 and v["padded_head"]}
    assert served == {(dtype, mask) for dtype in ("f16", "bf16", "f32") for mask in ("none", "causal", "window")}


@pytest.mark.parametrize("arch", ARCHS)
def test_every_recipe_word_is_in_the_vocabulary(arch: str) -> None:
    for kernel in KERNELS.values():
        for v in kernel.variants(arch):
            for expression in (
                *kernel.grid,
                *(r.holds for r in kernel.requires(v)),
                *(w.bytes for w in kernel.workspace),
            ):
                assert postfix(expression, kernel.operator.vocabulary(), v.config)


def test_the_pictures_of_the_docs_are_the_kernels() -> None:
    written = Path(__file__).parents[2] / "docs" / "kernels" / "fwd_dual_wave.md"
    assert page() in written.read_text(), "python -m aotattn.pictures"


def test_the_support_table_of_the_docs_is_the_descriptions() -> None:
    written = Path(__file__).parents[2] / "docs" / "support.md"
    assert written.read_text() == support_table(), "python -m aotattn.support > docs/support.md"
