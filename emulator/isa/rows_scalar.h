// Scalar instructions. Columns: name, opcode, width of destination and sources in dwords, flags,
// body. In a body a and b are the sources, d the old destination, scc the condition bit (read and
// written); the value is returned.
#pragma once

// clang-format off
#define SOP1_ROWS(X)                                                                              \
  X(s_mov_b32,          0, 1, 1, 0, kInteger, return a)                                           \
  X(s_mov_b64,          1, 2, 2, 0, kInteger, return a)                                           \
  X(s_cmov_b32,         2, 1, 1, 0, kReadsScc | kReadsDest, return scc ? a : d)                   \
  X(s_not_b32,          4, 1, 1, 0, kSetsScc, u32 r = ~u32(a); scc = r != 0; return r)            \
  X(s_not_b64,          5, 2, 2, 0, kSetsScc, u64 r = ~a; scc = r != 0; return r)                 \
  X(s_brev_b32,         8, 1, 1, 0, kInteger, return reverse_bits(u32(a)))                        \
  X(s_bcnt1_i32_b32,   12, 1, 1, 0, kSetsScc, u32 r = std::popcount(u32(a)); scc = r; return r)   \
  X(s_bcnt1_i32_b64,   13, 1, 2, 0, kSetsScc, u32 r = std::popcount(a); scc = r != 0; return r)   \
  X(s_ff1_i32_b32,     16, 1, 1, 0, kInteger, return u32(a) ? std::countr_zero(u32(a)) : ~0u)     \
  X(s_ff1_i32_b64,     17, 1, 2, 0, kInteger, return a ? u32(std::countr_zero(a)) : ~0u)          \
  X(s_flbit_i32_b32,   18, 1, 1, 0, kInteger, return u32(a) ? std::countl_zero(u32(a)) : ~0u)     \
  X(s_flbit_i32_b64,   19, 1, 2, 0, kInteger, return a ? u32(std::countl_zero(a)) : ~0u)          \
  X(s_sext_i32_i8,     22, 1, 1, 0, kInteger, return u32(i32(i8(a))))                             \
  X(s_sext_i32_i16,    23, 1, 1, 0, kInteger, return u32(i32(i16(a))))                            \
  X(s_and_saveexec_b64,    32, 2, 2, 0, kSetsScc, u64 old = exec; exec = a & old; scc = exec != 0; return old) \
  X(s_or_saveexec_b64,     33, 2, 2, 0, kSetsScc, u64 old = exec; exec = a | old; scc = exec != 0; return old) \
  X(s_xor_saveexec_b64,    34, 2, 2, 0, kSetsScc, u64 old = exec; exec = a ^ old; scc = exec != 0; return old) \
  X(s_andn2_saveexec_b64,  35, 2, 2, 0, kSetsScc, u64 old = exec; exec = a & ~old; scc = exec != 0; return old) \
  X(s_abs_i32,         48, 1, 1, 0, kSetsScc, u32 r = i32(a) < 0 ? 0u - u32(a) : u32(a); scc = r != 0; return r)

