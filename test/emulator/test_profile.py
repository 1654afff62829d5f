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


def test_an_unloaded_kernel_has_no_profile(hip):
    module = hip.module(assembler.kernel("s_endpgm"))
    hip.launch(hip.function(module, "test_kernel"), (1, 1, 1), (64, 1, 1), 0, None, 0)
    assert hip.profile()["workgroups"] == 1
    hip.unload(module)
    assert hip.profile() == {}


@pytest.mark.parametrize(("stride", "clocks"), [(4, 1), (8, 2), (256, 64), (0, 1)])
def test_bank_conflicts_count_different_dwords_in_one_bank(hip, stride, clocks):
    source = f"v_mul_u32_u24 v1, {stride}, v0\nv_mov_b32 v2, 1\nds_write_b32 v1, v2\ns_waitcnt lgkmcnt(0)\ns_endpgm"
    function = hip.function(assembler.kernel(source.replace("256", "0x100"), lds=64 * max(stride, 4)), "test_kernel")
    hip.launch(function, (1, 1, 1), (64, 1, 1), 0, None, 0)
    profile = hip.profile()
    assert profile["lds_clocks"] == clocks
    assert profile["lds_conflict_clocks"] == clocks - 1
    assert profile["lds_conflict_share"] == pytest.approx((clocks - 1) / clocks)


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
    stalls = model["stalled_share_of_wave_time"]
    shares = ("mfma_busy_workgroup", "mfma_busy_steady", "vector_port_share", "lds_share", "memory_path_share")
    for spread in (model["clocks"], *(model[name] for name in shares), *stalls.values()):
        assert spread["low"] <= spread["median"] <= spread["high"]
    assert all(0 < model[name]["median"] < 1 for name in shares)
    assert model["mfma_busy_steady"]["median"] > 0.2
    assert sum(spread["high"] for spread in stalls.values()) < 1.5
    assert stalls[model["most_time_stalled_on"]]["median"] == max(spread["median"] for spread in stalls.values())
    by_draw = sorted(model["mfma_busy_steady_by_draw"])
    assert len(by_draw) == model["draws"]
    assert by_draw[len(by_draw) // 2] == pytest.approx(model["mfma_busy_steady"]["median"], abs=1e-6)
    # one workgroup had the device, where as many as are resident fit each of 256 compute units
    whole = 256 * model["resident_workgroups"] * model["mfma_busy_grid"]["median"]
    assert whole == pytest.approx(model["mfma_busy_workgroup"]["median"])
    rules = [model[f"tflops_at_{rule}_clock"]["median"] for rule in ("constant", "power_law")]
    assert 0 < min(rules) < max(rules) < 2 * min(rules)


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


def modelled(hip, source, repeat, threads=256):
    """One workgroup alone on its compute unit: a wave a SIMD with 256 threads, two with 512."""
    body = "\n".join(source.format(k % 8) for k in range(repeat)) + "\ns_endpgm"
    hip.set(cycles=1, check="none")
    function = hip.function(assembler.kernel(body, lds=163840, threads=threads), "test_kernel")
    hip.launch(function, (1, 1, 1), (threads, 1, 1), 0, None, 0)
    return hip.profile()["modelled"]


@pytest.mark.parametrize(("source", "clocks"), [("v_mov_b32 v{}, v9", 4), ("v_exp_f32 v{}, v9", 8)])
def test_a_transcendental_takes_twice_the_clocks_of_a_move(hip, source, clocks):
    model = modelled(hip, source, 500)
    assert model["clocks"]["low"] == pytest.approx(500 * clocks, rel=0.01)
    assert model["vector_port_share"]["high"] > 0.99


@pytest.mark.parametrize(
    ("name", "waits"), [("v_mul_f32 v{0}, v9, v9", False), ("v_pk_mul_f32 v[10:11], v[12:13], v[14:15]", True)]
)
def test_packed_arithmetic_waits_for_the_matrix_pipe(hip, name, waits):
    matrix = "v_mfma_f32_16x16x32_bf16 a[0:3], v[16:19], v[20:23], a[0:3]\n"
    model = modelled(hip, matrix + name, 200)
    assert (model["stalled_share_of_wave_time"]["packed_behind_matrix"]["median"] > 0.5) == waits
    assert (model["mfma_busy_steady"]["median"] > 0.75) != waits


def test_reads_of_lds_fill_it(hip):
    """64 lanes read 16 bytes: 4 clocks of the LDS, 8 of the port of a pair of SIMDs, so both are full."""
    lanes = "v_lshlrev_b32 v9, 4, v0\n"
    model = modelled(hip, lanes + "ds_read_b128 v[12:15], v9", 200)
    assert model["lds_share"]["median"] > 0.9
    assert model["most_time_stalled_on"] == "lds_full"


@pytest.mark.parametrize("priority", [0, 3])
def test_the_wave_of_higher_priority_goes_first(hip, priority):
    """Two waves of one SIMD compute; the older one then waits for scalar loads, which the younger one's work hides."""
    compute = "\n".join(f"v_mov_b32 v{k % 8 + 1}, v9" for k in range(200))
    source = f"""
      v_readfirstlane_b32 s8, v0
      s_cmp_lt_u32 s8, 0x100
      s_cbranch_scc1 .Lolder
      s_setprio {priority}
      {compute}
      s_endpgm
    .Lolder:
      s_nop 7
      {compute}
      {"s_load_dword s9, s[0:1], 0x0; s_waitcnt lgkmcnt(0);" * 4}
    """
    clocks = modelled(hip, source.replace(";", "\n"), 1, threads=512)["clocks"]["low"]
    assert clocks == pytest.approx(2400 if priority else 1600, rel=0.1)
