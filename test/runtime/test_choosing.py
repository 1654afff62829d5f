"""From a problem to a plan: canonical masks, buckets, requirements, fallbacks."""

import dataclasses
import itertools
import logging
import struct

import pytest
from aotattn import runtime
from aotattn.runtime import AotError
from lab import Lab, Problem, features, kernel, plan, requirement

EQUAL = Problem(seqlen_q=256, seqlen_k=256)
SHORT = Problem(seqlen_q=100, seqlen_k=300)
LONG = Problem(seqlen_q=300, seqlen_k=100)
ONE = Problem(seqlen_q=1, seqlen_k=300)
NO_KEYS = Problem(seqlen_k=0)
ALIGNMENTS = ("top_left", "bottom_right")
MASK_SLOTS = (("window_left", "i64"), ("window_right", "i64"), ("bottom_right", "i64"))


def masked(problem: Problem, mask: str, alignment: str = "top_left", left: int = -1, right: int = -1) -> Problem:
    return dataclasses.replace(problem, mask=mask, alignment=alignment, window_left=left, window_right=right)


# problem; the mask that it is; its bounds and alignment as kernels get them
CANONICAL = [
    (masked(EQUAL, "none"), "none", (255, 255, 0)),
    (masked(EQUAL, "none", "bottom_right"), "none", (255, 255, 0)),
    (masked(EQUAL, "causal"), "causal", (255, 0, 0)),
    (masked(EQUAL, "causal", "bottom_right"), "causal", (255, 0, 0)),
    (masked(SHORT, "causal"), "causal", (99, 0, 0)),
    (masked(SHORT, "causal", "bottom_right"), "causal", (299, 0, 1)),
    (masked(LONG, "causal", "bottom_right"), "causal", (99, 0, 1)),
    (masked(ONE, "causal", "bottom_right"), "none", (0, 299, 0)),
    (masked(ONE, "causal"), "causal", (0, 0, 0)),
    (masked(Problem(seqlen_k=1), "causal"), "none", (127, 0, 0)),
    (masked(EQUAL, "window", left=-1, right=0), "causal", (255, 0, 0)),
    (masked(EQUAL, "window", left=256, right=0), "causal", (255, 0, 0)),
    (masked(EQUAL, "window", left=255, right=0), "causal", (255, 0, 0)),
    (masked(EQUAL, "window", left=254, right=0), "window", (254, 0, 0)),
    (masked(EQUAL, "window", left=32, right=0), "window", (32, 0, 0)),
    (masked(EQUAL, "window", left=32, right=-1), "window", (32, 255, 0)),
    (masked(EQUAL, "window", left=0, right=0), "window", (0, 0, 0)),
    (masked(EQUAL, "window", left=-1, right=-1), "none", (255, 255, 0)),
    (masked(EQUAL, "window", left=255, right=255), "none", (255, 255, 0)),
    (masked(EQUAL, "window", left=-1, right=254), "window", (255, 254, 0)),
    (masked(EQUAL, "window", left=2**62, right=3), "window", (255, 3, 0)),
    (masked(EQUAL, "window", left=3, right=2**62), "window", (3, 255, 0)),
    (masked(SHORT, "window", left=9, right=299), "window", (9, 299, 0)),
    (masked(SHORT, "window", "bottom_right", left=299, right=0), "causal", (299, 0, 1)),
    (masked(SHORT, "window", "bottom_right", left=298, right=0), "window", (298, 0, 1)),
    (masked(SHORT, "window", "bottom_right", left=9, right=99), "window", (9, 99, 1)),
    (masked(SHORT, "window", "bottom_right", left=9, right=98), "window", (9, 98, 1)),
    (masked(LONG, "window", "bottom_right", left=-1, right=9), "window", (99, 9, 1)),
    (masked(LONG, "window", "bottom_right", left=9, right=-1), "window", (9, 299, 1)),
    (masked(ONE, "window", "bottom_right", left=128, right=0), "window", (128, 0, 1)),
    (masked(LONG, "window", left=-1, right=99), "none", (299, 99, 0)),
    (masked(NO_KEYS, "none"), "none", (127, 0, 0)),
    (masked(NO_KEYS, "causal", "bottom_right"), "causal", (0, 0, 1)),
]


@pytest.mark.parametrize(("problem", "mask", "slots"), CANONICAL, ids=lambda x: getattr(x, "mask", None))
def test_equal_masks_have_one_form(lab: Lab, problem: Problem, mask: str, slots: tuple[int, ...]) -> None:
    lab.store(
        *(plan(f"mask={m}", kernel(m, MASK_SLOTS), features=features(mask=m)) for m in ("none", "causal", "window"))
    )
    lab.launch(problem.parameters())
    (record,) = lab.records()
    assert record.symbol.decode() == mask
    assert record.arguments == b"".join(value.to_bytes(8, "little") for value in slots)