#define SOP2_ROWS(X)                                                                              \
  X(s_add_u32,    0, 1, 1, 1, kSetsScc, u64 r = a + b; scc = r >> 32; return r)                   \
  X(s_sub_u32,    1, 1, 1, 1, kSetsScc, scc = a < b; return a - b)                                \
  X(s_add_i32,    2, 1, 1, 1, kSetsScc, i64 r = i64(i32(a)) + i32(b); scc = r != i32(r); return u32(r)) \
  X(s_sub_i32,    3, 1, 1, 1, kSetsScc, i64 r = i64(i32(a)) - i32(b); scc = r != i32(r); return u32(r)) \
  X(s_addc_u32,   4, 1, 1, 1, kSetsScc | kReadsScc, u64 r = a + b + scc; scc = r >> 32; return r) \
  X(s_subb_u32,   5, 1, 1, 1, kSetsScc | kReadsScc, u64 r = a - b - scc; scc = a < b + scc; return r) \
  X(s_min_i32,    6, 1, 1, 1, kSetsScc, scc = i32(a) < i32(b); return scc ? a : b)                \
  X(s_min_u32,    7, 1, 1, 1, kSetsScc, scc = a < b; return scc ? a : b)                          \
  X(s_max_i32,    8, 1, 1, 1, kSetsScc, scc = i32(a) > i32(b); return scc ? a : b)                \
  X(s_max_u32,    9, 1, 1, 1, kSetsScc, scc = a > b; return scc ? a : b)                          \
  X(s_cselect_b32, 10, 1, 1, 1, kReadsScc, return scc ? a : b)                                    \
  X(s_cselect_b64, 11, 2, 2, 2, kReadsScc, return scc ? a : b)                                    \
  X(s_and_b32,   12, 1, 1, 1, kSetsScc, u64 r = a & b; scc = r != 0; return r)                    \
  X(s_and_b64,   13, 2, 2, 2, kSetsScc, u64 r = a & b; scc = r != 0; return r)                    \
  X(s_or_b32,    14, 1, 1, 1, kSetsScc, u64 r = a | b; scc = r != 0; return r)                    \
  X(s_or_b64,    15, 2, 2, 2, kSetsScc, u64 r = a | b; scc = r != 0; return r)                    \
  X(s_xor_b32,   16, 1, 1, 1, kSetsScc, u64 r = a ^ b; scc = r != 0; return r)                    \
  X(s_xor_b64,   17, 2, 2, 2, kSetsScc, u64 r = a ^ b; scc = r != 0; return r)                    \
  X(s_andn2_b32, 18, 1, 1, 1, kSetsScc, u32 r = u32(a & ~b); scc = r != 0; return r)              \
  X(s_andn2_b64, 19, 2, 2, 2, kSetsScc, u64 r = a & ~b; scc = r != 0; return r)                   \
  X(s_orn2_b32,  20, 1, 1, 1, kSetsScc, u32 r = u32(a | ~b); scc = r != 0; return r)              \
  X(s_orn2_b64,  21, 2, 2, 2, kSetsScc, u64 r = a | ~b; scc = r != 0; return r)                   \
  X(s_nand_b64,  23, 2, 2, 2, kSetsScc, u64 r = ~(a & b); scc = r != 0; return r)                 \
  X(s_nor_b64,   25, 2, 2, 2, kSetsScc, u64 r = ~(a | b); scc = r != 0; return r)                 \
  X(s_xnor_b64,  27, 2, 2, 2, kSetsScc, u64 r = ~(a ^ b); scc = r != 0; return r)                 \
  X(s_lshl_b32,  28, 1, 1, 1, kSetsScc, u32 r = u32(a) << (b & 31); scc = r != 0; return r)       \
  X(s_lshl_b64,  29, 2, 2, 1, kSetsScc, u64 r = a << (b & 63); scc = r != 0; return r)            \
  X(s_lshr_b32,  30, 1, 1, 1, kSetsScc, u32 r = u32(a) >> (b & 31); scc = r != 0; return r)       \
  X(s_lshr_b64,  31, 2, 2, 1, kSetsScc, u64 r = a >> (b & 63); scc = r != 0; return r)            \
  X(s_ashr_i32,  32, 1, 1, 1, kSetsScc, u32 r = u32(i32(a) >> (b & 31)); scc = r != 0; return r)  \
  X(s_ashr_i64,  33, 2, 2, 1, kSetsScc, u64 r = u64(i64(a) >> (b & 63)); scc = r != 0; return r)  \
  X(s_bfm_b32,   34, 1, 1, 1, kInteger, return ((1u << (a & 31)) - 1) << (b & 31))                \
  X(s_mul_i32,   36, 1, 1, 1, kInteger, return u32(a * b))                                        \
  X(s_bfe_u32,   37, 1, 1, 1, kSetsScc, u32 r = bit_field(u32(a), b & 31, b >> 16 & 127); scc = r != 0; return r) \
  X(s_bfe_i32,   38, 1, 1, 1, kSetsScc, u32 r = signed_bit_field(u32(a), b & 31, b >> 16 & 127); scc = r != 0; return r) \
  X(s_mul_hi_u32, 44, 1, 1, 1, kInteger, return a * b >> 32)                                      \
  X(s_mul_hi_i32, 45, 1, 1, 1, kInteger, return u32(u64(i64(i32(a)) * i32(b)) >> 32))             \
  X(s_lshl1_add_u32, 46, 1, 1, 1, kSetsScc, u64 r = (a << 1) + b; scc = r >> 32 != 0; return r)   \
  X(s_lshl2_add_u32, 47, 1, 1, 1, kSetsScc, u64 r = (a << 2) + b; scc = r >> 32 != 0; return r)   \
  X(s_lshl3_add_u32, 48, 1, 1, 1, kSetsScc, u64 r = (a << 3) + b; scc = r >> 32 != 0; return r)   \
  X(s_lshl4_add_u32, 49, 1, 1, 1, kSetsScc, u64 r = (a << 4) + b; scc = r >> 32 != 0; return r)   \
  X(s_pack_ll_b32_b16, 50, 1, 1, 1, kInteger, return (a & 0xffff) | b << 16)                      \
  X(s_pack_lh_b32_b16, 51, 1, 1, 1, kInteger, return (a & 0xffff) | (b & 0xffff0000u))            \
  X(s_pack_hh_b32_b16, 52, 1, 1, 1, kInteger, return a >> 16 | (b & 0xffff0000u))

