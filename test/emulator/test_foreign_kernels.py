"""AITER's hd128 kernels, which nobody here wrote, against float64 attention."""

import aiter_wheel as aiter
import numpy as np
import pytest
import torch
from attention_problem import assert_as_good, plain, raw, reference, typed
from emulated_hip import HipError

HEAD_DIM = 128


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    found = aiter.wheel(tmp_path_factory.mktemp("wheel"))
    if found is None:
        pytest.skip(f"{aiter.REQUIREMENT} cannot be downloaded here")
    return found


def tensors(heads_q, heads_k, seqlen_q, seqlen_k, batch=1):
    generator = torch.Generator().manual_seed(4)
    shape = lambda h, s: (batch, h, s, HEAD_DIM)  # noqa: E731
    shapes = (shape(heads_q, seqlen_q), shape(heads_k, seqlen_k), shape(heads_k, seqlen_k), shape(heads_q, seqlen_q))
    return [torch.randn(*s, generator=generator).to(torch.bfloat16) for s in shapes]


def forward(hip, wheel, causal, seqlen_q, seqlen_k, heads_q=2, heads_k=1):
    stem = "fwd_hd128_bf16" + "_causal" * causal
    function = hip.function(aiter.code_object(wheel, f"fmha_v3_fwd/{stem}.co"), aiter.symbol(stem))
    q, k, v, _ = tensors(heads_q, heads_k, seqlen_q, seqlen_k)
    device = [hip.array(raw(t)) for t in (q, k, v)]
    out, lse = hip.array(np.full(q.shape, 0x7FC0, np.int16)), hip.array(np.full(q.shape[:3], np.nan, np.float32))
    block = aiter.forward_block(
        out.pointer,
        *(b.pointer for b in device),
        lse.pointer,
        HEAD_DIM**-0.5,
        heads_q,
        heads_k,
        seqlen_q,
        seqlen_k,
        HEAD_DIM,
    )
    tiles = -(-seqlen_q // 256)
    hip.launch_packed(function, (-(-tiles // 2) if causal else tiles, heads_q, 1), (512, 1, 1), 0, block)
    k, v = (t.repeat_interleave(heads_q // heads_k, 1) for t in (k, v))
    exact, exact_lse = reference(q, k, v, HEAD_DIM**-0.5, causal, bottom_right=True)
    return (
        typed(out.numpy(), "bf16"),
        torch.from_numpy(lse.numpy()),
        exact,
        exact_lse,
        plain(q, k, v, HEAD_DIM**-0.5, causal, bottom_right=True),
    )


SIZES = [(512, 512), (300, 333), (1, 64), (257, 1)]


@pytest.mark.parametrize("completion", ["issue", "wait"])
@pytest.mark.parametrize("order", ["round_robin", "to_barrier", "reverse"])
@pytest.mark.parametrize(("seqlen_q", "seqlen_k"), SIZES)
def test_forward_without_mask_is_clean_in_every_order(hip, wheel, seqlen_q, seqlen_k, order, completion):
    hip.set(order=order, completion=completion)
    out, lse, exact, exact_lse, baseline = forward(hip, wheel, False, seqlen_q, seqlen_k)
    assert_as_good("out", out, exact, baseline)
    assert (lse - exact_lse).abs().max() < 1e-5


@pytest.mark.parametrize(("seqlen_q", "seqlen_k"), [(512, 512), (300, 333)])
def test_causal_forward_is_right_in_the_order_of_the_hardware(hip, wheel, seqlen_q, seqlen_k):
    """Races are waived by name: at a tile change it relies on memory latency instead of a barrier."""
    hip.set(waive_races="fwd_hd128_bf16_causal", check="races,bounds,uninitialised,registers")
    out, lse, exact, exact_lse, baseline = forward(hip, wheel, True, seqlen_q, seqlen_k)
    assert_as_good("out", out, exact, baseline)
    assert (lse - exact_lse).abs().max() < 1e-5


def test_causal_forward_races_at_the_tile_change(hip, wheel):
    with pytest.raises(HipError, match="no barrier in between"):
        forward(hip, wheel, True, 512, 512)
    hip.set(check="none", order="to_barrier")
    out, _, exact, _, _ = forward(hip, wheel, True, 512, 512)
    assert (out.double() - exact).abs().max() > 0.1, "the race shows when waves run to the barrier"


@pytest.mark.parametrize("order", ["round_robin", "to_barrier", "reverse"])
@pytest.mark.parametrize("completion", ["issue", "wait"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("seqlen_q", "seqlen_k", "heads_k"), [(128, 256, 2), (80, 300, 1)])
def test_backward_agrees_with_float64(hip, wheel, causal, seqlen_q, seqlen_k, heads_k, completion, order):
    """delta and the zeroed accumulator come from here, as the library supplies them.

    The causal kernel races at a tile change like the forward one: waived by name, and only the
    order of the hardware is asked for.
    """
    if causal and order != "round_robin":
        pytest.skip("the causal kernel relies on memory latency")
    hip.set(order=order, completion=completion, waive_races="bwd_hd128_bf16_causal")
    heads_q = 2
    stem = "bwd_hd128_bf16" + "_causal" * causal + "_a32_psskddv"
    function = hip.function(aiter.code_object(wheel, f"fmha_v3_bwd/{stem}.co"), aiter.symbol(stem))
    q, k, v, dout = tensors(heads_q, heads_k, seqlen_q, seqlen_k)
    exact = [t.double().requires_grad_() for t in (q, k, v)]
    group = heads_q // heads_k
    out, lse = reference(exact[0], *(t.repeat_interleave(group, 1) for t in exact[1:]), HEAD_DIM**-0.5, causal)
    out.backward(dout.double())
    delta = (out * dout.double()).sum(-1).float().detach()
    buffers = {name: hip.array(raw(t)) for name, t in (("q", q), ("k", k), ("v", v), ("dout", dout))}
    buffers |= {"lse": hip.array(lse.float().detach().numpy()), "delta": hip.array(delta.numpy())}
    buffers["dq"] = hip.array(np.zeros(q.shape, np.float32))
    for name in ("dk", "dv"):
        buffers[name] = hip.array(np.full((1, heads_q, seqlen_k, HEAD_DIM), 0x7FC0, np.int16))
    block = aiter.backward_block(
        {n: b.pointer for n, b in buffers.items()}, HEAD_DIM**-0.5, heads_q, heads_k, seqlen_q, seqlen_k, HEAD_DIM, 256
    )
    hip.launch_packed(function, (-(-seqlen_k // 256), heads_q, 1), (256, 1, 1), 0, block)
    results = [torch.from_numpy(buffers["dq"].numpy()).double()]
    for name in ("dk", "dv"):
        one_a_query_head = typed(buffers[name].numpy(), "bf16").double()
        results.append(one_a_query_head.reshape(1, heads_k, group, seqlen_k, HEAD_DIM).sum(2))
    for name, got, want in zip(("dq", "dk", "dv"), results, (t.grad for t in exact), strict=True):
        assert (got - want).abs().max() <= 0.01 * want.abs().max(), name
