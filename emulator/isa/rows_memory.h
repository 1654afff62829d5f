// Memory instructions. DS columns: name, opcode, kind, bytes of an element, offset unit of the
// two-address forms (0 = one address), how a short element fills its register, atomic operation.
// Buffer and global columns: name, opcode, kind, bytes, extension, atomic operation.
#pragma once

// clang-format off
#define DS_ROWS(X)                                                                                \
  X(ds_add_u32,            0, atomic, 4, 0, none, add)                                            \
  X(ds_write_b32,         13, store,  4, 0, none, none)                                           \
  X(ds_write2_b32,        14, store,  4, 4, none, none)                                           \
  X(ds_write2st64_b32,    15, store,  4, 256, none, none)                                         \
  X(ds_add_f32,           21, atomic, 4, 0, none, add_f32)                                        \
  X(ds_write_b8,          30, store,  1, 0, none, none)                                           \
  X(ds_write_b16,         31, store,  2, 0, none, none)                                           \
  X(ds_add_rtn_u32,       32, atomic, 4, 0, none, add)                                            \
  X(ds_read_b32,          54, load,   4, 0, none, none)                                           \
  X(ds_read2_b32,         55, load,   4, 4, none, none)                                           \
  X(ds_read2st64_b32,     56, load,   4, 256, none, none)                                         \
  X(ds_read_i8,           57, load,   1, 0, sign, none)                                           \
  X(ds_read_u8,           58, load,   1, 0, zero, none)                                           \
  X(ds_read_i16,          59, load,   2, 0, sign, none)                                           \
  X(ds_read_u16,          60, load,   2, 0, zero, none)                                           \
  X(ds_swizzle_b32,       61, swizzle, 4, 0, none, none)                                          \
  X(ds_permute_b32,       62, permute, 4, 0, none, none)                                          \
  X(ds_bpermute_b32,      63, bpermute, 4, 0, none, none)                                         \
  X(ds_write_b64,         77, store,  8, 0, none, none)                                           \
  X(ds_write2_b64,        78, store,  8, 8, none, none)                                           \
  X(ds_write2st64_b64,    79, store,  8, 512, none, none)                                         \
  X(ds_write_b8_d16_hi,   84, store,  1, 0, high_half, none)                                      \
  X(ds_write_b16_d16_hi,  85, store,  2, 0, high_half, none)                                      \
  X(ds_read_u16_d16,      90, load,   2, 0, low_half, none)                                       \
  X(ds_read_u16_d16_hi,   91, load,   2, 0, high_half, none)                                      \
  X(ds_read_b64,         118, load,   8, 0, none, none)                                           \
  X(ds_read2_b64,        119, load,   8, 8, none, none)                                           \
  X(ds_read2st64_b64,    120, load,   8, 512, none, none)                                         \
  X(ds_write_b96,        222, store, 12, 0, none, none)                                           \
  X(ds_write_b128,       223, store, 16, 0, none, none)                                           \
  X(ds_read_b64_tr_b16,  227, transpose, 8, 0, none, none)                                        \
  X(ds_read_b96,         254, load,  12, 0, none, none)                                           \
  X(ds_read_b128,        255, load,  16, 0, none, none)