#define SOPC_ROWS(X)                                                                              \
  X(s_cmp_eq_i32,   0, 0, 1, 1, kSetsScc, scc = u32(a) == u32(b); return 0)                       \
  X(s_cmp_lg_i32,   1, 0, 1, 1, kSetsScc, scc = u32(a) != u32(b); return 0)                       \
  X(s_cmp_gt_i32,   2, 0, 1, 1, kSetsScc, scc = i32(a) > i32(b); return 0)                        \
  X(s_cmp_ge_i32,   3, 0, 1, 1, kSetsScc, scc = i32(a) >= i32(b); return 0)                       \
  X(s_cmp_lt_i32,   4, 0, 1, 1, kSetsScc, scc = i32(a) < i32(b); return 0)                        \
  X(s_cmp_le_i32,   5, 0, 1, 1, kSetsScc, scc = i32(a) <= i32(b); return 0)                       \
  X(s_cmp_eq_u32,   6, 0, 1, 1, kSetsScc, scc = a == b; return 0)                                 \
  X(s_cmp_lg_u32,   7, 0, 1, 1, kSetsScc, scc = a != b; return 0)                                 \
  X(s_cmp_gt_u32,   8, 0, 1, 1, kSetsScc, scc = a > b; return 0)                                  \
  X(s_cmp_ge_u32,   9, 0, 1, 1, kSetsScc, scc = a >= b; return 0)                                 \
  X(s_cmp_lt_u32,  10, 0, 1, 1, kSetsScc, scc = a < b; return 0)                                  \
  X(s_cmp_le_u32,  11, 0, 1, 1, kSetsScc, scc = a <= b; return 0)                                 \
  X(s_bitcmp0_b32, 12, 0, 1, 1, kSetsScc, scc = !(a >> (b & 31) & 1); return 0)                   \
  X(s_bitcmp1_b32, 13, 0, 1, 1, kSetsScc, scc = a >> (b & 31) & 1; return 0)                      \
  X(s_cmp_eq_u64,  18, 0, 2, 2, kSetsScc, scc = a == b; return 0)                                 \
  X(s_cmp_lg_u64,  19, 0, 2, 2, kSetsScc, scc = a != b; return 0)

