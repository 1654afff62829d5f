"""The float64 reference against hand-computed values, and the judge against results of known quality."""

import math

import pytest
import torch
from aotattn import reference
from aotattn.bench.cases import INPUTS, Case
from aotattn.bench.inputs import draw, draws
from aotattn.reference import Mask, exact, judge, pieces, plain, worst

torch.set_num_threads(1)  # small tensors on shared cores


def drawn(case: Case, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    tensors = draw(case, "cpu", seed)
    return tensors["q"].view, tensors["k"].view, tensors["v"].view


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float, mask: Mask) -> torch.Tensor:
    """One row at a time, keys picked by the definition."""
    q, k, v = q.double(), k.double(), v.double()
    out = torch.zeros(*q.shape[:3], v.shape[3], dtype=torch.float64)
    group = q.shape[1] // k.shape[1]
    for b, h, i in torch.cartesian_prod(*(torch.arange(n) for n in q.shape[:3])).tolist():
        diagonal = i + (k.shape[2] - q.shape[2] if mask.alignment == "bottom_right" else 0)
        left, right = (mask.window_left, mask.window_right) if mask.mask == "window" else (-1, 0)
        keys = [
            j
            for j in range(k.shape[2])
            if mask.mask == "none" or ((left < 0 or diagonal - left <= j) and (right < 0 or j <= diagonal + right))
        ]
        if keys:
            scores = k[b, h // group, keys] @ q[b, h, i] * sm_scale
            out[b, h, i] = torch.softmax(scores, 0) @ v[b, h // group, keys]
    return out


@pytest.mark.parametrize(
    "mask",
    [
        Mask(),
        Mask("causal"),
        Mask("causal", "bottom_right"),
        Mask("window", "top_left", 2, 0),
        Mask("window", "bottom_right", 1, 2),
        Mask("window", "top_left", -1, 1),
    ],
    ids=str,
)
@pytest.mark.parametrize(("seqlen_q", "seqlen_k"), [(5, 5), (7, 3), (3, 8)])
def test_the_reference_is_the_definition(
    mask: Mask, seqlen_q: int, seqlen_k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k, v = drawn(Case(batch=2, heads_q=4, heads_k=2, seqlen_q=seqlen_q, seqlen_k=seqlen_k, head_dim=8))
    for at_a_time in (1, 40, 1 << 20):  # any cut gives the same
        monkeypatch.setattr(reference, "SCORES_AT_A_TIME", at_a_time)
        out, _ = exact(q, k, v, sm_scale=0.3, mask=mask)
        assert torch.allclose(out, by_hand(q, k, v, 0.3, mask), rtol=1e-12, atol=1e-12)


def test_one_query_of_eight_keys_sees_the_first_or_all() -> None:
    """A-01"""
    q, k, v = drawn(Case(heads_q=2, seqlen_q=1, seqlen_k=8))
    first, _ = exact(q, k, v, sm_scale=0.125, mask=Mask("causal"))
    assert torch.equal(first, v[:, :, :1].double())
    last, _ = exact(q, k, v, sm_scale=0.125, mask=Mask("causal", "bottom_right"))
    everything, _ = exact(q, k, v, sm_scale=0.125, mask=Mask())
    assert torch.equal(last, everything)


def test_row_without_keys_is_zero() -> None:
    """A-01, A-15, A-19"""
    q, k, v = drawn(Case(heads_q=2, seqlen_q=5, seqlen_k=2))
    for formula in (exact, plain):
        out, lse = formula(q, k, v, sm_scale=0.125, mask=Mask("causal", "bottom_right"))
        assert (out[:, :, :3] == 0).all()
        assert (lse[:, :, :3] == -math.inf).all()
        assert lse[:, :, 3:].isfinite().all()
        out, lse = formula(q, k[:, :, :0], v[:, :, :0], sm_scale=0.125, mask=Mask())
        assert (out == 0).all()
        assert (lse == -math.inf).all()


def test_lse_is_the_natural_logarithm() -> None:
    """A-21"""
    q, k, v = drawn(Case(heads_q=2, seqlen_q=64, seqlen_k=100, inputs="zero_q"))
    _, lse = exact(q, k, v, sm_scale=0.125, mask=Mask())
    assert torch.allclose(lse, torch.full_like(lse, math.log(100)), rtol=1e-14)


def test_large_logits_stay_finite() -> None:
    """A-10"""
    q, k, v = drawn(Case(dtype="f16", heads_q=2, seqlen_q=16, inputs="negative900"))
    for formula in (exact, plain):
        out, _ = formula(q, k, v, sm_scale=0.125, mask=Mask())
        assert out.isfinite().all()
        assert out.min() >= 0
        assert out.max() <= 1


def test_the_plain_formula_passes_its_own_judgement() -> None:
    for dtype in ("f16", "bf16", "f32"):
        q, k, v = drawn(Case(dtype=dtype, seqlen_q=40))
        true, _ = exact(q, k, v, sm_scale=0.125, mask=Mask())
        base, _ = plain(q, k, v, sm_scale=0.125, mask=Mask())
        assert base.dtype == q.dtype
        assert all(c.passed for c in judge("out", dtype, base, true, base))


@pytest.mark.parametrize(
    ("break_it", "failing"),
    [
        (lambda x: x.index_fill(2, torch.tensor([3]), math.nan), {"out max", "out frobenius"}),
        (lambda x: x.index_fill(2, torch.tensor([3]), math.inf), {"out max", "out frobenius"}),
        (lambda x: x * 1.01, {"out frobenius", "out max"}),
        (lambda x: x + (torch.arange(x.numel()).view_as(x) == 5) * 0.05, {"out max"}),
        (lambda x: torch.zeros_like(x), {"out max", "out frobenius"}),
    ],
    ids=["nan", "inf", "one percent", "one element", "zeros"],
)
def test_a_wrong_result_fails(break_it, failing: set[str]) -> None:  # type: ignore[no-untyped-def]
    q, k, v = drawn(Case(batch=4, heads_q=4, seqlen_q=200))
    true, _ = exact(q, k, v, sm_scale=0.125, mask=Mask())
    base, _ = plain(q, k, v, sm_scale=0.125, mask=Mask())
    assert {c.name for c in judge("out", "bf16", break_it(base), true, base) if not c.passed} >= failing


def test_minus_infinity_must_be_where_it_belongs() -> None:
    true = torch.tensor([1.0, -math.inf], dtype=torch.float64)
    assert all(c.passed for c in judge("lse", "f32", true.float(), true, true.float()))
    for wrong in ([-math.inf, -math.inf], [1.0, -3e38], [1.0, math.inf], [1.0, math.nan]):
        assert not worst(judge("lse", "f32", torch.tensor(wrong), true, true.float())).passed


def test_the_worst_check_is_the_one_nearest_to_failing() -> None:
    check = reference.Check
    assert worst([check("a", 1, 2), check("b", 3, 4), check("c", 0, 0)]).name == "b"
    assert worst([check("a", 1, 2), check("c", 1e-9, 0)]).name == "c"
    assert worst([check("a", math.inf, 2), check("c", 1, 1)]).name == "a"


def test_pieces_cover_the_box_once() -> None:
    seen = torch.zeros(3, 4, 70)
    for cut in pieces((3, 4, 70), (1 << 26) // 100):
        seen[cut] += 1
    assert (seen == 1).all()
    assert list(pieces((0, 4, 70), 1)) == []


@pytest.mark.parametrize("inputs", INPUTS)
def test_inputs_of_every_name_are_drawn_afresh_and_again_from_a_seed(inputs: str) -> None:
    case = Case(heads_q=2, heads_k=1, seqlen_q=9, seqlen_k=70, inputs=inputs)
    assert draws(case).keys() == INPUTS.keys()
    once, again, other = drawn(case, 1), drawn(case, 1), drawn(case, 2)
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    assert not torch.equal(once[1], other[1])
    assert all(x.isfinite().all() for x in once)


def test_inputs_are_what_their_names_say() -> None:
    q, k, _ = (x.double() for x in drawn(Case(seqlen_q=50, head_dim=72, inputs="large_dots")))
    dots = q @ k.mT
    assert dots.min() > 1e5
    assert dots.max() < 4e5
    q, k, _ = (x.double() for x in drawn(Case(seqlen_q=1, seqlen_k=50, head_dim=128, inputs="low_scores")))
    assert ((q @ k.mT * 128**-0.5 + 122).abs() < 5).all()
    _, _, v = drawn(Case(seqlen_k=70, head_dim_v=32, inputs="one_hot_v"))
    assert (v.argmax(-1)[0, 0] == torch.arange(70) % 32).all()
    assert (v.sum(-1) == 1).all()


def test_guards_show_stray_writes_and_gaps_are_poison() -> None:
    tensors = draw(Case(batch=2, heads_q=2, seqlen_q=3, head_dim=5, layout="odd"), "cpu", 1)
    out = tensors["out"]
    assert out.view.isnan().all()
    out.view.zero_()
    assert out.stray_writes() == 0
    out.storage[out.offset + 5] = 0  # the gap after the first row
    out.storage[0] = 0
    assert out.stray_writes() == 2
    assert tensors["q"].storage.isnan().any()