def seen(rows: range, keys: range, shift: int, left: int, right: int) -> set[tuple[int, int]]:
    return {(i, j) for i in rows for j in keys if i + shift - left <= j <= i + shift + right}


def test_the_canonical_window_shows_the_same_keys(lab: Lab) -> None:
    """Every mask of small problems, taken by the window kernel. Its bounds are small: it adds them in 32 bits."""
    lab.store(plan("mask=window", kernel("window", MASK_SLOTS), features=features(mask="window")))
    bounds = range(-1, 5)
    for q, k, alignment, left, right in itertools.product(range(1, 4), range(4), ALIGNMENTS, bounds, bounds):
        problem = masked(Problem(seqlen_q=q, seqlen_k=k), "window", alignment, left, right)
        (step,) = runtime.explain("attn_fwd", problem.parameters(), "sm_90")["plan"]
        new_left, new_right, bottom_right = struct.unpack("<qqq", bytes.fromhex(step["arguments"]))
        rows, keys, far = range(q), range(k), q + k
        shift = k - q if alignment == "bottom_right" else 0
        asked = seen(rows, keys, shift, far if left < 0 else left, far if right < 0 else right)
        assert seen(rows, keys, (k - q) * bottom_right, new_left, new_right) == asked
        assert 0 <= new_left < max(q, k)
        assert 0 <= new_right < max(q, k)


def tried(lab: Lab, problem: Problem) -> list[str]:
    """The functionals that a problem tries, in order: each has a plan that refuses it."""
    answer = runtime.explain("attn_fwd", problem.parameters(), "sm_90")
    assert answer["status"] == "unsupported"
    return [candidate["features"] for candidate in answer["candidates"]]


def refusing_store(lab: Lab, *functionals: str) -> None:
    never = (requirement("seqlen_q < 0", "never"),)
    lab.store(*(plan(features=f, requirements=never) for f in functionals))


def test_buckets_are_tried_from_the_own_one_upwards(lab: Lab) -> None:
    own = [features(head_dim=64, padded_head=p) for p in (0, 1)]
    larger = [features(head_dim=d, padded_head=1) for d in (80, 128, 512)]
    window = [features(head_dim=64, padded_head=p, mask="window") for p in (0, 1)]
    never_tried = [features(head_dim=128), features(head_dim=48, padded_head=1), features(mask="causal")]
    refusing_store(lab, *larger, *window, *own, *never_tried)
    assert tried(lab, Problem(head_dim=64)) == own + larger + window


def test_an_unequal_pair_falls_to_the_larger_bucket(lab: Lab) -> None:
    own = features(head_dim=192, head_dim_v=128, padded_head=1)
    both = [features(head_dim=d, padded_head=1) for d in (192, 224)]
    refusing_store(lab, *both, own, features(head_dim=192, head_dim_v=128), features(head_dim=128, padded_head=1))
    assert tried(lab, Problem(head_dim=161, head_dim_v=128)) == [own, *both]


def test_causal_falls_to_window_after_every_bucket(lab: Lab) -> None:
    rows = [
        features(mask="causal"),
        features(mask="causal", head_dim=512, padded_head=1),
        features(mask="window"),
        features(mask="window", head_dim=512, padded_head=1),
    ]
    refusing_store(lab, *reversed(rows))
    assert tried(lab, Problem(mask="causal")) == rows


def test_the_window_kernel_gets_the_causal_bounds(lab: Lab) -> None:
    lab.store(plan("mask=window", kernel("window", MASK_SLOTS), features=features(mask="window")))
    lab.launch(masked(SHORT, "causal", "bottom_right").parameters())
    assert lab.records()[0].arguments == b"".join(value.to_bytes(8, "little") for value in (299, 0, 1))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_each_dtype_has_its_own_kernels(lab: Lab, dtype: str) -> None:
    lab.store(*(plan(f"dtype={d}", features=features(dtype=d)) for d in ("f16", "bf16", "f32")))
    lab.launch(Problem(dtype=dtype).parameters())
    assert lab.launched() == [f"dtype_{dtype}"]


