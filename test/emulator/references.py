"""What each vector and scalar row computes, written again in numpy for the instruction tests."""

import numpy as np

U32, I32, F32, U64, I64, F64 = np.uint32, np.int32, np.float32, np.uint64, np.int64, np.float64
NAN, INF = 0x7FC00000, 0x7F800000


def f(x):
    return np.asarray(x, U32).view(F32)


def bits(x):
    return np.asarray(x, F32).view(U32)


def d(x):
    return f(x).astype(F64)


def signed(x):
    return np.asarray(x, U32).view(I32).astype(I64)


def wide(x):
    return np.asarray(x, U32).astype(U64)


def low(x):
    return (np.asarray(x).astype(U64) & U64(0xFFFFFFFF)).astype(U32)


def fma(a, b, c):
    """One rounding: the product is exact in long double's 64 bits, good enough for the values used."""
    return bits((np.longdouble(d(a)) * np.longdouble(d(b)) + np.longdouble(d(c))).astype(F32))


def maximum(a, b):
    result = np.where(f(a) > f(b), a, b)
    result = np.where(f(a) == f(b), a & b, result)
    result = np.where(np.isnan(f(a)), b, result)
    return np.where(np.isnan(f(b)), a, result)


def minimum(a, b):
    result = np.where(f(a) < f(b), a, b)
    result = np.where(f(a) == f(b), a | b, result)
    result = np.where(np.isnan(f(a)), b, result)
    return np.where(np.isnan(f(b)), a, result)


def median(a, b, c):
    nan = np.isnan(f(a)) | np.isnan(f(b)) | np.isnan(f(c))
    ordered = np.sort(np.stack([f(a), f(b), f(c)]), axis=0)[1]
    return np.where(nan, minimum(minimum(a, b), c), bits(ordered))


def flush(x):
    return np.where((x & U32(INF)) == 0, x & U32(0x80000000), x)


def to_unsigned(x):
    return np.where(
        np.isnan(x), 0, np.clip(np.trunc(np.nan_to_num(x, posinf=1e30, neginf=-1e30)), 0, 2**32 - 1)
    ).astype(U32)


def to_signed(x):
    whole = np.clip(np.trunc(np.nan_to_num(x, posinf=1e30, neginf=-1e30)), -(2**31), 2**31 - 1)
    return np.where(np.isnan(x), 0, whole).astype(I64).astype(U32)


def half(x):
    out = f(x).astype(np.float16).view(np.uint16).astype(U32)
    return np.where(np.isnan(f(x)), out | U32(0x200), out)


def bf16(x):
    rounded = (wide(x) + U64(0x7FFF) + ((wide(x) >> U64(16)) & U64(1))) >> U64(16)
    return np.where(np.isnan(f(x)), (x >> U32(16)) | U32(0x40), low(rounded) & U32(0xFFFF))


def half_down(x):
    """Round toward zero: the half with the largest magnitude not above."""
    nearest = f(x).astype(np.float16)
    above = np.abs(nearest.astype(F32)) > np.abs(f(x))
    down = np.where(above, nearest.view(np.uint16) - np.uint16(1), nearest.view(np.uint16)).astype(U32)
    nan = np.isnan(f(x))
    return np.where(nan, half(x), down)


def low24(x):
    return ((signed(x) << 40) >> 40).astype(I64)


def sat(x, lo, hi):
    return low(np.clip(x, lo, hi).astype(I64).astype(U64))


def field(a, offset, width):
    return low((wide(a) >> wide(offset)) & ((U64(1) << wide(width)) - U64(1)))


def signed_field(a, offset, width):
    """The shift is arithmetic: a field that passes bit 31 continues with the sign."""
    width = width.astype(I64)
    value = (signed(a) >> offset.astype(I64)) & ((1 << width) - 1)
    sign = (value >> np.maximum(width - 1, 0)) & 1
    return low((value - (sign << width)).astype(U64)) * (width != 0)


def perm(a, b, c):
    out = np.zeros(a.shape, U32)
    data = (wide(a) << U64(32)) | wide(b)
    for k in range(4):
        select = (c >> U32(8 * k)) & U32(255)
        byte = low((data >> (U64(8) * np.minimum(select, 7).astype(U64))) & U64(255))
        sign_at = (U64(16) * (np.clip(select, 8, 11) - 8).astype(U64)) + U64(15)
        sign = np.where((data >> sign_at) & U64(1), 255, 0).astype(U32)
        byte = np.where(select < 8, byte, np.where(select < 12, sign, np.where(select == 12, 0, 255))).astype(U32)
        out |= byte << U32(8 * k)
    return out


