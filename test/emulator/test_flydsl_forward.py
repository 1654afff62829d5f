"""FlyDSL's attention forward for gfx950, every checker on: one result in every order, and what values may do to it."""

import math
from itertools import product

import pytest
import torch
from aotattn.bench.cases import LAYOUTS, Case
from flydsl_forward import Forward, growing

RANDOM_SEEDS = (1, 2, 3)
ORDERS = [
    {"order": "round_robin"},
    {"order": "to_barrier"},
    {"order": "reverse"},
    *({"order": "random", "seed": seed} for seed in RANDOM_SEEDS),
]
ONE_ORDER_CASES = {
    "full": "heads_q=2,heads_k=1,seqlen_q=300,seqlen_k=300,head_dim=128",
    "causal": "batch=2,seqlen_q=300,seqlen_k=300,head_dim=128,mask=causal",
    "window": "seqlen_q=300,seqlen_k=430,head_dim=128,mask=window,window_left=70,window_right=90",
    "f16": "dtype=f16,seqlen_q=64,seqlen_k=257,head_dim=128,mask=causal,alignment=bottom_right",
    "head_dim_64": "heads_q=3,heads_k=1,seqlen_q=70,seqlen_k=300,head_dim=64",
    "head_dim_192": "seqlen_q=257,seqlen_k=257,head_dim=192,mask=causal",
    "head_dim_256": "seqlen_q=257,seqlen_k=200,head_dim=256,mask=causal",
    "head_dim_72": "seqlen_q=33,seqlen_k=161,head_dim=72",
    "rows_without_keys": "seqlen_q=290,seqlen_k=33,head_dim=128,mask=causal,alignment=bottom_right",
    "one_key": "seqlen_q=1,seqlen_k=1,head_dim=64",
    "no_keys": "seqlen_q=40,seqlen_k=0,head_dim=64",
}


def check_in_every_order(hip, forward):
    forward.check()
    expected = [part.clone() for part in forward.run()]
    for order, completion in product(ORDERS, ("issue", "wait")):
        hip.set(**order, completion=completion)
        found = forward.run()
        assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True)), (order, completion)


@pytest.mark.parametrize("line", ONE_ORDER_CASES.values(), ids=ONE_ORDER_CASES)
def test_every_order_and_completion_mode_gives_the_same_bits(hip, line):
    check_in_every_order(hip, Forward(hip, Case.parse(line)))


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_images_for_any_layout_have_one_result_too(hip, mask):
    case = Case(seqlen_q=70, seqlen_k=200, head_dim=33, mask=mask, layout="odd")
    check_in_every_order(hip, Forward(hip, case, aligned=False))


# ---- Shapes ----------------------------------------------------------------------------------------------------------

MASKS = (
    {"mask": "none"},
    {"mask": "causal"},
    {"mask": "causal", "alignment": "bottom_right"},
    {"mask": "window", "window_left": 30, "window_right": 70, "alignment": "bottom_right"},
)


@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: "_".join(map(str, mask.values())))
@pytest.mark.parametrize("seqlen_q", [1, 33, 255, 256, 257])
def test_lengths_around_the_tiles(hip, seqlen_q, mask):
    for seqlen_k in (1, 63, 64, 65, 255, 257):
        Forward(hip, Case(seqlen_q=seqlen_q, seqlen_k=seqlen_k, head_dim=64, **mask)).check()


@pytest.mark.parametrize("layout", [*LAYOUTS])
@pytest.mark.parametrize("head_dim", [1, 17, 33, 72, 100, 200])
def test_head_dims_that_no_image_is_for_in_every_layout(hip, head_dim, layout):
    case = Case(batch=2, heads_q=2, heads_k=1, seqlen_q=40, seqlen_k=70, head_dim=head_dim, layout=layout)
    whole = layout != "odd" and head_dim % 8 == 0
    for aligned in (True, False) if whole else (False,):
        Forward(hip, case, aligned=aligned).check()


@pytest.mark.parametrize(("head_dim", "head_dim_v"), [(128, 64), (192, 128), (64, 128), (40, 200), (5, 7)])
def test_v_may_have_another_head_dim(hip, head_dim, head_dim_v):
    case = Case(heads_q=2, seqlen_q=70, seqlen_k=130, head_dim=head_dim, head_dim_v=head_dim_v, mask="causal")
    Forward(hip, case, aligned=head_dim % 8 == 0).check()


