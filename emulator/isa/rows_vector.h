// Vector instructions. Columns: name, opcode, width of destination and three sources in dwords,
// flags, value of one lane. In a value s0, s1, s2 are the sources (u64 in rows that have a source
// or result wider than a dword), lane is the lane number and clamp the clamp bit.
// A VOP1 row also matches VOP3 opcode + 320, a VOP2 row VOP3 opcode + 256, a VOPC row VOP3 opcode.
#pragma once

// clang-format off
#define VOP1_ROWS(X)                                                                              \
  X(v_mov_b32,          1, 1, 1, 0, 0, kInteger, s0)                                              \
  X(v_cvt_f32_i32,      5, 1, 1, 0, 0, kInteger, bits(float(i32(s0))))                            \
  X(v_cvt_f32_u32,      6, 1, 1, 0, 0, kInteger, bits(float(s0)))                                 \
  X(v_cvt_u32_f32,      7, 1, 1, 0, 0, kFloat, unsigned_from_float(f32(s0)))                      \
  X(v_cvt_i32_f32,      8, 1, 1, 0, 0, kFloat, signed_from_float(f32(s0)))                        \
  X(v_cvt_f16_f32,     10, 1, 1, 0, 0, kSignBits, half_from_float(s0))                            \
  X(v_cvt_f32_f16,     11, 1, 1, 0, 0, kHalf, float_from_half(s0))                                \
  X(v_cvt_f32_ubyte0,  17, 1, 1, 0, 0, kInteger, bits(float(s0 & 255)))                           \
  X(v_cvt_f32_ubyte1,  18, 1, 1, 0, 0, kInteger, bits(float(s0 >> 8 & 255)))                      \
  X(v_cvt_f32_ubyte2,  19, 1, 1, 0, 0, kInteger, bits(float(s0 >> 16 & 255)))                     \
  X(v_cvt_f32_ubyte3,  20, 1, 1, 0, 0, kInteger, bits(float(s0 >> 24)))                           \
  X(v_fract_f32,       27, 1, 1, 0, 0, kFloat, fraction(f32(s0)))                                 \
  X(v_trunc_f32,       28, 1, 1, 0, 0, kFloat, bits(std::trunc(f32(s0))))                         \
  X(v_ceil_f32,        29, 1, 1, 0, 0, kFloat, bits(std::ceil(f32(s0))))                          \
  X(v_rndne_f32,       30, 1, 1, 0, 0, kFloat, bits(std::nearbyint(f32(s0))))                     \
  X(v_floor_f32,       31, 1, 1, 0, 0, kFloat, bits(std::floor(f32(s0))))                         \
  X(v_exp_f32,         32, 1, 1, 0, 0, kFloat | kTrans, approximate_exp2(s0))                     \
  X(v_log_f32,         33, 1, 1, 0, 0, kFloat | kTrans, approximate_log2(s0))                     \
  X(v_rcp_f32,         34, 1, 1, 0, 0, kFloat | kTrans, approximate_reciprocal(s0))               \
  X(v_rcp_iflag_f32,   35, 1, 1, 0, 0, kFloat | kTrans, approximate_reciprocal(s0))               \
  X(v_rsq_f32,         36, 1, 1, 0, 0, kFloat | kTrans, approximate_rsqrt(s0))                    \
  X(v_sqrt_f32,        39, 1, 1, 0, 0, kFloat | kTrans, approximate_sqrt(s0))                     \
  X(v_not_b32,         43, 1, 1, 0, 0, kInteger, ~s0)                                             \
  X(v_bfrev_b32,       44, 1, 1, 0, 0, kInteger, reverse_bits(s0))                                \
  X(v_ffbh_u32,        45, 1, 1, 0, 0, kInteger, s0 ? u32(std::countl_zero(s0)) : ~0u)            \
  X(v_ffbl_b32,        46, 1, 1, 0, 0, kInteger, s0 ? u32(std::countr_zero(s0)) : ~0u)            \
  X(v_accvgpr_mov_b32, 82, 1, 1, 0, 0, kInteger, s0)                                              \
  X(v_cvt_f32_bf16,    91, 1, 1, 0, 0, kInteger, s0 << 16)

#define VOP1_WIDE_ROWS(X)                                                                         \
  X(v_mov_b64,         56, 2, 2, 0, 0, kInteger, s0)