def bit_reverse(x):
    return np.array([int(f"{int(v):032b}"[::-1], 2) for v in np.ravel(x)], U32)


def lead(x):
    return np.array([32 - int(v).bit_length() if v else 0xFFFFFFFF for v in np.ravel(x)], U32)


def trail(x):
    return np.array([(int(v) & -int(v)).bit_length() - 1 if v else 0xFFFFFFFF for v in np.ravel(x)], U32)


def ones(x):
    return np.array([int(v).bit_count() for v in np.ravel(x)], U32)


def h(x):
    """The low half as f16."""
    return (np.asarray(x, U32) & U32(0xFFFF)).astype(np.uint16).view(np.float16)


def half_bits(x):
    """f16 results as u32; a NaN is made quiet."""
    out = np.asarray(x, np.float16).view(np.uint16).astype(U32)
    return np.where(np.isnan(x), out | U32(0x200), out)


def short(x):
    return np.asarray(x, U32) & U32(0xFFFF)


def short_signed(x):
    return short(x).astype(np.uint16).view(np.int16).astype(I64)


LANE = np.arange(64)

# name: function of the source lanes. Tolerant rows (approximate unit) are listed in APPROXIMATE.
VECTOR = {
    "v_mov_b32": lambda a: a,
    "v_accvgpr_mov_b32": lambda a: a,
    "v_cvt_f32_i32": lambda a: bits(signed(a).astype(F32)),
    "v_cvt_f32_u32": lambda a: bits(a.astype(F32)),
    "v_cvt_u32_f32": lambda a: to_unsigned(d(a)),
    "v_cvt_i32_f32": lambda a: to_signed(d(a)),
    "v_cvt_f16_f32": half,
    "v_cvt_f32_f16": lambda a: bits((a & U32(0xFFFF)).astype(np.uint16).view(np.float16).astype(F32)),
    "v_cvt_f32_bf16": lambda a: a << U32(16),
    "v_cvt_f32_ubyte0": lambda a: bits((a & U32(255)).astype(F32)),
    "v_cvt_f32_ubyte1": lambda a: bits((a >> U32(8) & U32(255)).astype(F32)),
    "v_cvt_f32_ubyte2": lambda a: bits((a >> U32(16) & U32(255)).astype(F32)),
    "v_cvt_f32_ubyte3": lambda a: bits((a >> U32(24)).astype(F32)),
    "v_fract_f32": lambda a: bits(np.minimum(f(a) - np.floor(f(a)), F32(1 - 2**-24))),
    "v_trunc_f32": lambda a: bits(np.trunc(f(a))),
    "v_ceil_f32": lambda a: bits(np.ceil(f(a))),
    "v_rndne_f32": lambda a: bits(np.rint(f(a))),
    "v_floor_f32": lambda a: bits(np.floor(f(a))),
    "v_exp_f32": lambda a: flush(bits(np.exp2(d(flush(a))).astype(F32))),
    "v_log_f32": lambda a: bits(np.log2(d(flush(a))).astype(F32)),
    "v_rcp_f32": lambda a: flush(bits((1 / d(flush(a))).astype(F32))),
    "v_rcp_iflag_f32": lambda a: flush(bits((1 / d(flush(a))).astype(F32))),
    "v_rsq_f32": lambda a: bits((1 / np.sqrt(d(flush(a)))).astype(F32)),
    "v_sqrt_f32": lambda a: bits(np.sqrt(d(flush(a))).astype(F32)),
    "v_not_b32": lambda a: ~a,
    "v_bfrev_b32": bit_reverse,
    "v_ffbh_u32": lead,
    "v_ffbl_b32": trail,
    "v_add_f32": lambda a, b: bits(f(a) + f(b)),
    "v_sub_f32": lambda a, b: bits(f(a) - f(b)),
    "v_subrev_f32": lambda a, b: bits(f(b) - f(a)),
    "v_mul_f32": lambda a, b: bits(f(a) * f(b)),
    "v_mul_i32_i24": lambda a, b: low((low24(a) * low24(b)).astype(U64)),
    "v_mul_u32_u24": lambda a, b: low((wide(a) & U64(0xFFFFFF)) * (wide(b) & U64(0xFFFFFF))),
    "v_min_f32": minimum,
    "v_max_f32": maximum,
    "v_min_i32": lambda a, b: np.where(signed(a) < signed(b), a, b),
    "v_max_i32": lambda a, b: np.where(signed(a) > signed(b), a, b),
    "v_min_u32": np.minimum,
    "v_max_u32": np.maximum,
    "v_lshrrev_b32": lambda a, b: b >> (a & U32(31)),
    "v_ashrrev_i32": lambda a, b: low((signed(b) >> (a & U32(31)).astype(I64)).astype(U64)),
    "v_lshlrev_b32": lambda a, b: b << (a & U32(31)),
    "v_and_b32": lambda a, b: a & b,
    "v_or_b32": lambda a, b: a | b,
    "v_xor_b32": lambda a, b: a ^ b,
    "v_xnor_b32": lambda a, b: ~(a ^ b),
    "v_add_u32": lambda a, b: a + b,
    "v_sub_u32": lambda a, b: a - b,
    "v_subrev_u32": lambda a, b: b - a,
    "v_add_f16": lambda a, b: half_bits(h(a) + h(b)),
    "v_sub_f16": lambda a, b: half_bits(h(a) - h(b)),
    "v_subrev_f16": lambda a, b: half_bits(h(b) - h(a)),
    "v_mul_f16": lambda a, b: half_bits(h(a) * h(b)),
    "v_max_f16": lambda a, b: half(maximum(bits(h(a).astype(F32)), bits(h(b).astype(F32)))),
    "v_min_f16": lambda a, b: half(minimum(bits(h(a).astype(F32)), bits(h(b).astype(F32)))),
    "v_add_u16": lambda a, b: short(a + b),
    "v_sub_u16": lambda a, b: short(a - b),
    "v_subrev_u16": lambda a, b: short(b - a),
    "v_mul_lo_u16": lambda a, b: short(a * b),
    "v_lshlrev_b16": lambda a, b: short(b << (a & U32(15))),
    "v_lshrrev_b16": lambda a, b: short(b) >> (a & U32(15)),
    "v_ashrrev_i16": lambda a, b: short(low((short_signed(b) >> (a & U32(15)).astype(I64)).astype(U64))),
    "v_max_u16": lambda a, b: np.maximum(short(a), short(b)),
    "v_min_u16": lambda a, b: np.minimum(short(a), short(b)),
    "v_max_i16": lambda a, b: np.where(short_signed(a) > short_signed(b), short(a), short(b)),
    "v_min_i16": lambda a, b: np.where(short_signed(a) < short_signed(b), short(a), short(b)),
    "v_mad_i32_i24": lambda a, b, c: low((low24(a) * low24(b)).astype(U64)) + c,
    "v_mad_u32_u24": lambda a, b, c: low((wide(a) & U64(0xFFFFFF)) * (wide(b) & U64(0xFFFFFF))) + c,
    "v_bfe_u32": lambda a, b, c: field(a, b & U32(31), c & U32(31)),
    "v_bfe_i32": lambda a, b, c: signed_field(a, b & U32(31), c & U32(31)),
    "v_bfi_b32": lambda a, b, c: (a & b) | (~a & c),
    "v_fma_f32": fma,
    "v_alignbit_b32": lambda a, b, c: low(((wide(a) << U64(32)) | wide(b)) >> (wide(c) & U64(31))),
    "v_alignbyte_b32": lambda a, b, c: low(((wide(a) << U64(32)) | wide(b)) >> (U64(8) * (wide(c) & U64(3)))),
    "v_min3_f32": lambda a, b, c: minimum(minimum(a, b), c),
    "v_max3_f32": lambda a, b, c: maximum(maximum(a, b), c),
    "v_max3_i32": lambda a, b, c: low(np.maximum(np.maximum(signed(a), signed(b)), signed(c)).astype(U64)),
    "v_med3_f32": median,
    "v_med3_i32": lambda a, b, c: low(np.sort(np.stack([signed(a), signed(b), signed(c)]), 0)[1].astype(U64)),
    "v_perm_b32": perm,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & U32(31))) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b) << (c & U32(31)),
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_lshl_or_b32": lambda a, b, c: (a << (b & U32(31))) | c,
    "v_and_or_b32": lambda a, b, c: (a & b) | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_cvt_pk_f16_f32": lambda a, b: half(a) | half(b) << U32(16),
    "v_cvt_pk_bf16_f32": lambda a, b: bf16(a) | bf16(b) << U32(16),
    "v_cvt_pkrtz_f16_f32": lambda a, b: half_down(a) | half_down(b) << U32(16),
    "v_mul_lo_u32": lambda a, b: low(wide(a) * wide(b)),
    "v_mul_hi_u32": lambda a, b: low(wide(a) * wide(b) >> U64(32)),
    "v_mul_hi_i32": lambda a, b: low(((signed(a) * signed(b)) >> 32).astype(U64)),
    "v_bcnt_u32_b32": lambda a, b: ones(a) + b,
    "v_mbcnt_lo_u32_b32": lambda a, b: ones(wide(a) & ((U64(1) << np.minimum(LANE, 32).astype(U64)) - U64(1))) + b,
    "v_mbcnt_hi_u32_b32": lambda a, b: ones(wide(a) & ((U64(1) << np.maximum(LANE - 32, 0).astype(U64)) - U64(1))) + b,
    "v_add_i32": lambda a, b: a + b,
    "v_sub_i32": lambda a, b: a - b,
    "v_pack_b32_f16": lambda a, b: (a & U32(0xFFFF)) | b << U32(16),
}
APPROXIMATE = {"v_exp_f32", "v_log_f32", "v_rcp_f32", "v_rcp_iflag_f32", "v_rsq_f32", "v_sqrt_f32"}

