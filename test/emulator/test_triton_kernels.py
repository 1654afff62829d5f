"""Kernels of the Triton compiler for gfx950, every checker on, against float64."""

import time

import numpy as np
import pytest
import torch

import triton_kernels
from attention_problem import Problem

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


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_every_wave_order_and_completion_mode_gives_the_same_bits(hip, dtype):
    problem = Problem(hip, dtype, 64, True, seqlen_q=200)
    expected = [raw.clone() for raw in problem.run()]
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
