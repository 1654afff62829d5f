"""Every row of the instruction tables: a few instructions, expected registers."""

import assembler
import numpy as np
import pytest
import references as ref
from one_wave import EXEC, FULL, M0, VCC, Wave, covered

EDGES = np.array(
    [
        0,
        1,
        2,
        31,
        32,
        0x7F,
        0x80,
        0xFFFF,
        0x10000,
        0x7FFFFFFF,
        0x80000000,
        0x80000001,
        0xFFFFFFFF,
        0x3F800000,
        0xBF800000,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0x00800000,
        0x007FFFFF,
        0x477FF000,
        0x33000000,
        0x33800000,
        0x38800000,
        0x3F808000,
        0x3F818000,
        0x4F000000,
        0xCF000000,
        0x4F800000,
        0x7F7FFFFF,
        0x42FE0000,
        0xC2FC0000,
    ],
    np.uint32,
)


def lanes(seed, kind="mixed"):
    """64 u32 lanes: edge values and random ones. Kinds: mixed, float (moderate floats)."""
    rng = np.random.default_rng(seed)
    if kind == "float":
        return (rng.standard_normal(64) * 10.0 ** rng.integers(-3, 4, 64)).astype(np.float32).view(np.uint32)
    values = rng.integers(0, 1 << 32, 64, dtype=np.uint32)
    values[:32] = rng.permutation(EDGES)
    return values


def same(name, actual, expected, tolerance=0):
    """Equal bits; NaN matches any NaN; `tolerance` units in the last place."""
    actual, expected = np.asarray(actual), np.asarray(expected).astype(actual.dtype)
    bad = actual != expected
    if name.endswith("f16") and not name.startswith(("v_cvt", "v_pack")):
        bad &= ~(np.isnan(ref.h(actual)) & np.isnan(ref.h(expected)) & (actual >> 16 == expected >> 16))
    if tolerance or name.endswith("f32") or name.startswith("v_cvt_f32"):
        nan = np.isnan(actual.view(np.float32)) & np.isnan(expected.view(np.float32))
        near = np.abs(actual.astype(np.int64) - expected.astype(np.int64)) <= tolerance
        bad &= ~nan & ~near
    where = np.flatnonzero(bad)
    assert not where.size, f"{name} lane {where[0]}: {actual[where[0]]:#x}, expected {expected[where[0]]:#x}"


def check_vector(hip, name, form, execute=FULL):
    reference = ref.VECTOR[name]
    count = reference.__code__.co_argcount if hasattr(reference, "__code__") else 2
    for seed in range(3):
        wave = Wave(hip, execute)
        kind = "float" if name == "v_fma_f32" or seed == 2 else "mixed"
        for k in range(count):
            wave.v[1 + k] = lanes(10 * seed + k, kind)
        wave.v[10] = wave.a[10] = 0xDEADBEEF
        inputs = [wave.v[1 + k].copy() for k in range(count)]
        if name == "v_accvgpr_mov_b32":
            wave.a[1] = inputs[0]
            wave.run("v_accvgpr_mov_b32 a10, a1")
            result = wave.a[10]
        else:
            wave.run(f"{name}{form} v10, " + ", ".join(f"v{1 + k}" for k in range(count)))
            result = wave.v[10]
        with np.errstate(all="ignore"):
            expected = reference(*inputs)
        active = np.array([execute >> lane & 1 for lane in range(64)], bool)
        expected = np.where(active, expected, 0xDEADBEEF)
        same(name, result, expected, 1 if name in ref.APPROXIMATE else 0)


def assembles(name, form):
    try:
        assembler.words(f"{name}{form} v10, v1" + ", v2" * (name in TWO))
    except Exception:
        return False
    return True


@pytest.mark.parametrize("simd", ["auto", "plain"])
@pytest.mark.parametrize("name", ref.VECTOR)
def test_vector_rows_match_their_reference(hip, name, simd):
    hip.set(simd=simd)
    forms = [form for form in ("_e32", "_e64") if assembles(name, form)] or [""]
    for form in forms:
        check_vector(hip, name, form)
    check_vector(hip, name, forms[0], execute=0x00FF00000F0F0003)


TWO = {n for n, r in ref.VECTOR.items() if getattr(getattr(r, "__code__", None), "co_argcount", 2) == 2}


@pytest.mark.parametrize("name", ref.VECTOR64)
def test_wide_vector_rows_match_their_reference(hip, name):
    widths, reference = ref.VECTOR64[name]
    wave = Wave(hip)
    operands, inputs = [], []
    for k, width in enumerate(widths):
        at = 2 + 2 * k
        wave.v[at], wave.v[at + 1] = lanes(k), lanes(k + 7)
        value = wave.v[at].astype(np.uint64)
        if width == "2":
            value |= wave.v[at + 1].astype(np.uint64) << np.uint64(32)
        inputs.append(value)
        operands.append(f"v[{at}:{at + 1}]" if width == "2" else f"v{at}")
    wave.run(f"{name} v[10:11], {', '.join(operands)}")
    same(name, wave.v[10].astype(np.uint64) | wave.v[11].astype(np.uint64) << np.uint64(32), reference(*inputs))


@pytest.mark.parametrize("name", ref.COMPARE)
def test_compares_give_one_bit_a_lane_and_zero_for_inactive_lanes(hip, name):
    wide = name.endswith("64")
    for execute in (FULL, 0xF0F0F0F00F0F0F0F):
        wave = Wave(hip, execute)
        for k in range(4):
            wave.v[2 + k] = lanes(k)
        wave.v[4][::3] = wave.v[2][::3]
        wave.v[5][::3] = wave.v[3][::3]
        if wide:
            a, b = (wave.v[k].astype(np.uint64) | wave.v[k + 1].astype(np.uint64) << np.uint64(32) for k in (2, 4))
            sources = "v[2:3], v[4:5]"
        else:
            a, b, sources = wave.v[2].copy(), wave.v[4].copy(), "v2, v4"
        wave.run(f"{name}_e32 vcc, {sources}\n{name}_e64 s[20:21], {sources}")
        with np.errstate(all="ignore"):
            expected = sum(int(bit) << lane for lane, bit in enumerate(ref.compare(name, a, b))) & execute
        assert wave.get64(VCC) == expected
        assert wave.get64(20) == expected


def test_class_test_tells_the_ten_classes_apart(hip):
    values = [0x7F800001, 0x7FC00000, 0xFF800000, 0xBF800000, 0x80000001, 0x80000000, 0, 1, 0x3F800000, 0x7F800000]
    wave = Wave(hip)
    wave.v[1][:10] = values
    for k in range(10):
        wave.v[2] = 1 << k
        wave.run("v_cmp_class_f32 vcc, v1, v2")
        assert wave.get64(VCC) & 0x3FF == 1 << k


