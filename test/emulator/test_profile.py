"""Counters of a launch, and the modelled cycles: known counts, ranges, and what they must not say."""

import assembler
import numpy as np
import pytest
from attention_problem import Problem
from test_checkers import CLEAN, EXCHANGE

CLASSES = {"valu", "packed", "transcendental", "mfma", "lds", "vmem", "smem", "salu", "branch", "internal"}


def test_counters_of_a_small_kernel_are_exact(hip):
    function = hip.function(assembler.kernel(EXCHANGE.format(**CLEAN), pointers=2, lds=512), "test_kernel")
    hip.launch(function, (3, 1, 1), (128, 1, 1), 0, hip.array(np.zeros(128, np.uint32)), hip.empty(128, np.uint32), 0)
    profile = hip.profile()
    waves = 6
    assert (profile["workgroups"], profile["waves"], profile["barriers"]) == (3, waves, waves)
    assert set(profile["by_class"]) == CLASSES
    expected = {"valu": 2, "lds": 2, "vmem": 2, "smem": 2, "internal": 6, "mfma": 0}
    assert {name: profile["by_class"][name] for name in expected} == {n: c * waves for n, c in expected.items()}
    assert profile["global_write_bytes"] == 256 * waves
    assert profile["lds_bytes"] == 512 * waves
    assert profile["lds_conflict_clocks"] == 0


@pytest.mark.parametrize(("stride", "clocks"), [(4, 1), (8, 2), (256, 64), (0, 1)])
def test_bank_conflicts_count_different_dwords_in_one_bank(hip, stride, clocks):
    source = f"v_mul_u32_u24 v1, {stride}, v0\nv_mov_b32 v2, 1\nds_write_b32 v1, v2\ns_waitcnt lgkmcnt(0)\ns_endpgm"
    function = hip.function(assembler.kernel(source.replace("256", "0x100"), lds=64 * max(stride, 4)), "test_kernel")
    hip.launch(function, (1, 1, 1), (64, 1, 1), 0, None, 0)
    profile = hip.profile()
    assert profile["lds_clocks"] == clocks
    assert profile["lds_conflict_clocks"] == clocks - 1


def test_matrix_work_of_attention_is_counted(hip):
    problem = Problem(hip, "bf16", 64, False, heads=2, seqlen_q=128, seqlen_k=256)
    problem.run()
    assert hip.profile()["flops"] == 2 * 2 * 2 * 128 * 256 * 64
    occupancy = hip.profile()["occupancy"]
    assert occupancy["vgpr_spills"] == 0
    assert occupancy["groups_by_lds"] >= 1


def test_modelled_cycles_come_as_a_range_and_are_called_modelled(hip):
    hip.set(cycles=1)
    problem = Problem(hip, "bf16", 128, False, seqlen_q=128, seqlen_k=512)
    problem.run()
    model = hip.profile()["modelled"]
    assert model["note"] == "modelled, not measured"
    for name in ("clocks", "mfma_busy_workgroup", "mfma_busy_steady"):
        assert model[name]["low"] <= model[name]["median"] <= model[name]["high"]
    assert 0.2 < model["mfma_busy_steady"]["median"] < 1
    assert model["most_time_stalled_on"] in model["stalled_share_of_wave_time"]


def test_more_keys_take_more_modelled_clocks_at_the_same_rate(hip):
    hip.set(cycles=1, check="none")
    results = []
    for keys in (512, 1024):
        Problem(hip, "bf16", 128, False, seqlen_q=128, seqlen_k=keys).run()
        results.append(hip.profile()["modelled"])
    clocks = [r["clocks"]["median"] for r in results]
    rates = [r["mfma_busy_steady"]["median"] for r in results]
    assert 1.6 < clocks[1] / clocks[0] < 2.1
    assert abs(rates[0] - rates[1]) < 0.1