#define VOP2_ROWS(X)                                                                              \
  X(v_cndmask_b32,      0, 1, 1, 1, 2, kSignBits | kLaneMask, s2 ? s1 : s0)                       \
  X(v_add_f32,          1, 1, 1, 1, 0, kFloat, bits(f32(s0) + f32(s1)))                           \
  X(v_sub_f32,          2, 1, 1, 1, 0, kFloat, bits(f32(s0) - f32(s1)))                           \
  X(v_subrev_f32,       3, 1, 1, 1, 0, kFloat, bits(f32(s1) - f32(s0)))                           \
  X(v_mul_f32,          5, 1, 1, 1, 0, kFloat, bits(f32(s0) * f32(s1)))                           \
  X(v_mul_i32_i24,      6, 1, 1, 1, 0, kInteger, u32(low24(s0)) * u32(low24(s1)))                 \
  X(v_mul_u32_u24,      8, 1, 1, 1, 0, kInteger, (s0 & 0xffffff) * (s1 & 0xffffff))               \
  X(v_min_f32,         10, 1, 1, 1, 0, kFloat, minimum(s0, s1))                                   \
  X(v_max_f32,         11, 1, 1, 1, 0, kFloat, maximum(s0, s1))                                   \
  X(v_min_i32,         12, 1, 1, 1, 0, kInteger, i32(s0) < i32(s1) ? s0 : s1)                     \
  X(v_max_i32,         13, 1, 1, 1, 0, kInteger, i32(s0) > i32(s1) ? s0 : s1)                     \
  X(v_min_u32,         14, 1, 1, 1, 0, kInteger, s0 < s1 ? s0 : s1)                               \
  X(v_max_u32,         15, 1, 1, 1, 0, kInteger, s0 > s1 ? s0 : s1)                               \
  X(v_lshrrev_b32,     16, 1, 1, 1, 0, kInteger, s1 >> (s0 & 31))                                 \
  X(v_ashrrev_i32,     17, 1, 1, 1, 0, kInteger, u32(i32(s1) >> (s0 & 31)))                       \
  X(v_lshlrev_b32,     18, 1, 1, 1, 0, kInteger, s1 << (s0 & 31))                                 \
  X(v_and_b32,         19, 1, 1, 1, 0, kInteger, s0 & s1)                                         \
  X(v_or_b32,          20, 1, 1, 1, 0, kInteger, s0 | s1)                                         \
  X(v_xor_b32,         21, 1, 1, 1, 0, kInteger, s0 ^ s1)                                         \
  X(v_fmamk_f32,       23, 1, 1, 1, 1, kFloat, fused(f32(s0), f32(s1), f32(s2)))                  \
  X(v_fmaak_f32,       24, 1, 1, 1, 1, kFloat, fused(f32(s0), f32(s1), f32(s2)))                  \
  X(v_add_f16,           31, 1, 1, 1, 0, kHalf, half_add(s0, s1)) \
  X(v_sub_f16,           32, 1, 1, 1, 0, kHalf, half_add(s0, s1 ^ 0x8000)) \
  X(v_subrev_f16,        33, 1, 1, 1, 0, kHalf, half_add(s1, s0 ^ 0x8000)) \
  X(v_mul_f16,           34, 1, 1, 1, 0, kHalf, half_multiply(s0, s1)) \
  X(v_add_u16,           38, 1, 1, 1, 0, kInteger, (s0 + s1) & 0xffff) \
  X(v_sub_u16,           39, 1, 1, 1, 0, kInteger, (s0 - s1) & 0xffff) \
  X(v_subrev_u16,        40, 1, 1, 1, 0, kInteger, (s1 - s0) & 0xffff) \
  X(v_mul_lo_u16,        41, 1, 1, 1, 0, kInteger, (s0 * s1) & 0xffff) \
  X(v_lshlrev_b16,       42, 1, 1, 1, 0, kInteger, (s1 << (s0 & 15)) & 0xffff) \
  X(v_lshrrev_b16,       43, 1, 1, 1, 0, kInteger, (s1 & 0xffff) >> (s0 & 15)) \
  X(v_ashrrev_i16,       44, 1, 1, 1, 0, kInteger, u16(i16(s1) >> (s0 & 15))) \
  X(v_max_f16,           45, 1, 1, 1, 0, kHalf, half_maximum(s0, s1)) \
  X(v_min_f16,           46, 1, 1, 1, 0, kHalf, half_minimum(s0, s1)) \
  X(v_max_u16,           47, 1, 1, 1, 0, kInteger, std::max<u32>(u16(s0), u16(s1))) \
  X(v_max_i16,           48, 1, 1, 1, 0, kInteger, u16(std::max(i16(s0), i16(s1)))) \
  X(v_min_u16,           49, 1, 1, 1, 0, kInteger, std::min<u32>(u16(s0), u16(s1))) \
  X(v_min_i16,           50, 1, 1, 1, 0, kInteger, u16(std::min(i16(s0), i16(s1)))) \
  X(v_add_u32,         52, 1, 1, 1, 0, kClampInt, s0 + s1 < s0 && clamp ? ~0u : s0 + s1)          \
  X(v_sub_u32,         53, 1, 1, 1, 0, kClampInt, s0 < s1 && clamp ? 0u : s0 - s1)                \
  X(v_subrev_u32,      54, 1, 1, 1, 0, kClampInt, s1 < s0 && clamp ? 0u : s1 - s0)                \
  X(v_fmac_f32,        59, 1, 1, 1, 1, kFloat | kReadsDest, fused(f32(s0), f32(s1), f32(s2)))     \
  X(v_dot2c_f32_bf16,  22, 1, 1, 1, 1, kInteger | kReadsDest, dot(bf16_pair(s0), bf16_pair(s1), f32(s2))) \
  X(v_dot2c_f32_f16,   55, 1, 1, 1, 1, kInteger | kReadsDest, dot(half_pair(s0), half_pair(s1), f32(s2))) \
  X(v_xnor_b32,        61, 1, 1, 1, 0, kInteger, ~(s0 ^ s1))

