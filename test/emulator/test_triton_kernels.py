"""Kernels of the Triton compiler for gfx950, every checker on, against float64."""

import time

import numpy as np
import pytest
import torch
import triton_kernels
from attention_problem import TORCH, Problem, raw, typed

ORDERS = ["round_robin", "to_barrier", "reverse", "random"]


@pytest.mark.parametrize("ranged", [False, True], ids=["pointers", "buffers"])
@pytest.mark.parametrize("preload", [1, 0])
@pytest.mark.parametrize("n", [1, 255, 1000])
def test_vector_add_with_and_without_preloaded_arguments(hip, ranged, preload, n):
    hip.set(preload=preload)
    kernel = triton_kernels.add(ranged=ranged)
    x, y = (np.random.default_rng(k).standard_normal(n).astype(np.float32) for k in range(2))
    out = hip.array(np.full(n + 64, 7, np.float32))
    function = hip.function(kernel.asm["hsaco"], "add_kernel")
    arguments = (hip.array(x), hip.array(y), out, n, None, None)
    hip.launch(function, (-(-n // 256), 1, 1), (256, 1, 1), kernel.metadata.shared, *arguments)
    assert (out.numpy()[:n] == x + y).all()
    assert (out.numpy()[n:] == 7).all()


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("ranged", [True, False], ids=["buffers", "pointers"])
def test_attention_agrees_with_float64(hip, dtype, head_dim, causal, ranged):
    problem = Problem(hip, dtype, head_dim, causal, heads=2, seqlen_q=193, ranged=ranged)
    problem.check(*problem.run())


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("tile", [(64, 32, 4), (128, 64, 4), (256, 64, 8)], ids=str)
def test_attention_tiles_and_pipeline_depths(hip, stages, tile):
    block_m, block_n, warps = tile
    problem = Problem(
        hip, "fp16", 64, True, seqlen_q=257, block_m=block_m, block_n=block_n, num_warps=warps, num_stages=stages
    )
    problem.check(*problem.run())


@pytest.mark.parametrize("mask", ["i1", "i8", "u8"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_boolean_masks_of_every_kind(hip, dtype, mask):
    rng = np.random.default_rng(2)
    x = torch.from_numpy(rng.standard_normal(512).astype(np.float32)).to(TORCH[dtype])
    seen = rng.integers(0, 2, 512).astype(np.uint8)
    kernel = triton_kernels.masked(dtype, mask)
    out = hip.empty((512,), raw(x).dtype)
    function = hip.function(kernel.asm["hsaco"], "masked_kernel")
    arguments = (hip.array(raw(x)), hip.array(seen), out, None, None)
    hip.launch(function, (1, 1, 1), (256, 1, 1), kernel.metadata.shared, *arguments)
    expected = torch.where(torch.from_numpy(seen) != 0, x.double() ** 2 + x.double(), -1.0)
    tolerance = torch.finfo(TORCH[dtype]).eps * expected.abs().max()  # two roundings of half an eps each
    assert (typed(out.numpy(), dtype).double() - expected).abs().max() < tolerance


def test_dropout_keeps_the_share_it_says(hip):
    kernel = triton_kernels.dropout()
    x = np.random.default_rng(0).standard_normal(1024).astype(np.float32)
    keep, out = hip.empty(1024, np.int8), hip.empty(1024, np.float32)
    function = hip.function(kernel.asm["hsaco"], "dropout_kernel")
    arguments = (hip.array(x), keep, out, 7, 0.25, None, None)
    hip.launch(function, (1, 1, 1), (256, 1, 1), kernel.metadata.shared, *arguments)
    kept = keep.numpy() != 0
    assert 0.65 < kept.mean() < 0.85
    assert np.allclose(out.numpy(), np.where(kept, x / np.float32(0.75), 0), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["i32", "fp32"])
def test_scans_and_atomics(hip, dtype):
    kind = {"i32": np.int32, "fp32": np.float32}[dtype]
    x = np.random.default_rng(0).integers(-9, 9, 512).astype(kind)
    kernel = triton_kernels.scan(dtype)
    out, total = hip.empty(512, kind), hip.array(np.zeros(16, kind))
    function = hip.function(kernel.asm["hsaco"], "scan_kernel")
    arguments = (hip.array(x), out, total, None, None)
    hip.launch(function, (1, 1, 1), (256, 1, 1), kernel.metadata.shared, *arguments)
    assert (out.numpy() == np.cumsum(x)).all()
    assert (total.numpy() == x.reshape(32, 16).sum(0)).all()


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_every_wave_order_and_completion_mode_gives_the_same_bits(hip, dtype):
    problem = Problem(hip, dtype, 64, True, seqlen_q=200)
    expected = [part.clone() for part in problem.run()]
    for order in ORDERS:
        for completion in ("issue", "wait"):
            for seed in (1, 2):
                hip.set(order=order, completion=completion, seed=seed)
                out = problem.run()
                assert all(torch.equal(a, b) for a, b in zip(expected, out, strict=True)), (order, completion)


def test_plain_and_vector_builds_give_the_same_bits(hip):
    problem = Problem(hip, "bf16", 128, True, seqlen_q=200)
    expected = problem.run()
    hip.set(simd="plain")
    assert all(torch.equal(a, b) for a, b in zip(expected, problem.run(), strict=True))


@pytest.mark.parametrize(("check", "seconds"), [("none", 3), ("all", 8)])
def test_forward_keeps_its_time_budget(hip, check, seconds):
    hip.set(check=check, threads=2)
    problem = Problem(hip, "bf16", 128, True, heads=2, seqlen_q=512)
    start = time.perf_counter()
    problem.check(*problem.run())
    elapsed = time.perf_counter() - start
    profile = hip.profile()
    print(f"check={check}: {elapsed:.3f} s, {profile['instructions'] / profile['seconds'] / 1e6:.2f} M instructions/s")
    assert elapsed < seconds