@pytest.mark.parametrize("head_dim", [1, 16, 17, 33, 64, 65, 100, 128, 129, 200, 256, 257, 385, 512])
def test_every_head_dim_has_a_bucket(lab: Lab, head_dim: int) -> None:
    buckets = (16, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256, 384, 512)
    lab.store(*(plan(f"d={d},{p}", features=features(head_dim=d, padded_head=p)) for d in buckets for p in (0, 1)))
    answer = runtime.explain("attn_fwd", Problem(head_dim=head_dim).parameters(), "sm_90")
    bucket = next(b for b in buckets if b >= head_dim)
    assert answer["features"] == features(head_dim=bucket, padded_head=int(bucket != head_dim))


def test_the_first_plan_whose_requirements_hold_is_taken(lab: Lab) -> None:
    lab.store(
        plan("block=1", requirements=(requirement("q.ptr % 16 == 0 and q.stride.2 % 8 == 0", "q is not aligned"),)),
        plan("block=2"),
    )
    params = Problem().parameters()
    lab.launch(params)
    params.q.data = 0x10002
    lab.launch(params)
    assert lab.launched() == ["block_1", "block_2"]


def test_the_stride_of_a_single_element_does_not_count(lab: Lab) -> None:
    """It is whatever the caller's view says; 0 suits every kernel."""
    lab.store(plan(requirements=(requirement("q.stride.0 == 0 and q.stride.2 == 64", "stride"),)))
    params = Problem(batch=1).parameters()
    params.q.stride[0] = 12345
    lab.launch(params)
    assert len(lab.records()) == 1


ARITHMETIC = [
    ("q.bytes == 2 * 8 * 128 * 64 * 2", True),
    ("lse.bytes == 2 * 8 * 128 * 4", True),
    ("k.size.2 == 256 and k.stride.2 == 64 and v.stride.3 == 1", True),
    ("batch == 2 and heads_q == 8 and heads_k == 2 and head_dim == 64 and head_dim_v == 64", True),
    ("compute_units == 132 and scale_sign == 1", True),
    ("cdiv(seqlen_q, 100) == 2 and cdiv(seqlen_q, 64) == 2 and cdiv(0, 7) == 0", True),
    ("min(seqlen_q, seqlen_k) == 128 and max(seqlen_q, seqlen_k) == 256", True),
    ("seqlen_q // 100 == 1 and seqlen_q % 100 == 28", True),
    ("(0 - 7) // 2 == 0 - 4 and (0 - 7) % 2 == 1", True),
    ("seqlen_q < 128 or seqlen_q > 128 or seqlen_q != 128", False),
    ("seqlen_q <= 128 and seqlen_q >= 128", True),
    ("seqlen_q // (batch - 2) == 0", False),
    ("seqlen_q % (batch - 2) == 0", False),
    ("4611686018427387904 * batch > 0", False),
]


@pytest.mark.parametrize(("expression", "holds"), ARITHMETIC)
def test_requirements_are_evaluated_as_written(lab: Lab, expression: str, holds: bool) -> None:
    lab.store(plan(requirements=(requirement(expression, "it does not hold"),)))
    status, sentence = lab.refusal(Problem().parameters())
    assert status == ("AOT_OK" if holds else "AOT_UNSUPPORTED")
    assert holds or sentence.endswith(("it does not hold", "divides by zero or passes 64 bits"))


def test_nothing_built_names_the_functional(lab: Lab) -> None:
    lab.store(plan())
    assert lab.refusal(Problem(head_dim=100).parameters()) == (
        "AOT_UNSUPPORTED",
        f"no kernel for attn_fwd {features(head_dim=128, padded_head=1)} on sm_90; "
        "its store has none for these features",
    )


def test_nothing_that_fits_names_the_first_refusal(lab: Lab) -> None:
    lab.store(
        plan("block=1", requirements=(requirement("seqlen_q > 999", "needs a long query"),)),
        plan("block=2", requirements=(requirement("seqlen_k > 999", "needs many keys"),)),
    )
    assert lab.refusal(Problem().parameters()) == (
        "AOT_UNSUPPORTED",
        f"no plan takes attn_fwd {features()} on sm_90; triton/fwd/block=1 of {features()}: needs a long query",
    )


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        (("2147483648", "1", "1"), "a grid of 2147483648 along x; at most 2147483647 are allowed"),
        (("1", "65536", "1"), "a grid of 65536 along y; at most 65535 are allowed"),
        (("1", "1", "0 1 -"), "a grid of -1 along z; at most 65535 are allowed"),
        (("1", "1 0 /", "1"), "an expression of it divides by zero or passes 64 bits"),
    ],
)
def test_a_grid_out_of_range_refuses_the_plan(lab: Lab, grid: tuple[str, str, str], sentence: str) -> None:
    lab.store(plan("block=1", kernel("a", grid=grid)))
    status, said = lab.refusal(Problem().parameters())
    assert status == "AOT_UNSUPPORTED"
    assert said.endswith(sentence)