// Adds with carry: the value is 33 bits wide, bit 32 goes to the carry mask.
#define VOP2_CARRY_ROWS(X)                                                                        \
  X(v_add_co_u32,      25, 1, 1, 1, 0, kCarryOut, s0 + s1)                                        \
  X(v_sub_co_u32,      26, 1, 1, 1, 0, kCarryOut, s0 - s1)                                        \
  X(v_subrev_co_u32,   27, 1, 1, 1, 0, kCarryOut, s1 - s0)                                        \
  X(v_addc_co_u32,     28, 1, 1, 1, 2, kCarryOut | kLaneMask, s0 + s1 + s2)                       \
  X(v_subb_co_u32,     29, 1, 1, 1, 2, kCarryOut | kLaneMask, s0 - s1 - s2)                       \
  X(v_subbrev_co_u32,  30, 1, 1, 1, 2, kCarryOut | kLaneMask, s1 - s0 - s2)

#define VOP3_ROWS(X)                                                                              \
  X(v_mad_i32_i24,    450, 1, 1, 1, 1, kInteger, u32(low24(s0)) * u32(low24(s1)) + s2)            \
  X(v_mad_u32_u24,    451, 1, 1, 1, 1, kInteger, (s0 & 0xffffff) * (s1 & 0xffffff) + s2)          \
  X(v_bfe_u32,        456, 1, 1, 1, 1, kInteger, s0 >> (s1 & 31) & ((1u << (s2 & 31)) - 1))       \
  X(v_bfe_i32,        457, 1, 1, 1, 1, kInteger, signed_field(s0, s1 & 31, s2 & 31))              \
  X(v_bfi_b32,        458, 1, 1, 1, 1, kInteger, (s0 & s1) | (~s0 & s2))                          \
  X(v_fma_f32,        459, 1, 1, 1, 1, kFloat, fused(f32(s0), f32(s1), f32(s2)))                  \
  X(v_alignbit_b32,   462, 1, 1, 1, 1, kInteger, u32((u64(s0) << 32 | s1) >> (s2 & 31)))          \
  X(v_alignbyte_b32,  463, 1, 1, 1, 1, kInteger, u32((u64(s0) << 32 | s1) >> 8 * (s2 & 3)))       \
  X(v_min3_f32,       464, 1, 1, 1, 1, kFloat, minimum(minimum(s0, s1), s2))                      \
  X(v_max3_f32,       467, 1, 1, 1, 1, kFloat, maximum(maximum(s0, s1), s2))                      \
  X(v_max3_i32,       468, 1, 1, 1, 1, kInteger, u32(std::max(std::max(i32(s0), i32(s1)), i32(s2)))) \
  X(v_med3_f32,       470, 1, 1, 1, 1, kFloat, median(s0, s1, s2))                                \
  X(v_med3_i32,       471, 1, 1, 1, 1, kInteger, signed_median(i32(s0), i32(s1), i32(s2)))        \
  X(v_div_fixup_f32,  478, 1, 1, 1, 1, kFloat, divide_fixup(s0, s1, s2))                          \
  X(v_perm_b32,       493, 1, 1, 1, 1, kInteger, permute_bytes(s0, s1, s2))                       \
  X(v_xad_u32,        499, 1, 1, 1, 1, kInteger, (s0 ^ s1) + s2)                                  \
  X(v_lshl_add_u32,   509, 1, 1, 1, 1, kInteger, (s0 << (s1 & 31)) + s2)                          \
  X(v_add_lshl_u32,   510, 1, 1, 1, 1, kInteger, (s0 + s1) << (s2 & 31))                          \
  X(v_add3_u32,       511, 1, 1, 1, 1, kInteger, s0 + s1 + s2)                                    \
  X(v_lshl_or_b32,    512, 1, 1, 1, 1, kInteger, (s0 << (s1 & 31)) | s2)                          \
  X(v_and_or_b32,     513, 1, 1, 1, 1, kInteger, (s0 & s1) | s2)                                  \
  X(v_or3_b32,        514, 1, 1, 1, 1, kInteger, s0 | s1 | s2)                                    \
  X(v_cvt_pk_f16_f32, 615, 1, 1, 1, 0, kSignBits, half_from_float(s0) | half_from_float(s1) << 16) \
  X(v_cvt_pk_bf16_f32, 616, 1, 1, 1, 0, kSignBits, bf16_from_float(s0) | bf16_from_float(s1) << 16) \
  X(v_mul_lo_u32,     645, 1, 1, 1, 0, kSlow, s0 * s1)                                            \
  X(v_mul_hi_u32,     646, 1, 1, 1, 0, kSlow, u32(u64(s0) * s1 >> 32))                            \
  X(v_mul_hi_i32,     647, 1, 1, 1, 0, kSlow, u32(u64(i64(i32(s0)) * i32(s1)) >> 32))             \
  X(v_ldexp_f32,      648, 1, 1, 1, 0, kFloat, scale_by_power(s0, i32(s1)))                       \
  X(v_bcnt_u32_b32,   651, 1, 1, 1, 0, kInteger, u32(std::popcount(s0)) + s1)                     \
  X(v_mbcnt_lo_u32_b32, 652, 1, 1, 1, 0, kInteger, u32(std::popcount(s0 & below_lane(lane, 0))) + s1) \
  X(v_mbcnt_hi_u32_b32, 653, 1, 1, 1, 0, kInteger, u32(std::popcount(s0 & below_lane(lane, 32))) + s1) \
  X(v_cvt_pkrtz_f16_f32, 662, 1, 1, 1, 0, kSignBits, half_toward_zero(s0) | half_toward_zero(s1) << 16) \
  X(v_add_i32,        668, 1, 1, 1, 0, kClampInt, add_signed(s0, s1, clamp))                      \
  X(v_sub_i32,        669, 1, 1, 1, 0, kClampInt, subtract_signed(s0, s1, clamp))                 \
  X(v_pack_b32_f16,   672, 1, 1, 1, 0, kHalf, (s0 & 0xffff) | s1 << 16)

