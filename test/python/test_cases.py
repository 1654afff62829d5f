"""Case: its text form, its sizes and its sets."""

import math
from itertools import product

import pytest
from aotattn.bench.cases import LAYOUTS, Case, case_filter
from aotattn.bench.sets import SETS, case_set, handed, handed_id
from aotattn.describe import UserError

LINE = "op=attn_fwd,dtype=bf16,batch=2,heads_q=8,heads_k=2,seqlen_q=1024,seqlen_k=1024,head_dim=128,mask=causal"


def test_the_text_form_reads_back() -> None:
    assert str(Case.parse(LINE)) == LINE


@pytest.mark.parametrize("name", SETS)
def test_every_case_of_a_set_reads_back_and_is_there_once(name: str) -> None:
    cases = case_set(name)
    assert [Case.parse(str(case)) for case in cases] == cases
    assert len(set(map(str, cases))) == len(cases)


def test_what_is_left_out_takes_its_default() -> None:
    case = Case.parse("heads_q=6,seqlen_q=10,head_dim=16")
    assert case == Case(heads_q=6, seqlen_q=10, head_dim=16)
    assert (case.heads_k, case.seqlen_k, case.head_dim_v, case.sm_scale) == (6, 10, 16, 0.25)
    assert "head_dim_v" not in str(case)
    assert "sm_scale" not in str(case)


def test_what_differs_from_its_default_is_written() -> None:
    case = Case(head_dim_v=32, sm_scale=0.0, lse=False, layout="bshd", mask="window", window_left=3)
    assert str(case).endswith("mask=window,head_dim_v=32,window_left=3,sm_scale=0.0,layout=bshd,lse=0")
    assert Case.parse(str(case)) == case


def test_a_changed_size_takes_along_what_followed_it() -> None:
    case = Case(head_dim=64).but(head_dim=16, seqlen_q=7)
    assert (case.head_dim_v, case.seqlen_k, case.sm_scale) == (16, 7, 0.25)
    assert Case(head_dim_v=32, seqlen_k=3).but(head_dim=16, seqlen_q=7) == Case(
        head_dim=16, head_dim_v=32, seqlen_q=7, seqlen_k=3
    )


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("head=3", "no field 'head'"),
        ("batch", "'batch' is no name=value"),
        ("batch=x", "batch = x is no integer"),
        ("sm_scale=x", "sm_scale = x is no number"),
        ("batch=1,batch=2", "batch is given twice"),
        ("mask=half", "mask = half; allowed: none, causal, window"),
        ("dtype=f64", "dtype = f64; allowed: f16, bf16, f32"),
        ("lse=2", "lse = 2; allowed: 0, 1"),
        ("batch=-1", "batch = -1 is negative"),
        ("heads_q=6,heads_k=4", "attn_fwd: heads_q = 6 is no multiple of heads_k = 4"),
        ("heads_k=0", "heads_q = 1 is no multiple of heads_k = 0"),
        ("op=conv", "op = conv; allowed: attn_fwd"),
    ],
)
def test_a_wrong_line_is_refused_in_words(line: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence.replace("|", ".")):
        Case.parse(line)


def test_filters_keep_the_cases_with_these_values() -> None:
    cases = [
        Case(head_dim=128, mask=mask, dtype=dtype) for mask in ("none", "causal") for dtype in ("f16", "bf16", "f32")
    ]
    assert [c.dtype for c in cases if case_filter("mask=causal,dtype=f16|f32")(c)] == ["f16", "f32"]
    assert all(case_filter("")(c) for c in cases)
    assert not any(case_filter("head_dim=64")(c) for c in cases)
    with pytest.raises(UserError, match="mask = half; allowed"):
        case_filter("mask=half")


@pytest.mark.parametrize(
    ("case", "pairs"),
    [
        (Case(seqlen_q=3, seqlen_k=5), 15),
        (Case(seqlen_q=3, seqlen_k=5, mask="causal"), 1 + 2 + 3),
        (Case(seqlen_q=3, seqlen_k=5, mask="causal", alignment="bottom_right"), 3 + 4 + 5),
        (Case(seqlen_q=5, seqlen_k=2, mask="causal", alignment="bottom_right"), 0 + 0 + 0 + 1 + 2),
        (Case(seqlen_q=4, mask="window", window_left=1, window_right=0), 1 + 2 + 2 + 2),
        (Case(seqlen_q=4, mask="window", window_left=-1, window_right=1), 2 + 3 + 4 + 4),
    ],
)
def test_flops_count_visible_pairs(case: Case, pairs: int) -> None:
    assert case.visible_pairs() == pairs
    assert case.flops() == 2 * pairs * (64 + 64)


def test_bytes_count_every_tensor_once() -> None:
    case = Case(batch=2, heads_q=4, heads_k=2, seqlen_q=3, seqlen_k=5, head_dim=16, head_dim_v=8)
    elements = 2 * (4 * 3 * 16 + 2 * 5 * 16 + 2 * 5 * 8 + 4 * 3 * 8)
    assert case.bytes() == 2 * elements + 4 * 2 * 4 * 3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_two_elements_of_an_output_share_a_place(layout: str) -> None:
    for tensor in ("out", "lse"):
        placed = Case(batch=2, heads_q=3, seqlen_q=4, head_dim=5, layout=layout).tensors()[tensor]
        places = {placed.offset}
        for size, stride in zip(placed.size, placed.stride, strict=True):
            places = {place + n * stride for place in places for n in range(size)}
        assert len(places) == math.prod(placed.size)
        assert max(places) == placed.extent - 1
        assert placed.stride[-1] == 1


def test_handed_cases_know_their_ids() -> None:
    case = handed()["A-15"][0]
    assert (case.seqlen_q, case.seqlen_k, case.alignment) == (2048, 1024, "bottom_right")
    assert handed_id(case) == "A-15"
    assert handed_id(Case(seqlen_q=12345)) is None
    assert all((c.head_dim_v, c.sm_scale) == (c.head_dim, 1 / math.sqrt(c.head_dim)) for c in handed()["A-25"])


def test_pairs_show_what_the_grid_shows_two_by_two() -> None:
    cases = case_set("pairs")
    grid = case_set("grid")
    assert set(cases) < {*grid, *case_set("quick")}
    for names in (
        ("dtype", "mask"),
        ("dtype", "layout"),
        ("mask", "layout"),
        ("dtype", "head_dim"),
        ("mask", "inputs"),
    ):
        chosen, all_ = ({tuple(getattr(c, n) for n in names) for c in of} for of in (cases, grid))
        assert chosen >= all_, names
    assert {(c.mask, c.layout) for c in cases} == set(product(("none", "causal", "window"), LAYOUTS))
    assert {True, False} == {c.heads_q > c.heads_k for c in cases if c.mask == "window"}
    assert {1, 17, 63, 65, 127, 129, 1025} <= {c.seqlen_q for c in cases}
    assert len(cases) < len(grid) / 3


def test_quick_is_small_enough_for_an_emulator() -> None:
    assert sum(case.flops() for case in case_set("quick")) < 1e9


def test_the_sets_reach_every_bucket_mask_and_layout() -> None:
    grid = case_set("grid")
    assert {c.layout for c in grid} == set(LAYOUTS)
    assert {c.batch for c in grid} >= {0, 1, 3}
    assert {(c.mask, c.alignment) for c in grid} >= {("causal", "bottom_right"), ("window", "top_left")}
    assert {c.head_dim for c in grid} >= {16, 17, 33, 512}
    assert any(c.seqlen_k == 0 for c in grid)
    assert any(c.seqlen_q == 0 for c in grid)