VECTOR64 = {  # sources and result are 64-bit where the widths say so: (result, source widths)
    "v_mov_b64": ("2", lambda a: a),
    "v_lshl_add_u64": ("212", lambda a, b, c: (a << (b & U64(7))) + c),
    "v_lshlrev_b64": ("12", lambda a, b: b << (a & U64(63))),
    "v_lshrrev_b64": ("12", lambda a, b: b >> (a & U64(63))),
    "v_ashrrev_i64": ("12", lambda a, b: (b.view(I64) >> (a & U64(63)).astype(I64)).view(U64)),
}

_ORDER = {"lt": "<", "eq": "==", "le": "<=", "gt": ">", "ge": ">="}
COMPARE = {
    f"v_cmp_{n}_{t}": (c, t)
    for t in ("i16", "u16", "i32", "u32", "i64", "u64")
    for n, c in (*_ORDER.items(), ("ne", "!="))
}
COMPARE |= {f"v_cmp_{n}_f32": (c, "f32") for n, c in _ORDER.items()}
COMPARE |= {
    "v_cmp_f_f32": ("False", "f32"),
    "v_cmp_lg_f32": ("(a<b)|(a>b)", "f32"),
    "v_cmp_o_f32": ("(a==a)&(b==b)", "f32"),
    "v_cmp_u_f32": ("(a!=a)|(b!=b)", "f32"),
    "v_cmp_nge_f32": ("~(a>=b)", "f32"),
    "v_cmp_nlg_f32": ("~((a<b)|(a>b))", "f32"),
    "v_cmp_ngt_f32": ("~(a>b)", "f32"),
    "v_cmp_nle_f32": ("~(a<=b)", "f32"),
    "v_cmp_neq_f32": ("~(a==b)", "f32"),
    "v_cmp_nlt_f32": ("~(a<b)", "f32"),
}

COMPARE |= {name.replace("f32", "f16"): (c, "f16") for name, (c, t) in COMPARE.items() if t == "f32" and c != "False"}


def compare(name, a, b):
    """Bool lanes of a compare; a and b are u32 or u64 lanes."""
    condition, kind = COMPARE[name]
    view = {"f32": F32, "i32": I32, "u32": U32, "i64": I64, "u64": U64}.get(kind)
    if view is None:  # 16 bits: the low halves
        a, b = short(a).astype(np.uint16), short(b).astype(np.uint16)
        view = {"f16": np.float16, "i16": np.int16, "u16": np.uint16}[kind]
    if condition == "False":
        return np.zeros(a.shape, bool)
    text = condition if "a" in condition else f"a{condition}b"
    return eval(text, {"a": a.view(view), "b": b.view(view)})