#define VOP3_WIDE_ROWS(X)                                                                         \
  X(v_lshl_add_u64,   520, 2, 2, 1, 2, kInteger, (s0 << (s1 & 7)) + s2)                           \
  X(v_lshlrev_b64,    655, 2, 1, 2, 0, kInteger, s1 << (s0 & 63))                                 \
  X(v_lshrrev_b64,    656, 2, 1, 2, 0, kInteger, s1 >> (s0 & 63))                                 \
  X(v_ashrrev_i64,    657, 2, 1, 2, 0, kInteger, u64(i64(s1) >> (s0 & 63)))

// name, opcode, source width, flags, condition
#define VOPC_ROWS(X)                                                                              \
  X(v_cmp_class_f32, 16, 1, kSignBits, in_float_class(s0, s1))                                    \
  X(v_cmp_f_f32,   64, 1, kFloat, (s0 & s1 & 0) != 0)                                              \
  X(v_cmp_lt_f32,  65, 1, kFloat, f32(s0) < f32(s1))                                              \
  X(v_cmp_eq_f32,  66, 1, kFloat, f32(s0) == f32(s1))                                             \
  X(v_cmp_le_f32,  67, 1, kFloat, f32(s0) <= f32(s1))                                             \
  X(v_cmp_gt_f32,  68, 1, kFloat, f32(s0) > f32(s1))                                              \
  X(v_cmp_lg_f32,  69, 1, kFloat, f32(s0) < f32(s1) || f32(s0) > f32(s1))                         \
  X(v_cmp_ge_f32,  70, 1, kFloat, f32(s0) >= f32(s1))                                             \
  X(v_cmp_o_f32,   71, 1, kFloat, !is_nan(s0) && !is_nan(s1))                                     \
  X(v_cmp_u_f32,   72, 1, kFloat, is_nan(s0) || is_nan(s1))                                       \
  X(v_cmp_nge_f32, 73, 1, kFloat, !(f32(s0) >= f32(s1)))                                          \
  X(v_cmp_nlg_f32, 74, 1, kFloat, !(f32(s0) < f32(s1) || f32(s0) > f32(s1)))                      \
  X(v_cmp_ngt_f32, 75, 1, kFloat, !(f32(s0) > f32(s1)))                                           \
  X(v_cmp_nle_f32, 76, 1, kFloat, !(f32(s0) <= f32(s1)))                                          \
  X(v_cmp_neq_f32, 77, 1, kFloat, !(f32(s0) == f32(s1)))                                          \
  X(v_cmp_nlt_f32, 78, 1, kFloat, !(f32(s0) < f32(s1)))                                           \
  X(v_cmp_lt_f16, 33, 1, kHalf, h(s0) < h(s1)) \
  X(v_cmp_eq_f16, 34, 1, kHalf, h(s0) == h(s1)) \
  X(v_cmp_le_f16, 35, 1, kHalf, h(s0) <= h(s1)) \
  X(v_cmp_gt_f16, 36, 1, kHalf, h(s0) > h(s1)) \
  X(v_cmp_lg_f16, 37, 1, kHalf, h(s0) < h(s1) || h(s0) > h(s1)) \
  X(v_cmp_ge_f16, 38, 1, kHalf, h(s0) >= h(s1)) \
  X(v_cmp_o_f16, 39, 1, kHalf, h(s0) == h(s0) && h(s1) == h(s1)) \
  X(v_cmp_u_f16, 40, 1, kHalf, h(s0) != h(s0) || h(s1) != h(s1)) \
  X(v_cmp_nge_f16, 41, 1, kHalf, !(h(s0) >= h(s1))) \
  X(v_cmp_nlg_f16, 42, 1, kHalf, !(h(s0) < h(s1) || h(s0) > h(s1))) \
  X(v_cmp_ngt_f16, 43, 1, kHalf, !(h(s0) > h(s1))) \
  X(v_cmp_nle_f16, 44, 1, kHalf, !(h(s0) <= h(s1))) \
  X(v_cmp_neq_f16, 45, 1, kHalf, !(h(s0) == h(s1))) \
  X(v_cmp_nlt_f16, 46, 1, kHalf, !(h(s0) < h(s1))) \
  X(v_cmp_lt_i16, 161, 1, kInteger, i16(s0) < i16(s1)) \
  X(v_cmp_eq_i16, 162, 1, kInteger, i16(s0) == i16(s1)) \
  X(v_cmp_le_i16, 163, 1, kInteger, i16(s0) <= i16(s1)) \
  X(v_cmp_gt_i16, 164, 1, kInteger, i16(s0) > i16(s1)) \
  X(v_cmp_ne_i16, 165, 1, kInteger, i16(s0) != i16(s1)) \
  X(v_cmp_ge_i16, 166, 1, kInteger, i16(s0) >= i16(s1)) \
  X(v_cmp_lt_u16, 169, 1, kInteger, u16(s0) < u16(s1)) \
  X(v_cmp_eq_u16, 170, 1, kInteger, u16(s0) == u16(s1)) \
  X(v_cmp_le_u16, 171, 1, kInteger, u16(s0) <= u16(s1)) \
  X(v_cmp_gt_u16, 172, 1, kInteger, u16(s0) > u16(s1)) \
  X(v_cmp_ne_u16, 173, 1, kInteger, u16(s0) != u16(s1)) \
  X(v_cmp_ge_u16, 174, 1, kInteger, u16(s0) >= u16(s1)) \
  X(v_cmp_lt_i32, 193, 1, kInteger, i32(s0) < i32(s1))                                            \
  X(v_cmp_eq_i32, 194, 1, kInteger, i32(s0) == i32(s1))                                           \
  X(v_cmp_le_i32, 195, 1, kInteger, i32(s0) <= i32(s1))                                           \
  X(v_cmp_gt_i32, 196, 1, kInteger, i32(s0) > i32(s1))                                            \
  X(v_cmp_ne_i32, 197, 1, kInteger, i32(s0) != i32(s1))                                           \
  X(v_cmp_ge_i32, 198, 1, kInteger, i32(s0) >= i32(s1))                                           \
  X(v_cmp_lt_u32, 201, 1, kInteger, s0 < s1)                                                      \
  X(v_cmp_eq_u32, 202, 1, kInteger, s0 == s1)                                                     \
  X(v_cmp_le_u32, 203, 1, kInteger, s0 <= s1)                                                     \
  X(v_cmp_gt_u32, 204, 1, kInteger, s0 > s1)                                                      \
  X(v_cmp_ne_u32, 205, 1, kInteger, s0 != s1)                                                     \
  X(v_cmp_ge_u32, 206, 1, kInteger, s0 >= s1)                                                     \
  X(v_cmp_lt_i64, 225, 2, kInteger, i64(s0) < i64(s1))                                            \
  X(v_cmp_eq_i64, 226, 2, kInteger, s0 == s1)                                                     \
  X(v_cmp_le_i64, 227, 2, kInteger, i64(s0) <= i64(s1))                                           \
  X(v_cmp_gt_i64, 228, 2, kInteger, i64(s0) > i64(s1))                                            \
  X(v_cmp_ne_i64, 229, 2, kInteger, s0 != s1)                                                     \
  X(v_cmp_ge_i64, 230, 2, kInteger, i64(s0) >= i64(s1))                                           \
  X(v_cmp_lt_u64, 233, 2, kInteger, s0 < s1)                                                      \
  X(v_cmp_eq_u64, 234, 2, kInteger, s0 == s1)                                                     \
  X(v_cmp_le_u64, 235, 2, kInteger, s0 <= s1)                                                     \
  X(v_cmp_gt_u64, 236, 2, kInteger, s0 > s1)                                                      \
  X(v_cmp_ne_u64, 237, 2, kInteger, s0 != s1)                                                     \
  X(v_cmp_ge_u64, 238, 2, kInteger, s0 >= s1)