def test_conversions_at_nan_infinity_denormals_and_ties(hip):
    wave = Wave(hip)
    #            1+2^-8 tie down  1+3*2^-8 tie up   NaN payload   inf         max to inf  denormal
    wave.v[1][:6] = [0x3F808000, 0x3F818000, 0x7F800001, 0xFF800000, 0x7F7FFFFF, 0x00008000]
    wave.v[2][:] = 0x3F800000
    wave.run("v_cvt_pk_bf16_f32 v3, v1, v2")
    assert [int(x) & 0xFFFF for x in wave.v[3][:6]] == [0x3F80, 0x3F82, 0x7FC0, 0xFF80, 0x7F80, 0x0000]
    assert (wave.v[3] >> 16 == 0x3F80).all()
    #            tie 1+2^-11    65520 -> inf  65519.99 -> max  2^-25 tie -> 0  just above -> 2^-24  NaN
    wave.v[1][:6] = [0x3F801000, 0x477FF000, 0x477FEFFF, 0x33000000, 0x33000001, 0x7FC00000]
    wave.run("v_cvt_pk_f16_f32 v3, v1, v2\nv_cvt_pkrtz_f16_f32 v4, v1, v2")
    assert [int(x) & 0xFFFF for x in wave.v[3][:6]] == [0x3C00, 0x7C00, 0x7BFF, 0x0000, 0x0001, 0x7E00]
    assert [int(x) & 0xFFFF for x in wave.v[4][:5]] == [0x3C00, 0x7BFF, 0x7BFF, 0x0000, 0x0000]


def test_f32_denormals_are_flushed_only_when_the_mode_says_so(hip):
    for flush in (0, 1):
        wave = Wave(hip)
        wave.state.flush_f32 = flush
        wave.v[1][:2] = [0x00400000, 0x80400000]
        wave.run("v_add_f32 v2, 0, v1\nv_mov_b32 v3, v1\nv_mul_f32 v4, 1.0, v1")
        kept = [0x00400000, 0x80400000]
        assert list(wave.v[3][:2]) == kept, "a move keeps denormals"
        assert list(wave.v[4][:2]) == ([0, 0x80000000] if flush else kept)


def test_modifiers_negate_take_magnitudes_and_clamp(hip):
    wave = Wave(hip)
    wave.v[1][:4] = np.array([-2.5, 0.25, 3.0, np.nan], np.float32).view(np.uint32)
    wave.run("v_mul_f32_e64 v2, |v1|, -1.0\nv_add_f32_e64 v3, v1, 0 clamp\nv_sub_u32_e64 v4, v5, v1 clamp")
    assert list(wave.v[2][:3].view(np.float32)) == [-2.5, -0.25, -3.0]
    assert list(wave.v[3][:4].view(np.float32)) == [0.0, 0.25, 1.0, 0.0]
    assert (wave.v[4][:4] == 0).all()


def test_selection_follows_the_mask(hip):
    wave = Wave(hip)
    wave.set64(VCC, 0xAAAAAAAAAAAAAAAA)
    wave.set64(20, 0x00000000FFFFFFFF)
    wave.v[1], wave.v[2] = 11, 22
    wave.run("v_cndmask_b32 v3, v1, v2, vcc\nv_cndmask_b32_e64 v4, v1, v2, s[20:21]")
    assert list(wave.v[3][:4]) == [11, 22, 11, 22]
    assert (wave.v[4][:32] == 22).all()
    assert (wave.v[4][32:] == 11).all()


def test_fused_forms_with_constants(hip):
    wave = Wave(hip)
    wave.v[1], wave.v[2], wave.v[3] = (np.float32(x).view(np.uint32) for x in (3.0, 5.0, 7.0))
    wave.run("v_fmac_f32 v3, v1, v2\nv_fmamk_f32 v4, v1, 0x41200000, v2\nv_fmaak_f32 v5, v1, v2, 0x41200000")
    assert [wave.v[k][0].view(np.float32) for k in (3, 4, 5)] == [22.0, 35.0, 25.0]


def test_dot_products_of_pairs_add_to_the_destination(hip):
    wave = Wave(hip)
    wave.v[1], wave.v[2] = 0x40004200, 0x3C00C400  # f16: (3, 2), (-4, 1)
    wave.v[3], wave.v[4] = 0x40004040, 0x3F80C080  # bf16: the same
    wave.v[5] = wave.v[6] = np.float32(0.5).view(np.uint32)
    wave.run("v_dot2c_f32_f16 v5, v1, v2\nv_dot2c_f32_bf16 v6, v3, v4")
    assert [wave.v[k][63].view(np.float32) for k in (5, 6)] == [-9.5, -9.5]


def test_adds_with_carry_chain_through_the_mask(hip):
    wave = Wave(hip)
    wave.v[1], wave.v[2], wave.v[3], wave.v[4] = 0xFFFFFFFF, 1, 5, 2
    wave.run("v_add_co_u32 v5, vcc, v1, v2\nv_addc_co_u32 v6, vcc, v3, v4, vcc")
    assert (wave.v[5][7], wave.v[6][7], wave.get64(VCC)) == (0, 8, 0)
    wave.run("v_sub_co_u32 v5, vcc, v2, v1\nv_subb_co_u32 v6, vcc, v3, v4, vcc")
    assert (wave.v[5][7], wave.v[6][7]) == (2, 2)
    wave.run("v_subrev_co_u32 v5, vcc, v2, v1\nv_subbrev_co_u32 v6, vcc, v4, v3, vcc")
    assert (wave.v[5][7], wave.v[6][7], wave.get64(VCC)) == (0xFFFFFFFE, 3, 0)


def test_wide_multiply_add_carries(hip):
    wave = Wave(hip)
    wave.v[1], wave.v[2] = 0xFFFFFFFF, 0xFFFFFFFF
    wave.v[4], wave.v[5] = 0xFFFFFFFF, 0xFFFFFFFF
    wave.run("v_mad_u64_u32 v[6:7], s[10:11], v1, v2, v[4:5]\nv_mad_i64_i32 v[8:9], s[12:13], v1, v2, v[4:5]")
    total = 0xFFFFFFFF**2 + FULL
    assert int(wave.v[6][0]) | int(wave.v[7][0]) << 32 == total & FULL
    assert wave.get64(10) == FULL
    assert (wave.v[8][0], wave.v[9][0]) == (0, 0)  # -1 * -1 + -1


def test_bit_operation_uses_its_truth_table(hip):
    wave = Wave(hip)
    a, b, c = lanes(1), lanes(2), lanes(3)
    wave.v[1], wave.v[2], wave.v[3] = a, b, c
    for table, value in ((0x96, a ^ b ^ c), (0xE4, (a & c) | (b & ~c)), (0x80, a & b & c), (0x40, a & b & ~c)):
        wave.run(f"v_bitop3_b32 v4, v1, v2, v3 bitop3:{table:#x}")
        if table == 0xE4:  # index = 4a + 2b + c: set for 2, 5, 6, 7
            value = (~a & b & ~c) | (a & (b | c))
        same("v_bitop3_b32", wave.v[4], value)