@pytest.mark.parametrize("heads_stay", [True, False])
@pytest.mark.parametrize(("batch", "heads_q"), [(1, 1), (1, 7), (2, 4), (3, 5)])
def test_every_block_is_computed_whatever_their_number(hip, batch, heads_q, heads_stay):
    for seqlen_q in (1, 256, 600):
        case = Case(batch=batch, heads_q=heads_q, heads_k=1, seqlen_q=seqlen_q, seqlen_k=1, head_dim=64)
        Forward(hip, case, heads_stay=heads_stay).check()


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("stride", [0, 8, 4096])
def test_a_single_row_may_have_any_stride(hip, stride, aligned):
    forward = Forward(hip, Case(heads_q=2, seqlen_q=1, seqlen_k=1, head_dim=64), aligned=aligned)
    views = {name: forward.tensors[name].view for name in "qkv"}
    views = {name: v.as_strided(v.shape, (*v.stride()[:2], stride, 1), v.storage_offset()) for name, v in views.items()}
    forward.upload(**views)
    forward.check()


@pytest.mark.parametrize("config", [{"heads_stay": False}, {"stagger": False}, {"aligned": False}], ids=str)
def test_placement_stagger_and_layout_change_no_bit_of_out(hip, config):
    case = Case(batch=2, heads_q=3, seqlen_q=300, seqlen_k=200, head_dim=128, mask="causal")
    expected, _ = Forward(hip, case).run()
    assert torch.equal(Forward(hip, case, **config).check()["out"].view, expected)


# ---- Memory that is not part of the problem --------------------------------------------------------------------------


@pytest.mark.parametrize(("head_dim", "dtype"), [(64, "bf16"), (72, "f16"), (128, "f16"), (200, "bf16"), (256, "bf16")])
def test_what_lies_between_rows_never_leaks(hip, head_dim, dtype):
    case = Case(dtype=dtype, batch=2, heads_q=2, seqlen_q=40, seqlen_k=70, head_dim=head_dim, layout="padded")
    forward = Forward(hip, case)
    gaps = forward.tensors["k"].storage.isnan().sum()
    assert gaps > case.batch * case.heads_k * (case.seqlen_k - 1) * 8
    forward.check()


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("layout", ["bhsd", "bshd", "packed"])
def test_keys_behind_the_last_one_never_leak(hip, layout, mask, aligned):
    """The keys and queries from the 66th on are NaN, and the problem ends in front of them."""
    forward = Forward(hip, Case(heads_q=2, seqlen_q=130, head_dim=64, mask=mask, layout=layout), aligned=aligned)
    for name in "qkv":
        forward.tensors[name].view[:, :, 65:] = math.nan
    forward.case = forward.case.but(seqlen_q=65, seqlen_k=65)
    forward.upload(**{name: forward.tensors[name].view[:, :, :65] for name in "qkv"})
    forward.check()


@pytest.mark.parametrize("aligned", [True, False])
def test_one_key_may_stand_for_all(hip, aligned):
    """k and v with a stride of 0 from head to head and from key to key."""
    forward = Forward(hip, Case(heads_q=2, seqlen_q=40, seqlen_k=150, head_dim=128), aligned=aligned)
    forward.upload(**{name: forward.tensors[name].view[:, :1, :1].expand(-1, 2, 150, -1) for name in "kv"})
    forward.check()


# ---- Values ----------------------------------------------------------------------------------------------------------


GROWING = Case(seqlen_q=40, seqlen_k=640, head_dim=64, sm_scale=1.0)


@pytest.mark.parametrize(
    ("head_dim", "dtype", "rescale"),
    [
        (64, "bf16", "on_demand"),
        (64, "f16", "lazy"),
        (128, "f16", "on_demand"),
        (192, "bf16", "on_demand"),
        (256, "bf16", "lazy"),
        (256, "bf16", "always"),
    ],
)
@pytest.mark.parametrize("powers", [0.5, 3, 6, 9, 13, 40])
def test_growing_scores_are_rescaled_and_right(hip, powers, head_dim, dtype, rescale):
    growing(hip, powers, GROWING.but(dtype=dtype, head_dim=head_dim), rescale=rescale).check()


@pytest.mark.parametrize("head_dim", [64, 128, 192])
def test_what_is_computed_again_has_the_same_bits_in_every_order(hip, head_dim):
    case = Case(heads_q=2, heads_k=1, seqlen_q=70, seqlen_k=200, head_dim=head_dim, mask="causal", sm_scale=1.0)
    check_in_every_order(hip, growing(hip, 30, case, rescale="on_demand"))