// Rows with an executor of their own: name, opcode, widths, flags, executor.
#define VOP1_SPECIAL_ROWS(X)                                                                      \
  X(v_nop,               0, 0, 0, 0, 0, kInteger, no_operation)                                   \
  X(v_readfirstlane_b32, 2, 1, 1, 0, 0, kCrossLane, read_first_lane)                              \
  X(v_permlane16_swap_b32, 89, 1, 1, 0, 0, kCrossLane, swap_rows<16>)                             \
  X(v_permlane32_swap_b32, 90, 1, 1, 0, 0, kCrossLane, swap_rows<32>)

#define VOP3_SPECIAL_ROWS(X)                                                                      \
  X(v_div_scale_f32,  480, 1, 1, 1, 1, kFloat | kCarryOut, divide_scale)                          \
  X(v_div_fmas_f32,   482, 1, 1, 1, 1, kFloat, divide_fmas)                                       \
  X(v_mad_u64_u32,    488, 2, 1, 1, 2, kCarryOut | kSlow, multiply_add_64<u64>)                   \
  X(v_mad_i64_i32,    489, 2, 1, 1, 2, kCarryOut | kSlow, multiply_add_64<i64>)                   \
  X(v_bitop3_b32,     564, 1, 1, 1, 1, kInteger, bit_operation)                                   \
  X(v_readlane_b32,   649, 1, 1, 1, 0, kCrossLane, read_lane)                                     \
  X(v_writelane_b32,  650, 1, 1, 1, 1, kCrossLane, write_lane)