// In SOPK bodies a is the old destination (the compared register) and k the signed immediate.
#define SOPK_ROWS(X)                                                                              \
  X(s_movk_i32,     0, 1, 0, 0, kInteger, return u32(k))                                          \
  X(s_cmovk_i32,    1, 1, 0, 0, kReadsScc | kReadsDest, return scc ? u32(k) : d)                  \
  X(s_cmpk_eq_i32,  2, 0, 1, 0, kSetsScc, scc = i32(a) == k; return 0)                            \
  X(s_cmpk_lg_i32,  3, 0, 1, 0, kSetsScc, scc = i32(a) != k; return 0)                            \
  X(s_cmpk_gt_i32,  4, 0, 1, 0, kSetsScc, scc = i32(a) > k; return 0)                             \
  X(s_cmpk_ge_i32,  5, 0, 1, 0, kSetsScc, scc = i32(a) >= k; return 0)                            \
  X(s_cmpk_lt_i32,  6, 0, 1, 0, kSetsScc, scc = i32(a) < k; return 0)                             \
  X(s_cmpk_le_i32,  7, 0, 1, 0, kSetsScc, scc = i32(a) <= k; return 0)                            \
  X(s_cmpk_eq_u32,  8, 0, 1, 0, kSetsScc, scc = u32(a) == u16(k); return 0)                       \
  X(s_cmpk_lg_u32,  9, 0, 1, 0, kSetsScc, scc = u32(a) != u16(k); return 0)                       \
  X(s_cmpk_gt_u32, 10, 0, 1, 0, kSetsScc, scc = u32(a) > u16(k); return 0)                        \
  X(s_cmpk_ge_u32, 11, 0, 1, 0, kSetsScc, scc = u32(a) >= u16(k); return 0)                       \
  X(s_cmpk_lt_u32, 12, 0, 1, 0, kSetsScc, scc = u32(a) < u16(k); return 0)                        \
  X(s_cmpk_le_u32, 13, 0, 1, 0, kSetsScc, scc = u32(a) <= u16(k); return 0)                       \
  X(s_addk_i32,    14, 1, 0, 0, kSetsScc | kReadsDest, i64 r = i64(i32(d)) + k; scc = r != i32(r); return u32(r)) \
  X(s_mulk_i32,    15, 1, 0, 0, kReadsDest, return u32(d) * u32(k))

// name, opcode, class, executor (core/control.cc)
#define SOPP_ROWS(X)                                                                              \
  X(s_nop,            0, internal, nothing)                                                       \
  X(s_endpgm,         1, internal, end_program)                                                   \
  X(s_branch,         2, branch,   branch_always)                                                 \
  X(s_cbranch_scc0,   4, branch,   branch_scc0)                                                   \
  X(s_cbranch_scc1,   5, branch,   branch_scc1)                                                   \
  X(s_cbranch_vccz,   6, branch,   branch_vccz)                                                   \
  X(s_cbranch_vccnz,  7, branch,   branch_vccnz)                                                  \
  X(s_cbranch_execz,  8, branch,   branch_execz)                                                  \
  X(s_cbranch_execnz, 9, branch,   branch_execnz)                                                 \
  X(s_barrier,       10, internal, barrier)                                                       \
  X(s_waitcnt,       12, internal, wait_count)                                                    \
  X(s_sleep,         14, internal, nothing)                                                       \
  X(s_setprio,       15, internal, nothing)

// name, opcode, dwords loaded
#define SMEM_ROWS(X)                                                                              \
  X(s_load_dword,    0, 1)                                                                        \
  X(s_load_dwordx2,  1, 2)                                                                        \
  X(s_load_dwordx4,  2, 4)                                                                        \
  X(s_load_dwordx8,  3, 8)                                                                        \
  X(s_load_dwordx16, 4, 16)                                                                       \
  X(s_buffer_load_dword,    8, 1)                                                                 \
  X(s_buffer_load_dwordx2,  9, 2)                                                                 \
  X(s_buffer_load_dwordx4, 10, 4)                                                                 \
  X(s_buffer_load_dwordx8, 11, 8)                                                                 \
  X(s_buffer_load_dwordx16, 12, 16)
// clang-format on