@pytest.mark.parametrize("layout", ["bshd", "padded"])
@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: "_".join(map(str, mask.values())))
@pytest.mark.parametrize("head_dim", [72, 128])
def test_growing_scores_are_right_under_every_mask(hip, head_dim, mask, layout):
    """What is computed again is of the right head, tile and keys."""
    shape = Case(batch=2, heads_q=4, heads_k=2, seqlen_q=300, seqlen_k=330, head_dim=head_dim, sm_scale=1.0)
    growing(hip, 15, shape.but(layout=layout, **mask)).check()


@pytest.mark.parametrize("rescale", ["on_demand", "lazy"])
def test_one_outlier_in_any_tile_is_enough(hip, rescale):
    """A score 2^20, 2^130 and 2^1000 times the others' weight, for one row and one key alone."""
    for key, height in product((5, 64, 200, 511, 512), (20, 130, 1000)):
        forward = Forward(hip, Case(seqlen_q=40, seqlen_k=513, head_dim=64, sm_scale=1.0), rescale=rescale)
        q, k = forward.tensors["q"].view, forward.tensors["k"].view
        q *= 0.2
        q[..., 0], k[..., 0] = 0, 0
        q[0, 0, 7, 0], k[0, 0, key, 0] = height**0.5, height**0.5 * math.log(2)
        forward.upload()
        forward.check()


@pytest.mark.parametrize("rescale", ["on_demand", "lazy"])
def test_sums_are_rescaled_only_where_scores_outgrow_their_reference(hip, rescale):
    """In executed instructions."""
    executed = {}
    for powers in (0, 0.1, 9, 40):
        growing(hip, powers, GROWING, rescale=rescale).run()
        executed[powers] = hip.profile()["instructions"]
    assert executed[0] == executed[0.1] < executed[9] <= executed[40]


@pytest.mark.parametrize("alignment", ["top_left", "bottom_right"])
@pytest.mark.parametrize("mask", ["causal", "window"])
def test_rows_without_keys_are_zero(hip, mask, alignment):
    """Single rows, all rows of a wave, all rows of a workgroup."""
    window = {"window_left": 5, "window_right": 9} if mask == "window" else {}
    seqlen_q, seqlen_k = (600, 90) if alignment == "bottom_right" or mask == "window" else (600, 0)
    case = Case(seqlen_q=seqlen_q, seqlen_k=seqlen_k, head_dim=128, mask=mask, alignment=alignment, **window)
    outputs = Forward(hip, case).check()
    blind = outputs["lse"].view == -math.inf
    assert blind.sum() > 256
    assert (outputs["out"].view[blind] == 0).all()


@pytest.mark.parametrize("head_dim", [64, 128, 192, 256])
@pytest.mark.parametrize("sm_scale", [1e-30, 1e-6, 0.3, 3.0, 1e6])
def test_no_scale_lets_a_masked_key_count(hip, sm_scale, head_dim):
    """Neither the rounding of the mask's value times the scale, nor a scale so small that the product is nothing."""
    case = Case(seqlen_q=100, seqlen_k=70, head_dim=head_dim, mask="causal", alignment="bottom_right")
    Forward(hip, case.but(sm_scale=sm_scale)).check()


@pytest.mark.parametrize("inputs", ["normal3", "negative900", "large_dots", "low_scores", "zero_q", "one_hot_v"])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_unusual_inputs(hip, dtype, inputs):
    Forward(hip, Case(dtype=dtype, seqlen_q=70, seqlen_k=140, head_dim=128, mask="causal", inputs=inputs)).check()


def test_scores_far_beyond_16_bits(hip):
    """q k up to 1e20, brought back by the scale."""
    forward = Forward(hip, Case(seqlen_q=70, seqlen_k=140, head_dim=64, sm_scale=1e-18 / 8))
    for name in "qk":
        forward.tensors[name].view.mul_(1e9)
    forward.upload()
    forward.check()


def test_a_nan_stays_in_its_row(hip):
    forward = Forward(hip, Case(seqlen_q=40, seqlen_k=70, head_dim=64))
    forward.tensors["q"].view[0, 0, 17, 3] = math.nan
    forward.upload()
    out = forward.launch()["out"].view[0, 0]
    assert out[17].isnan().all()
    assert out.isnan().any(-1).sum() == 1