def test_a_value_that_does_not_fit_its_argument_refuses_the_plan(lab: Lab) -> None:
    wide = kernel("wide", (("q.stride.0", "i64"),))
    lab.store(plan("narrow", kernel("narrow", (("q.stride.0", "i32"),))), plan("wide", wide))
    params = Problem().parameters()
    lab.launch(params)
    params.q.stride[0] = 2**31
    lab.launch(params)
    assert lab.launched() == ["narrow", "wide"]
    answer = runtime.explain("attn_fwd", params, "sm_90")
    assert answer["candidates"][0]["refused"] == "q.stride.0 = 2147483648 does not fit its argument"


@pytest.mark.parametrize(
    ("wanted", "launched"),
    [
        (None, "block_64"),
        ("", "block_64"),
        ("triton", "block_64"),
        ("triton/fwd/block=32", "block_32"),
        ("flydsl", "flydsl"),
        ("flydsl/dual/x=1", "flydsl"),
    ],
)
def test_a_caller_may_want_a_plan(lab: Lab, wanted: str | None, launched: str) -> None:
    lab.store(plan("block=64"), plan("block=32"), plan("x=1", kernel("flydsl"), backend="flydsl", kernel="dual"))
    call = runtime.call("cuda", 0)
    call.plan = None if wanted is None else wanted.encode()
    runtime.launch("attn_fwd", Problem().parameters(), call)
    assert lab.launched() == [launched]


def test_a_wanted_plan_is_found_behind_the_functional(lab: Lab) -> None:
    lab.store(
        plan("block=64"),
        plan("padded", backend="flydsl", features=features(padded_head=1)),
        plan("window", backend="flydsl", features=features(mask="window")),
    )
    for wanted in ("flydsl/fwd/window", "flydsl"):
        lab.launch(Problem().parameters(), plan=wanted)
    assert lab.launched() == ["window", "padded"]


def test_a_wanted_plan_that_is_not_there_is_unsupported(lab: Lab) -> None:
    lab.store(plan("block=64"), plan("x=1", backend="flydsl", requirements=(requirement("batch > 9", "small"),)))
    with pytest.raises(AotError, match=r"no plan that starts with 'aiter' takes attn_fwd .*: it was not asked for"):
        lab.launch(Problem().parameters(), plan="aiter")
    with pytest.raises(AotError, match=r"no plan that starts with 'flydsl' takes .* flydsl/fwd/x=1 of .*: small"):
        lab.launch(Problem().parameters(), plan="flydsl")


def test_a_plan_that_does_not_load_gives_way_and_is_tried_again(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.store(plan("block=1"), plan("block=2"))
    for _ in range(2):
        lab.fail("cuModuleLoadData", 209)
        lab.launch(Problem().parameters())
    lab.launch(Problem().parameters())
    assert lab.launched() == ["block_2", "block_2", "block_1"]
    warnings = [r.message for r in caplog.records if r.levelno == logging.WARNING and "does not load" in r.message]
    assert warnings == [
        "sm_90 device 0: triton/fwd/block=1 does not load: "
        "CUDA: cuModuleLoadData failed with CUDA_ERROR_OF_THE_FAKE (209)"
    ]


def test_where_nothing_loads_the_drivers_word_is_told(lab: Lab) -> None:
    lab.store(plan("block=1"), plan("block=2"))
    lab.fail("cuModuleLoadData", 2, times=2)
    status, sentence = lab.refusal(Problem().parameters())
    assert status == "AOT_DEVICE_ERROR"
    assert sentence == (
        f"attn_fwd on sm_90: {features()} triton/fwd/block=1: "
        "CUDA: cuModuleLoadData failed with CUDA_ERROR_OF_THE_FAKE (2)"
    )
    lab.launch(Problem().parameters())
    assert lab.launched() == ["block_1"]


def test_a_second_call_with_other_values_is_another_problem(lab: Lab) -> None:
    """A-20: nothing that alters the result is remembered from call to call."""
    lab.store(plan("s", kernel("s", (("sm_scale", "f32"), ("scale_log2", "f32"), ("lse.ptr", "ptr")))))
    for scale, lse in ((0.125, True), (0.5, True), (0.5, False)):
        lab.launch(Problem(sm_scale=scale, lse=lse).parameters())
    assert len({r.arguments for r in lab.records()}) == 3