def test_division_sequence_is_correctly_rounded(hip):
    """The expansion compilers use: scale, reciprocal, Newton steps, fmas, fixup."""
    rng = np.random.default_rng(5)
    source = """
      v_div_scale_f32 v3, s[20:21], v2, v2, v1
      v_div_scale_f32 v4, vcc, v1, v2, v1
      v_rcp_f32 v5, v3
      v_fma_f32 v6, -v3, v5, 1.0
      v_fma_f32 v5, v6, v5, v5
      v_mul_f32 v6, v4, v5
      v_fma_f32 v7, -v3, v6, v4
      v_fma_f32 v6, v7, v5, v6
      v_fma_f32 v7, -v3, v6, v4
      v_div_fmas_f32 v7, v7, v5, v6
      v_div_fixup_f32 v8, v7, v2, v1"""
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3e38, 1e-38, 1e-45, 1.5, 1e30, 1e-30], np.float32)
    for seed in range(12):
        top = (2.0 ** rng.uniform(-126, 127, 64)).astype(np.float32) * rng.choice([-1, 1], 64)
        bottom = (2.0 ** rng.uniform(-126, 127, 64)).astype(np.float32) * rng.uniform(1, 2, 64).astype(np.float32)
        if seed % 3 == 0:
            top, bottom = rng.choice(special, 64), rng.choice(special, 64)
        wave = Wave(hip)
        wave.v[1], wave.v[2] = top.astype(np.float32).view(np.uint32), bottom.astype(np.float32).view(np.uint32)
        a, b = wave.v[1].copy(), wave.v[2].copy()
        wave.run(source)
        with np.errstate(all="ignore"):
            expected = ref.bits(ref.f(a) / ref.f(b))
        denormal = (expected & 0x7F800000) == 0
        same("v_div_f32", wave.v[8], expected, tolerance=np.where(denormal, 1, 0).max())


def test_ldexp_scales(hip):
    wave = Wave(hip)
    wave.v[1] = np.float32(1.5).view(np.uint32)
    wave.v[2][:4] = np.array([3, -2, 200, -300], np.int32).view(np.uint32)
    wave.run("v_ldexp_f32 v3, v1, v2")
    assert list(wave.v[3][:4].view(np.float32)) == [12.0, 0.375, np.inf, 0.0]


def test_lane_moves(hip):
    wave = Wave(hip, execute=FULL & ~7)
    wave.v[1] = np.arange(64) + 100
    wave.s[4], wave.s[5] = 69, 7777
    wave.run("v_readfirstlane_b32 s6, v1\nv_readlane_b32 s7, v1, s4\nv_writelane_b32 v2, s5, 9\nv_nop")
    assert (wave.s[6], wave.s[7], wave.v[2][9]) == (103, 105, 7777)  # lane 69 mod 64
    assert (np.delete(wave.v[2], 9) == 0).all()
    none = Wave(hip, execute=0)
    none.v[1] = np.arange(64) + 100
    assert none.run("v_readfirstlane_b32 s6, v1").s[6] == 100


def test_row_swaps_exchange_both_registers(hip):
    wave = Wave(hip)
    wave.v[1], wave.v[2] = np.arange(64), np.arange(64) + 1000
    wave.run("v_permlane32_swap_b32 v1, v2")
    assert list(wave.v[1]) == [*range(32), *range(1000, 1032)]
    assert list(wave.v[2]) == [*range(32, 64), *range(1032, 1064)]
    wave.v[1], wave.v[2] = np.arange(64), np.arange(64) + 1000
    wave.run("v_permlane16_swap_b32 v1, v2")
    assert list(wave.v[1]) == [*range(16), *range(1000, 1016), *range(32, 48), *range(1032, 1048)]
    assert list(wave.v[2]) == [*range(16, 32), *range(1016, 1032), *range(48, 64), *range(1048, 1064)]


DPP = {  # control: source lane of each lane, None keeps or zeroes
    "quad_perm:[3,2,1,0]": lambda lane: lane // 4 * 4 + 3 - lane % 4,
    "row_shr:2": lambda lane: lane - 2 if lane % 16 >= 2 else None,
    "row_shl:3": lambda lane: lane + 3 if lane % 16 < 13 else None,
    "row_ror:8": lambda lane: lane // 16 * 16 + (lane - 8) % 16,
    "row_mirror": lambda lane: lane // 16 * 16 + 15 - lane % 16,
    "row_half_mirror": lambda lane: lane // 8 * 8 + 7 - lane % 8,
    "row_bcast:15": lambda lane: lane // 16 * 16 - 1 if lane >= 16 else None,
    "row_bcast:31": lambda lane: 31 if lane >= 32 else None,
    "wave_shr:1": lambda lane: lane - 1 if lane else None,
}