#define VOP3P_ROWS(X)                                                                             \
  X(v_pk_mad_i16, 0, 1, 1, 1, 1, kInteger, packed_16<3, pack_mad>) \
  X(v_pk_mul_lo_u16, 1, 1, 1, 1, 0, kInteger, packed_16<2, pack_mul>) \
  X(v_pk_add_i16, 2, 1, 1, 1, 0, kInteger, packed_16<2, pack_add>) \
  X(v_pk_sub_i16, 3, 1, 1, 1, 0, kInteger, packed_16<2, pack_sub>) \
  X(v_pk_lshlrev_b16, 4, 1, 1, 1, 0, kInteger, packed_16<2, pack_shl>) \
  X(v_pk_lshrrev_b16, 5, 1, 1, 1, 0, kInteger, packed_16<2, pack_shr>) \
  X(v_pk_ashrrev_i16, 6, 1, 1, 1, 0, kInteger, packed_16<2, pack_sar>) \
  X(v_pk_max_i16, 7, 1, 1, 1, 0, kInteger, packed_16<2, pack_imax>) \
  X(v_pk_min_i16, 8, 1, 1, 1, 0, kInteger, packed_16<2, pack_imin>) \
  X(v_pk_mad_u16, 9, 1, 1, 1, 1, kInteger, packed_16<3, pack_mad>) \
  X(v_pk_add_u16, 10, 1, 1, 1, 0, kInteger, packed_16<2, pack_add>) \
  X(v_pk_sub_u16, 11, 1, 1, 1, 0, kInteger, packed_16<2, pack_sub>) \
  X(v_pk_max_u16, 12, 1, 1, 1, 0, kInteger, packed_16<2, pack_umax>) \
  X(v_pk_min_u16, 13, 1, 1, 1, 0, kInteger, packed_16<2, pack_umin>) \
  X(v_pk_fma_f16, 14, 1, 1, 1, 1, kHalf, packed_16<3, pack_fma>) \
  X(v_pk_add_f16, 15, 1, 1, 1, 0, kHalf, packed_16<2, pack_fadd>) \
  X(v_pk_mul_f16, 16, 1, 1, 1, 0, kHalf, packed_16<2, pack_fmul>) \
  X(v_pk_min_f16, 17, 1, 1, 1, 0, kHalf, packed_16<2, pack_fmin>) \
  X(v_pk_max_f16, 18, 1, 1, 1, 0, kHalf, packed_16<2, pack_fmax>) \
  X(v_pk_fma_f32,  48, 2, 2, 2, 2, kFloat, packed_f32<3, fused_op>)                               \
  X(v_pk_mul_f32,  49, 2, 2, 2, 0, kFloat, packed_f32<2, multiply_op>)                            \
  X(v_pk_add_f32,  50, 2, 2, 2, 0, kFloat, packed_f32<2, add_op>)                                 \
  X(v_pk_mov_b32,  51, 2, 2, 2, 0, kInteger, packed_move)                                         \
  X(v_accvgpr_read_b32,  88, 1, 1, 0, 0, kInteger, move_accumulator)                              \
  X(v_accvgpr_write_b32, 89, 1, 1, 0, 0, kInteger, move_accumulator)