#define MUBUF_ROWS(X)                                                                             \
  X(buffer_load_ubyte,       16, load,  1, zero, none)                                            \
  X(buffer_load_sbyte,       17, load,  1, sign, none)                                            \
  X(buffer_load_ushort,      18, load,  2, zero, none)                                            \
  X(buffer_load_sshort,      19, load,  2, sign, none)                                            \
  X(buffer_load_dword,       20, load,  4, none, none)                                            \
  X(buffer_load_dwordx2,     21, load,  8, none, none)                                            \
  X(buffer_load_dwordx3,     22, load, 12, none, none)                                            \
  X(buffer_load_dwordx4,     23, load, 16, none, none)                                            \
  X(buffer_store_byte,       24, store, 1, none, none)                                            \
  X(buffer_store_short,      26, store, 2, none, none)                                            \
  X(buffer_store_short_d16_hi, 27, store, 2, high_half, none)                                     \
  X(buffer_store_dword,      28, store, 4, none, none)                                            \
  X(buffer_store_dwordx2,    29, store, 8, none, none)                                            \
  X(buffer_store_dwordx3,    30, store, 12, none, none)                                           \
  X(buffer_store_dwordx4,    31, store, 16, none, none)                                           \
  X(buffer_load_short_d16,   36, load,  2, low_half, none)                                        \
  X(buffer_load_short_d16_hi, 37, load, 2, high_half, none)                                       \
  X(buffer_wbl2,             40, cache, 0, none, none)                                            \
  X(buffer_inv,              41, cache, 0, none, none)                                            \
  X(buffer_atomic_swap,      64, atomic, 4, none, swap)                                           \
  X(buffer_atomic_cmpswap,   65, atomic, 4, none, cmpswap)                                        \
  X(buffer_atomic_add,       66, atomic, 4, none, add)                                            \
  X(buffer_atomic_add_f32,   77, atomic, 4, none, add_f32)                                        \
  X(buffer_atomic_pk_add_f16, 78, atomic, 4, none, pk_add_f16)                                    \
  X(buffer_atomic_pk_add_bf16, 82, atomic, 4, none, pk_add_bf16)

// Segment-dependent prefix: "scratch_" or "global_" is added by the disassembler; scratch has no
// atomics. global_load_lds rows write LDS instead of registers.
#define FLAT_ROWS(X)                                                                              \
  X(load_ubyte,       16, load,  1, zero, none)                                                   \
  X(load_sbyte,       17, load,  1, sign, none)                                                   \
  X(load_ushort,      18, load,  2, zero, none)                                                   \
  X(load_sshort,      19, load,  2, sign, none)                                                   \
  X(load_dword,       20, load,  4, none, none)                                                   \
  X(load_dwordx2,     21, load,  8, none, none)                                                   \
  X(load_dwordx3,     22, load, 12, none, none)                                                   \
  X(load_dwordx4,     23, load, 16, none, none)                                                   \
  X(store_byte,       24, store, 1, none, none)                                                   \
  X(store_short,      26, store, 2, none, none)                                                   \
  X(store_short_d16_hi, 27, store, 2, high_half, none)                                            \
  X(store_dword,      28, store, 4, none, none)                                                   \
  X(store_dwordx2,    29, store, 8, none, none)                                                   \
  X(store_dwordx3,    30, store, 12, none, none)                                                  \
  X(store_dwordx4,    31, store, 16, none, none)                                                  \
  X(load_short_d16,   36, load,  2, low_half, none)                                               \
  X(load_short_d16_hi, 37, load, 2, high_half, none)                                              \
  X(load_lds_dword,   42, load,  4, none, none)                                                   \
  X(atomic_swap,      64, atomic, 4, none, swap)                                                  \
  X(atomic_cmpswap,   65, atomic, 4, none, cmpswap)                                               \
  X(atomic_add,       66, atomic, 4, none, add)                                                   \
  X(atomic_sub,       67, atomic, 4, none, sub)                                                   \
  X(atomic_smin,      68, atomic, 4, none, smin)                                                  \
  X(atomic_umin,      69, atomic, 4, none, umin)                                                  \
  X(atomic_smax,      70, atomic, 4, none, smax)                                                  \
  X(atomic_umax,      71, atomic, 4, none, umax)                                                  \
  X(atomic_and,       72, atomic, 4, none, bit_and)                                               \
  X(atomic_or,        73, atomic, 4, none, bit_or)                                                \
  X(atomic_xor,       74, atomic, 4, none, bit_xor)                                               \
  X(atomic_add_f32,   77, atomic, 4, none, add_f32)                                               \
  X(atomic_pk_add_f16, 78, atomic, 4, none, pk_add_f16)                                           \
  X(atomic_pk_add_bf16, 82, atomic, 4, none, pk_add_bf16)                                         \
  X(load_lds_dwordx3, 126, load, 12, none, none)                                                  \
  X(load_lds_dwordx4, 125, load, 16, none, none)
// clang-format on