@pytest.mark.parametrize("control", DPP)
def test_dpp_reads_its_source_lane(hip, control):
    for bound, rows in ((0, 0xF), (1, 0xA)):
        wave = Wave(hip)
        wave.v[1], wave.v[2] = np.arange(64) + 500, 9
        wave.run(f"v_mov_b32_dpp v2, v1 {control} row_mask:{rows:#x} bank_mask:0xf" + " bound_ctrl:1" * bound)
        for lane in range(64):
            source = DPP[control](lane)
            expected = 9 if source is None and not bound else 0 if source is None else 500 + source
            assert wave.v[2][lane] == (expected if rows >> lane // 16 & 1 else 9), lane


def test_sdwa_selects_words_and_keeps_the_rest(hip):
    wave = Wave(hip)
    wave.v[1], wave.v[2] = 0x3C004000, 0xFFFF00FF
    wave.run(
        "v_cvt_f32_f16_sdwa v3, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1\n"
        "v_and_b32_sdwa v4, v1, v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:WORD_1"
    )
    assert wave.v[3][0].view(np.float32) == 1.0
    assert wave.v[4][0] == 0x3C000000


def test_packed_f32_selects_and_negates_halves(hip):
    wave = Wave(hip)
    for k, value in ((2, 1.0), (3, 2.0), (4, 10.0), (5, 20.0), (6, 0.5), (7, 0.25)):
        wave.v[k] = np.float32(value).view(np.uint32)
    read = lambda k: wave.v[k][5].view(np.float32)  # noqa: E731
    wave.run("v_pk_add_f32 v[8:9], v[2:3], v[4:5]")
    assert (read(8), read(9)) == (11.0, 22.0)
    wave.run("v_pk_mul_f32 v[8:9], v[2:3], v[4:5] op_sel:[1,0] op_sel_hi:[0,1]")
    assert (read(8), read(9)) == (20.0, 20.0)
    wave.run("v_pk_fma_f32 v[8:9], v[2:3], v[4:5], v[6:7] neg_lo:[1,0,0] neg_hi:[0,0,1]")
    assert (read(8), read(9)) == (-9.5, 39.75)
    wave.run("v_pk_mov_b32 v[8:9], v[2:3], v[4:5] op_sel:[1,0]")
    assert (read(8), read(9)) == (2.0, 10.0)
    wave.run("v_pk_mul_f32 v[8:9], v[2:3], 2.0 op_sel_hi:[1,0]")
    assert (read(8), read(9)) == (2.0, 4.0)


PACKED = [name for name in ref.VECTOR if name.endswith("16") and not name.startswith(("v_cvt", "v_pack", "v_subrev"))]


@pytest.mark.parametrize("name", [*PACKED, "v_add_i16", "v_sub_i16"])
def test_packed_16_bit_rows_do_both_halves(hip, name):
    reference = ref.VECTOR[name.replace("add_i", "add_u").replace("sub_i", "sub_u")]
    packed = name.replace("v_", "v_pk_", 1)
    if packed == "v_pk_sub_f16":
        pytest.skip("a packed subtract is an add with a negated source")
    wave = Wave(hip)
    wave.v[1], wave.v[2] = lanes(1), lanes(2)
    a, b = wave.v[1].copy(), wave.v[2].copy()
    wave.run(f"{packed} v3, v1, v2\n{packed} v4, v1, v2 op_sel:[1,0] op_sel_hi:[0,1]")
    high_a, high_b = a >> np.uint32(16), b >> np.uint32(16)
    with np.errstate(all="ignore"):
        straight = reference(a, b), reference(high_a, high_b)
        crossed = reference(high_a, b), reference(a, high_b)
    for register, (low, high) in ((3, straight), (4, crossed)):
        same(name, wave.v[register] & np.uint32(0xFFFF), low)
        same(name, wave.v[register] >> np.uint32(16), high)


def test_packed_16_bit_multiply_add(hip):
    wave = Wave(hip)
    wave.v[1], wave.v[2], wave.v[3] = 0x00030002, 0x00050007, 0xFFFF0001
    wave.run("v_pk_mad_u16 v4, v1, v2, v3\nv_pk_mad_i16 v5, v1, v2, v3")
    assert (wave.v[4][0], wave.v[5][0]) == (0x000E000F, 0x000E000F)
    wave.v[1], wave.v[2], wave.v[3] = 0x3C004000, 0x42004200, 0xBC000001  # (1, 2) * (3, 3) + (-1, 2^-24)
    wave.run("v_pk_fma_f16 v4, v1, v2, v3\nv_pk_fma_f16 v5, v1, v2, v3 neg_lo:[1,0,0] neg_hi:[0,0,1]")
    assert (wave.v[4][0], wave.v[5][0]) == (0x40004600, 0x4400C600)


def test_sdwa_compares_pick_bytes_and_name_their_mask(hip):
    wave = Wave(hip)
    wave.v[1], wave.v[2] = 0x00FF0100, 0
    wave.run(
        "v_cmp_ne_u16_sdwa s[20:21], v1, v2 src0_sel:BYTE_1 src1_sel:DWORD\n"
        "v_cmp_ne_u16_sdwa vcc, v1, v2 src0_sel:BYTE_0 src1_sel:DWORD"
    )
    assert (wave.get64(20), wave.get64(VCC)) == (FULL, 0)


def test_accumulator_moves(hip):
    wave = Wave(hip)
    wave.v[1] = np.arange(64)
    wave.run("v_accvgpr_write_b32 a3, v1\nv_accvgpr_read_b32 v2, a3\nv_accvgpr_write_b32 a4, 1.0")
    assert (wave.v[2] == np.arange(64)).all()
    assert (wave.a[4] == 0x3F800000).all()


MFMA = [  # name, rows, depth, registers of A and B, registers of D
    ("16x16x32_bf16", 16, 32, 4, 4),
    ("32x32x16_bf16", 32, 16, 4, 16),
    ("32x32x2_f32", 32, 2, 1, 16),
    ("16x16x4_f32", 16, 4, 1, 4),
    ("32x32x8_f16", 32, 8, 2, 16),
    ("16x16x16_f16", 16, 16, 2, 4),
    ("16x16x32_f16", 16, 32, 4, 4),
    ("32x32x16_f16", 32, 16, 4, 16),
    ("32x32x8_bf16", 32, 8, 2, 16),
    ("16x16x16_bf16", 16, 16, 2, 4),
]


def encode(values, kind):
    """16-bit or 32-bit patterns of exactly representable floats."""
    if kind == "f32":
        return values.astype(np.float32).view(np.uint32)
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    return values.astype(np.float32).view(np.uint32) >> 16


@pytest.mark.parametrize(("name", "rows", "depth", "inputs", "results"), MFMA)
@pytest.mark.parametrize("banks", ["vvv", "avv", "vaa", "aa0"])
def test_matrix_layouts_match_a_plain_product(hip, name, rows, depth, inputs, results, banks):
    """Small integers: every order of summation gives the same bits."""
    kind = name.split("_")[1]
    rng = np.random.default_rng(1)
    a, b = rng.integers(-8, 9, (rows, depth)), rng.integers(-8, 9, (depth, rows))
    c = rng.integers(-100, 100, (rows, rows)) if banks[2] != "0" else np.zeros((rows, rows), int)
    wave = Wave(hip, execute=0x5)  # EXEC is ignored
    per_lane = depth * rows // 64
    bank = {"v": wave.v, "a": wave.a, "0": wave.v}
    for lane in range(64):
        ks = per_lane * (lane // rows) + np.arange(per_lane)
        for source, matrix, base in ((banks[0], a[lane % rows, ks], 16), (banks[1], b[ks, lane % rows], 24)):
            packed = encode(matrix, kind)
            for e, value in enumerate(packed):
                if kind == "f32":
                    bank[source][base + e][lane] = value
                else:
                    bank[source][base + e // 2][lane] |= np.uint32(value) << np.uint32(16 * (e % 2))
    row_of = (
        (lambda lane, r: 4 * (lane // 16) + r)
        if rows == 16
        else (lambda lane, r: 8 * (r // 4) + 4 * (lane // 32) + r % 4)
    )
    for lane in range(64):
        for r in range(results):
            bank[banks[2]][32 + r][lane] = np.float32(c[row_of(lane, r), lane % rows]).view(np.uint32)
    span = lambda which, base, count: f"{which}{base}" if count == 1 else f"{which}[{base}:{base + count - 1}]"  # noqa: E731
    result_bank = banks[2].replace("0", "v")
    addend = "0" if banks[2] == "0" else span(banks[2], 32, results)
    wave.run(
        f"v_mfma_f32_{name} {span(result_bank, 64, results)}, {span(banks[0], 16, inputs)}, "
        f"{span(banks[1], 24, inputs)}, {addend}"
    )
    product = a @ b + c
    for lane in range(64):
        for r in range(results):
            got = bank[result_bank][64 + r][lane].view(np.float32)
            assert got == product[row_of(lane, r), lane % rows], (lane, r)


@pytest.mark.parametrize("first", [30, 34])
def test_a_matrix_result_may_overlap_its_addend(hip, first):
    """All addends are read before a result is written; the compiler relies on it where a result has four registers."""
    wave = Wave(hip)
    addends = np.arange(4)[:, None] * 1000.0 + np.arange(64)
    wave.v[32:36] = addends.astype(np.float32).view(np.uint32)
    wave.run(f"v_mfma_f32_16x16x4_f32 v[{first}:{first + 3}], v16, v17, v[32:35]")
    assert (wave.v[first : first + 4].view(np.float32) == addends).all()


def test_matrix_inputs_keep_denormals(hip):
    wave = Wave(hip)
    wave.state.flush_f32 = 1
    wave.v[16], wave.v[24] = 0x00000001, 0x0001  # f16 2^-24 in k = 4*(L/16) of each
    wave.run("v_mfma_f32_16x16x16_f16 v[64:67], v[16:17], v[24:25], 0")
    assert wave.v[64][0].view(np.float32) == 4 * 2.0**-48


SCALAR = [  # source, s0..s3 in, result in s10 (and s11), scc or None
    ("s_mov_b32 s10, 0x12345678", [], 0x12345678, None),
    ("s_mov_b64 s[10:11], -5", [], (1 << 64) - 5, None),
    ("s_cmp_eq_u32 0, 0\ns_cmov_b32 s10, s0", [7], 7, 1),
    ("s_not_b32 s10, s0", [0xFFFFFFFF], 0, 0),
    ("s_not_b64 s[10:11], s[0:1]", [0, 1], FULL ^ (1 << 32), 1),
    ("s_brev_b32 s10, s0", [1], 0x80000000, None),
    ("s_bcnt1_i32_b32 s10, s0", [0xF0F], 8, 1),
    ("s_bcnt1_i32_b64 s10, s[0:1]", [3, 1], 3, 1),
    ("s_ff1_i32_b32 s10, s0", [0x50], 4, None),
    ("s_ff1_i32_b64 s10, s[0:1]", [0, 2], 33, None),
    ("s_flbit_i32_b32 s10, s0", [0x10000], 15, None),
    ("s_flbit_i32_b64 s10, s[0:1]", [1, 0], 63, None),
    ("s_sext_i32_i8 s10, s0", [0x80], 0xFFFFFF80, None),
    ("s_sext_i32_i16 s10, s0", [0x8000], 0xFFFF8000, None),
    ("s_abs_i32 s10, s0", [0xFFFFFFFB], 5, 1),
    ("s_add_u32 s10, s0, s1", [0xFFFFFFFF, 1], 0, 1),
    ("s_sub_u32 s10, s0, s1", [1, 2], 0xFFFFFFFF, 1),
    ("s_add_i32 s10, s0, s1", [0x7FFFFFFF, 1], 0x80000000, 1),
    ("s_sub_i32 s10, s0, s1", [0x80000000, 1], 0x7FFFFFFF, 1),
    ("s_add_u32 s9, s0, s1\ns_addc_u32 s10, s2, s3", [0xFFFFFFFF, 1, 4, 5], 10, 0),
    ("s_sub_u32 s9, s0, s1\ns_subb_u32 s10, s2, s3", [0, 1, 9, 5], 3, 0),
    ("s_min_i32 s10, s0, s1", [0xFFFFFFFF, 1], 0xFFFFFFFF, 1),
    ("s_min_u32 s10, s0, s1", [0xFFFFFFFF, 1], 1, 0),
    ("s_max_i32 s10, s0, s1", [0xFFFFFFFF, 1], 1, 0),
    ("s_max_u32 s10, s0, s1", [0xFFFFFFFF, 1], 0xFFFFFFFF, 1),
    ("s_cmp_lg_u32 s0, s1\ns_cselect_b32 s10, s0, s1", [3, 4], 3, 1),
    ("s_cmp_eq_u32 s0, s1\ns_cselect_b64 s[10:11], s[0:1], s[2:3]", [3, 4, 5, 6], 5 | 6 << 32, 0),
    ("s_and_b32 s10, s0, s1", [6, 3], 2, 1),
    ("s_and_b64 s[10:11], s[0:1], s[2:3]", [6, 1, 3, 2], 2, 1),
    ("s_or_b32 s10, s0, s1", [6, 3], 7, 1),
    ("s_or_b64 s[10:11], s[0:1], s[2:3]", [0, 0, 0, 0], 0, 0),
    ("s_xor_b32 s10, s0, s1", [6, 3], 5, 1),
    ("s_xor_b64 s[10:11], s[0:1], s[2:3]", [6, 1, 3, 1], 5, 1),
    ("s_andn2_b32 s10, s0, s1", [6, 3], 4, 1),
    ("s_andn2_b64 s[10:11], s[0:1], s[2:3]", [6, 3, 3, 1], 4 | 2 << 32, 1),
    ("s_orn2_b32 s10, s0, s1", [1, 0xFFFFFFF0], 0xF, 1),
    ("s_orn2_b64 s[10:11], s[0:1], s[2:3]", [1, 0, 0xFFFFFFF0, 0xFFFFFFFF], 0xF, 1),
    ("s_nand_b64 s[10:11], s[0:1], s[2:3]", [0xFFFFFFFF] * 4, 0, 0),
    ("s_nor_b64 s[10:11], s[0:1], s[2:3]", [0, 0, 0xFFFFFFFF, 0], 0xFFFFFFFF << 32, 1),
    ("s_xnor_b64 s[10:11], s[0:1], s[2:3]", [5, 6, 5, 6], FULL, 1),
    ("s_lshl_b32 s10, s0, s1", [3, 33], 6, 1),
    ("s_lshl_b64 s[10:11], s[0:1], s2", [3, 0, 33], 6 << 32, 1),
    ("s_lshr_b32 s10, s0, s1", [0x80000000, 31], 1, 1),
    ("s_lshr_b64 s[10:11], s[0:1], s2", [0, 2, 33], 1, 1),
    ("s_ashr_i32 s10, s0, s1", [0x80000000, 31], 0xFFFFFFFF, 1),
    ("s_ashr_i64 s[10:11], s[0:1], s2", [0, 0x80000000, 63], FULL, 1),
    ("s_bfm_b32 s10, s0, s1", [4, 8], 0xF00, None),
    ("s_mul_i32 s10, s0, s1", [0xFFFFFFFF, 5], 0xFFFFFFFB, None),
    ("s_bfe_u32 s10, s0, s1", [0xABCD, 4 | 8 << 16], 0xBC, 1),
    ("s_bfe_i32 s10, s0, s1", [0xABCD, 4 | 8 << 16], 0xFFFFFFBC, 1),
    ("s_mul_hi_u32 s10, s0, s1", [0xFFFFFFFF, 16], 15, None),
    ("s_mul_hi_i32 s10, s0, s1", [0xFFFFFFFF, 16], 0xFFFFFFFF, None),
    ("s_lshl1_add_u32 s10, s0, s1", [0x80000000, 3], 3, 1),
    ("s_lshl2_add_u32 s10, s0, s1", [2, 3], 11, 0),
    ("s_lshl3_add_u32 s10, s0, s1", [2, 3], 19, 0),
    ("s_lshl4_add_u32 s10, s0, s1", [2, 3], 35, 0),
    ("s_pack_ll_b32_b16 s10, s0, s1", [0x11112222, 0x33334444], 0x44442222, None),
    ("s_pack_lh_b32_b16 s10, s0, s1", [0x11112222, 0x33334444], 0x33332222, None),
    ("s_pack_hh_b32_b16 s10, s0, s1", [0x11112222, 0x33334444], 0x33331111, None),
    ("s_movk_i32 s10, 0x8000", [], 0xFFFF8000, None),
    ("s_cmp_eq_u32 0, 0\ns_cmovk_i32 s10, 5", [], 5, 1),
    ("s_mov_b32 s10, 7\ns_addk_i32 s10, -9", [], 0xFFFFFFFE, 0),
    ("s_mov_b32 s10, 7\ns_mulk_i32 s10, -2", [], 0xFFFFFFF2, None),
    ("s_nop 3\ns_setprio 1\ns_sleep 1\ns_barrier\ns_waitcnt vmcnt(0) lgkmcnt(0)", [], 0, None),
]


@pytest.mark.parametrize("case", SCALAR, ids=lambda c: c[0].split("\n")[-1])
def test_scalar_rows_give_the_expected_result_and_condition(hip, case):
    source, inputs, expected, scc = case
    wave = Wave(hip)
    wave.s[: len(inputs)] = inputs
    wave.run(source)
    assert wave.get64(10) == expected
    if scc is not None:
        assert wave.scc == scc


@pytest.mark.parametrize("kind", ["i32", "u32"])
@pytest.mark.parametrize(("name", "symbol"), [*ref._ORDER.items(), ("lg", "!=")])
def test_scalar_compares(hip, kind, name, symbol):
    for a, b in ((1, 2), (2, 1), (3, 3), (0xFFFFFFFF, 1), (1, 0xFFFFFFFF)):
        wave = Wave(hip)
        wave.s[0], wave.s[1] = a, b
        view = np.int32 if kind == "i32" else np.uint32
        left, right = np.array([a, b], np.uint32).view(view)
        expected = eval(symbol.join(("x", "y")), {"x": left, "y": right})
        assert wave.run(f"s_cmp_{name}_{kind} s0, s1").scc == expected
        if b < 0x8000:
            assert wave.run(f"s_cmpk_{name}_{kind} s0, {b}").scc == expected


def test_bit_and_wide_compares(hip):
    wave = Wave(hip)
    wave.s[0], wave.s[1], wave.s[2], wave.s[3] = 4, 2, 4, 2
    assert wave.run("s_bitcmp0_b32 s0, s1").scc == 0
    assert wave.run("s_bitcmp1_b32 s0, s1").scc == 1
    assert wave.run("s_cmp_eq_u64 s[0:1], s[2:3]").scc == 1
    assert wave.run("s_cmp_lg_u64 s[0:1], s[2:3]").scc == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [("and", 0xF0 & 0x3C), ("or", 0xF0 | 0x3C), ("xor", 0xF0 ^ 0x3C), ("andn2", 0x3C & ~0xF0)],
)
def test_saveexec_swaps_the_lane_mask(hip, name, expected):
    wave = Wave(hip, execute=0xF0)
    wave.set64(2, 0x3C)
    wave.run(f"s_{name}_saveexec_b64 s[10:11], s[2:3]")
    assert (wave.get64(10), wave.get64(EXEC), wave.scc) == (0xF0, expected, 1)


@pytest.mark.parametrize(
    ("branch", "setup", "taken"),
    [
        ("s_branch", "", True),
        ("s_cbranch_scc0", "s_cmp_eq_u32 0, 1", True),
        ("s_cbranch_scc0", "s_cmp_eq_u32 0, 0", False),
        ("s_cbranch_scc1", "s_cmp_eq_u32 0, 0", True),
        ("s_cbranch_vccz", "s_mov_b64 vcc, 0", True),
        ("s_cbranch_vccz", "s_mov_b64 vcc, 1", False),
        ("s_cbranch_vccnz", "s_mov_b64 vcc, 1", True),
        ("s_cbranch_execz", "s_mov_b64 exec, 0", True),
        ("s_cbranch_execnz", "s_mov_b64 exec, 0", False),
    ],
)
def test_branches(hip, branch, setup, taken):
    wave = Wave(hip)
    wave.run(f"{setup}\ns_mov_b32 s10, 1\n{branch} .Lout\ns_mov_b32 s10, 2\n.Lout:\ns_nop 0")
    assert wave.s[10] == (1 if taken else 2)


def test_lds_loads_and_stores_of_every_width(hip):
    wave = Wave(hip)
    wave.v[1] = np.arange(64) * 32
    for k in range(4):
        wave.v[4 + k] = lanes(k)
    data = [wave.v[4 + k].copy() for k in range(4)]
    for width, span in ((32, "v4"), (64, "v[4:5]"), (96, "v[4:6]"), (128, "v[4:7]")):
        out = span.replace("4", "2", 1) if width == 32 else f"v[20:{19 + width // 32}]"
        out = "v20" if width == 32 else out
        wave.run(f"ds_write_b{width} v1, {span} offset:16\nds_read_b{width} {out}, v1 offset:16\ns_waitcnt lgkmcnt(0)")
        for k in range(width // 32):
            same("ds_read", wave.v[20 + k], data[k])
    wave.run("ds_write_b128 v1, a[4:7]\nds_read_b128 a[20:23], v1")  # accumulation registers


def test_lds_two_address_forms(hip):
    wave = Wave(hip)
    wave.v[1] = np.arange(64) * 16
    wave.v[4], wave.v[5], wave.v[6], wave.v[7] = (lanes(k) for k in range(4))
    wave.run("ds_write2_b32 v1, v4, v5 offset0:1 offset1:2\nds_read2_b32 v[20:21], v1 offset0:2 offset1:1")
    same("ds", wave.v[20], wave.v[5])
    same("ds", wave.v[21], wave.v[4])
    wave.run("ds_write2st64_b32 v1, v4, v5 offset0:4 offset1:9\nds_read2st64_b32 v[20:21], v1 offset0:4 offset1:9")
    same("ds", wave.v[20], wave.v[4])
    same("ds", wave.v[21], wave.v[5])
    assert int.from_bytes(wave.lds[9 * 256 : 9 * 256 + 4].tobytes(), "little") == wave.v[5][0]
    wave.run("ds_write2_b64 v1, v[4:5], v[6:7] offset0:0 offset1:1\nds_read2_b64 v[20:23], v1 offset0:1 offset1:0")
    same("ds", wave.v[20], wave.v[6])
    same("ds", wave.v[23], wave.v[5])
    wave.run(
        "ds_write2st64_b64 v1, v[4:5], v[6:7] offset0:3 offset1:5\nds_read2st64_b64 v[20:23], v1 offset0:3 offset1:5"
    )
    same("ds", wave.v[22], wave.v[6])


def test_lds_short_forms_extend_and_keep_halves(hip):
    wave = Wave(hip)
    wave.v[1], wave.v[4] = np.arange(64) * 8, 0x8182F384
    wave.run(
        "ds_write_b8 v1, v4\nds_write_b16 v1, v4 offset:2\nds_write_b16_d16_hi v1, v4 offset:4\n"
        "ds_write_b8_d16_hi v1, v4 offset:6\n"
        "ds_read_u8 v10, v1\nds_read_i8 v11, v1\nds_read_u16 v12, v1 offset:2\nds_read_i16 v13, v1 offset:2\n"
        "v_mov_b32 v14, -1\nv_mov_b32 v15, -1\nds_read_u16_d16 v14, v1 offset:4\nds_read_u16_d16_hi v15, v1 offset:4\n"
        "ds_read_u8 v16, v1 offset:6"
    )
    assert [int(wave.v[k][3]) for k in range(10, 17)] == [
        0x84,
        0xFFFFFF84,
        0xF384,
        0xFFFFF384,
        0xFFFF8182,
        0x8182FFFF,
        0x82,
    ]


def test_lds_atomics(hip):
    wave = Wave(hip)
    wave.v[1], wave.v[2], wave.v[3] = 0, np.arange(64), np.float32(0.5).view(np.uint32)
    wave.run("ds_add_u32 v1, v2\nds_add_rtn_u32 v4, v1, v2\nds_add_f32 v1, v3 offset:4")
    words = wave.lds[:8].view(np.uint32)
    assert (words[0], words[1].view(np.float32)) == (2 * 2016, 32.0)
    assert wave.v[4][1] == 2016  # lane 0 added 0


def test_lds_lane_exchanges(hip):
    wave = Wave(hip, execute=FULL & ~(1 << 5))
    wave.v[1], wave.v[2] = (np.arange(64) * 4 + 8) % 256, np.arange(64) + 100
    wave.run("ds_bpermute_b32 v3, v1, v2\nds_permute_b32 v4, v1, v2")
    assert (wave.v[3][0], wave.v[3][3], wave.v[3][63]) == (102, 0, 101)  # lane 5 is inactive
    assert (wave.v[4][2], wave.v[4][0], wave.v[4][7]) == (100, 162, 0)
    full = Wave(hip)
    full.v[2] = np.arange(64)
    full.run("ds_swizzle_b32 v3, v2 offset:swizzle(QUAD_PERM,3,2,1,0)\nds_swizzle_b32 v4, v2 offset:swizzle(SWAP,16)")
    assert list(full.v[3][:4]) == [3, 2, 1, 0]
    assert list(full.v[4][:1]) + list(full.v[4][32:33]) == [16, 48]


def test_transposed_read_gives_columns_of_four_rows(hip):
    """Sixteen lanes hold 4 rows of 16 halves (four lanes a row); lane i receives column i."""
    wave = Wave(hip)
    halves = np.arange(4 * 64, dtype=np.uint16)
    wave.lds[:512] = halves.view(np.uint8)
    wave.v[1] = np.arange(64) * 8
    wave.run("ds_read_b64_tr_b16 v[2:3], v1\nds_read_b64_tr_b16 a[2:3], v1")
    for lane in range(64):
        group, column = lane // 16, lane % 16
        expected = [64 * group + 16 * row + column for row in range(4)]
        got = [int(wave.v[2 + k // 2][lane]) >> 16 * (k % 2) & 0xFFFF for k in range(4)]
        assert got == expected, lane
    assert (wave.a[2:4] == wave.v[2:4]).all()


def point(wave, register, buffer):
    """Lane addresses 64 bytes apart in v[register] and the next."""
    address = buffer.pointer + np.arange(64, dtype=np.uint64) * np.uint64(64)
    wave.v[register], wave.v[register + 1] = (
        (address & np.uint64(0xFFFFFFFF)).astype(np.uint32),
        (address >> np.uint64(32)).astype(np.uint32),
    )


def memory(hip):
    values = np.random.default_rng(3).integers(0, 1 << 32, 64 * 16, dtype=np.uint32)
    return values, hip.array(values)


LOADS = {  # suffix: (registers, value of register r from the four dwords of a lane, old value -1)
    "ubyte": (1, lambda w, r: w[0] & 0xFF),
    "sbyte": (1, lambda w, r: ((w[0] & 0xFF) ^ 0x80) - 0x80),
    "ushort": (1, lambda w, r: w[0] & 0xFFFF),
    "sshort": (1, lambda w, r: ((w[0] & 0xFFFF) ^ 0x8000) - 0x8000),
    "short_d16": (1, lambda w, r: 0xFFFF0000 | w[0] & 0xFFFF),
    "short_d16_hi": (1, lambda w, r: 0xFFFF | (w[0] & 0xFFFF) << 16),
    "dword": (1, lambda w, r: w[r]),
    "dwordx2": (2, lambda w, r: w[r]),
    "dwordx3": (3, lambda w, r: w[r]),
    "dwordx4": (4, lambda w, r: w[r]),
}
STORES = {
    "byte": (1, 1),
    "short": (1, 2),
    "short_d16_hi": (1, 2),
    "dword": (1, 4),
    "dwordx2": (2, 8),
    "dwordx3": (3, 12),
    "dwordx4": (4, 16),
}


def span(base, count):
    return f"v{base}" if count == 1 else f"v[{base}:{base + count - 1}]"


def descriptor(wave, register, buffer, size, stride=0):
    wave.set64(register, buffer.pointer | stride << 48)
    wave.s[register + 2], wave.s[register + 3] = size, 0x27000


@pytest.mark.parametrize("suffix", LOADS)
def test_loads_of_every_width(hip, suffix):
    values, buffer = memory(hip)
    count, value = LOADS[suffix]
    wave = Wave(hip)
    point(wave, 2, buffer)
    descriptor(wave, 4, buffer, 4096)
    wave.v[1] = np.arange(64) * 64
    for base in (20, 24, 28):
        wave.v[base : base + 4] = 0xFFFFFFFF
    wave.set64(10, buffer.pointer)
    wave.run(
        f"global_load_{suffix} {span(20, count)}, v[2:3], off offset:4\n"
        f"global_load_{suffix} {span(24, count)}, v1, s[10:11] offset:4\n"
        f"buffer_load_{suffix} {span(28, count)}, v1, s[4:7], 0 offen offset:4\ns_waitcnt vmcnt(0)"
    )
    for lane in range(64):
        dwords = [int(values[16 * lane + 1 + k]) for k in range(4)]
        for base in (20, 24, 28):
            for r in range(count):
                assert wave.v[base + r][lane] == value(dwords, r) & 0xFFFFFFFF


@pytest.mark.parametrize("suffix", STORES)
def test_stores_of_every_width(hip, suffix):
    count, size = STORES[suffix]
    for form in ("global", "buffer", "scratch"):
        _, buffer = memory(hip)
        before = buffer.numpy().view(np.uint8).copy()
        wave = Wave(hip)
        point(wave, 2, buffer)
        descriptor(wave, 4, buffer, 4096)
        wave.v[1] = np.arange(64) * 64
        for k in range(4):
            wave.v[8 + k] = lanes(k)
        data = np.stack([wave.v[8 + k] for k in range(count)], 1).copy().view(np.uint8)
        if suffix.endswith("hi"):
            data = data[:, 2:]
        source = {
            "global": f"global_store_{suffix} v[2:3], {span(8, count)}, off offset:8",
            "buffer": f"buffer_store_{suffix} {span(8, count)}, v1, s[4:7], 0 offen offset:8",
            "scratch": f"scratch_store_{suffix} off, {span(8, count)}, off offset:8\n"
            "scratch_load_dwordx4 v[20:23], off, off offset:8",
        }[form]
        wave.run(source)
        if form == "scratch":
            loaded = wave.v[20:24].T.copy().view(np.uint8)
            assert (loaded[:, :size] == data[:, :size]).all()
            continue
        after = buffer.numpy().view(np.uint8).reshape(64, 64)
        expected = before.reshape(64, 64).copy()
        expected[:, 8 : 8 + size] = data[:, :size]
        assert (after == expected).all()


def test_buffer_range_is_judged_a_dword_at_a_time_with_the_scalar_offset(hip):
    values, buffer = memory(hip)
    wave = Wave(hip)
    descriptor(wave, 4, buffer, 24)
    wave.v[1] = np.arange(64) * 4
    wave.s[8] = 8
    wave.run(
        "buffer_load_dwordx4 v[20:23], v1, s[4:7], s8 offen\nbuffer_store_dword v1, v1, s[4:7], s8 offen offset:16"
    )
    assert [int(x) for x in wave.v[20:24, 0]] == [int(x) for x in values[2:6]]
    assert [int(x) for x in wave.v[20:24, 2]] == [int(values[4]), int(values[5]), 0, 0]
    assert (buffer.numpy() == values).all(), "a store past the range vanishes"


def test_buffer_index_counts_records(hip):
    values, buffer = memory(hip)
    wave = Wave(hip)
    descriptor(wave, 4, buffer, 10, stride=4)
    wave.v[1] = np.arange(64)
    wave.run("buffer_load_dword v20, v1, s[4:7], 0 idxen\nbuffer_load_dwordx4 v[24:27], v1, s[4:7], 0 idxen")
    assert [int(x) for x in wave.v[20][:12]] == [*map(int, values[:10]), 0, 0]
    assert [int(x) for x in wave.v[24:28, 9]] == [int(x) for x in values[9:13]], "judged by its index alone"


@pytest.mark.parametrize(("name", "size"), [("dword", 4), ("dwordx3", 12), ("dwordx4", 16)])
def test_transfers_to_lds_place_lanes_one_after_another(hip, name, size):
    values, buffer = memory(hip)
    for form in ("global", "buffer"):
        wave = Wave(hip, execute=FULL & ~4)
        point(wave, 2, buffer)
        descriptor(wave, 4, buffer, 63 * 64)
        wave.v[1] = np.arange(64) * 64
        wave.s[M0] = 4096 + 8
        wave.lds[:] = 0xEE
        if form == "global":
            wave.run(f"global_load_lds_{name} v[2:3], off\ns_waitcnt vmcnt(0)")
        else:
            wave.run(f"buffer_load_{name} v1, s[4:7], 0 offen lds\ns_waitcnt vmcnt(0)")
        for lane in range(64):
            got = wave.lds[4104 + lane * size : 4104 + (lane + 1) * size]
            expected = values[16 * lane : 16 * lane + size // 4].view(np.uint8)
            if lane == 2:
                assert (got == 0xEE).all(), "inactive lanes write nothing"
            elif lane == 63 and form == "buffer":
                assert (got == 0).all(), "out of range lanes write zero"
            else:
                assert (got == expected).all()


ATOMICS = {
    "swap": lambda m, x: x,
    "add": lambda m, x: m + x,
    "sub": lambda m, x: m - x,
    "smin": lambda m, x: min(m, x, key=lambda v: v ^ 1 << 31),
    "umin": min,
    "smax": lambda m, x: max(m, x, key=lambda v: v ^ 1 << 31),
    "umax": max,
    "and": lambda m, x: m & x,
    "or": lambda m, x: m | x,
    "xor": lambda m, x: m ^ x,
}


@pytest.mark.parametrize("name", ATOMICS)
def test_integer_atomics_update_and_return_the_old_value(hip, name):
    values, buffer = memory(hip)
    wave = Wave(hip)
    point(wave, 2, buffer)
    wave.v[8] = lanes(4)
    wave.run(f"global_atomic_{name} v9, v[2:3], v8, off sc0\ns_waitcnt vmcnt(0)")
    for lane in range(64):
        old, operand = int(values[16 * lane]), int(wave.v[8][lane])
        assert wave.v[9][lane] == old
        assert buffer.numpy()[16 * lane] == ATOMICS[name](old, operand) & 0xFFFFFFFF


def test_compare_and_swap_takes_the_new_value_first(hip):
    values, buffer = memory(hip)
    wave = Wave(hip)
    point(wave, 2, buffer)
    descriptor(wave, 4, buffer, 4096)
    wave.v[1] = np.arange(64) * 64
    wave.v[8], wave.v[9] = 77, values[::16]
    wave.v[9][5] ^= 1
    wave.run("global_atomic_cmpswap v10, v[2:3], v[8:9], off sc0")
    after = buffer.numpy()[::16]
    assert (after[5], after[6]) == (values[80], 77)
    wave.v[8], wave.v[9] = 78, 77
    wave.run("buffer_atomic_cmpswap v[8:9], v1, s[4:7], 0 offen")
    assert buffer.numpy()[16 * 6] == 78


def test_float_atomics(hip):
    for form in ("global", "buffer"):
        buffer = hip.array(np.zeros(64 * 16, np.uint32))
        wave = Wave(hip)
        point(wave, 2, buffer)
        descriptor(wave, 4, buffer, 4096)
        wave.v[1] = np.arange(64) * 64
        wave.v[4], wave.v[5], wave.v[6] = np.float32(1.5).view(np.uint32), 0x3C004000, 0x3F804000
        tail = {"global": "v[2:3], {}, off offset:{}", "buffer": "{}, v1, s[4:7], 0 offen offset:{}"}[form]
        for _ in range(2):
            for at, (name, data) in enumerate((("add_f32", "v4"), ("pk_add_f16", "v5"), ("pk_add_bf16", "v6"))):
                wave.run(f"{form}_atomic_{name} {tail.format(data, 4 * at)}")
        got = buffer.numpy()[:3]
        assert (got[0].view(np.float32), got[1], got[2]) == (3.0, 0x40004400, 0x40004080)
    wave.run(
        "buffer_atomic_swap v4, v1, s[4:7], 0 offen offset:12 sc0\n"
        "buffer_atomic_add v4, v1, s[4:7], 0 offen offset:12\n"
        "buffer_wbl2 sc1\nbuffer_inv sc1\ns_waitcnt vmcnt(0)"
    )
    assert buffer.numpy()[3] == np.float32(1.5).view(np.uint32)


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_scalar_loads(hip, count):
    values, buffer = memory(hip)
    wave = Wave(hip)
    wave.set64(4, buffer.pointer)
    wave.s[6] = 64
    suffix = "" if count == 1 else f"x{count}"
    name = lambda base: f"s{base}" if count == 1 else f"s[{base}:{base + count - 1}]"  # noqa: E731
    wave.run(
        f"s_load_dword{suffix} {name(20)}, s[4:5], 0x10\n"
        f"s_load_dword{suffix} {name(40)}, s[4:5], s6\ns_waitcnt lgkmcnt(0)"
    )
    assert (wave.s[20 : 20 + count] == values[4 : 4 + count]).all()
    assert (wave.s[40 : 40 + count] == values[16 : 16 + count]).all()
    descriptor(wave, 4, buffer, 8)
    wave.run(f"s_buffer_load_dword{suffix} {name(60)}, s[4:7], 0x4")
    assert wave.s[60] == values[1]
    assert (wave.s[61 : 60 + count] == 0).all(), "past the range reads zero"


def test_scratch_is_private_to_a_lane(hip):
    wave = Wave(hip)
    wave.v[4], wave.v[5] = np.arange(64), np.arange(64) + 7
    wave.run("scratch_store_dwordx2 off, v[4:5], off offset:16\nscratch_load_dword v6, off, off offset:20")
    assert (wave.v[6] == np.arange(64) + 7).all()


@pytest.mark.parametrize(
    "source", ["v_readlane_b32 s5, v2, s3", "v_accvgpr_read_b32 v1, a2", "v_permlane32_swap_b32 v1, v2"]
)
def test_a_lane_move_of_a_scalar_register_is_refused(hip, source):
    words = list(assembler.words(source))[:-1]
    words[-1] = words[-1] & ~0x1FF | 108  # the source operand
    text, size = hip.disassemble(words)
    assert size == 0
    assert "the source is no vector register" in text


def test_an_unknown_word_stops_with_address_and_surroundings(hip):
    wave = Wave(hip)
    with pytest.raises(RuntimeError, match=r"(?s)cannot decode word 0xffffffff .* at pc 0x4.*s_nop") as caught:
        hip.run_words([0xBF800000, 0xFFFFFFFF, 0xBF810000], wave.state)
    assert "unknown encoding" in str(caught.value)


def test_zz_every_row_was_run(hip):
    """Last in this file: the rows of the tables against what the tests above have run."""
    rows = [row.split() for row in hip.rows()]
    known = {name.removeprefix("global_").removeprefix("scratch_") for name in covered} | covered
    missing = sorted(f"{table} {name}" for table, name in rows if name not in known)
    print(f"rows {len(rows)}, run {len(rows) - len(missing)}")
    for table, name in rows:
        print(f"  {'-' if name not in known else '+'} {table} {name}")
    assert not missing