// name, opcode, registers of A and B, registers of C and D, rows, depth, passes, input type
#define MFMA_ROWS(X)                                                                              \
  X(v_mfma_f32_16x16x32_bf16, 53, 4,  4, 16, 32,  4, bf16)                                        \
  X(v_mfma_f32_32x32x16_bf16, 55, 4, 16, 32, 16,  8, bf16)                                        \
  X(v_mfma_f32_32x32x2_f32,   68, 1, 16, 32,  2, 16, f32)                                         \
  X(v_mfma_f32_16x16x4_f32,   69, 1,  4, 16,  4,  8, f32)                                         \
  X(v_mfma_f32_32x32x8_f16,   76, 2, 16, 32,  8,  8, f16)                                         \
  X(v_mfma_f32_16x16x16_f16,  77, 2,  4, 16, 16,  4, f16)                                         \
  X(v_mfma_f32_16x16x32_f16,  84, 4,  4, 16, 32,  4, f16)                                         \
  X(v_mfma_f32_32x32x16_f16,  85, 4, 16, 32, 16,  8, f16)                                         \
  X(v_mfma_f32_32x32x8_bf16,  96, 2, 16, 32,  8,  8, bf16)                                        \
  X(v_mfma_f32_16x16x16_bf16, 97, 2,  4, 16, 16,  4, bf16)
// clang-format on
