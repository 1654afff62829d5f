// Packed f32 operations and accumulator moves (VOP3P). Built twice, see lane_math.h.
#include <algorithm>

#include "core/vector_tables.h"
#include "isa/rows_vector.h"

namespace emu::EMU_SIMD {
namespace {

// One half of source k for all lanes: register `code + high` of a pair, or a scalar.
const u32* fetch_half(const Wave& wave, const Instruction& i, int k, bool high, bool negative,
                      u32* buffer) {
  u16 code = i.source[k];
  if (is_vector(code)) {
    const u32* lanes = wave.lanes(code + high);
    if (!negative && !wave.mode.flush_f32)
      return lanes;
    copy_lanes(buffer, lanes);
  } else {
    u32 value = code < 127 ? wave.s[code + high] : read_scalar(wave, code, i.constant[k]);
    for (int lane = 0; lane < kLanes; ++lane)
      buffer[lane] = value;
  }
  if (negative)
    apply_modifiers(buffer, false, true, 0x80000000);
  if (wave.mode.flush_f32 && (i.row->flags & kFloat))
    for (int lane = 0; lane < kLanes; ++lane)
      buffer[lane] = flush(buffer[lane]);
  return buffer;
}

struct fused_op {
  static u32 value(u32 a, u32 b, u32 c) { return fused(f32(a), f32(b), f32(c)); }
};
struct multiply_op {
  static u32 value(u32 a, u32 b, u32) { return bits(f32(a) * f32(b)); }
};
struct add_op {
  static u32 value(u32 a, u32 b, u32) { return bits(f32(a) + f32(b)); }
};

template <int kSources, class Op> void packed_f32(Wave& wave, const Instruction& i) {
  alignas(64) Lanes buffer[3], result[2];
  for (int half = 0; half < 2; ++half) {
    u8 select = half ? i.op_sel_high : i.op_sel, negate = half ? i.neg_high : i.neg;
    const u32* source[3] = {buffer[0], buffer[0], buffer[0]};
    for (int k = 0; k < kSources; ++k)
      source[k] = fetch_half(wave, i, k, select >> k & 1, negate >> k & 1, buffer[k]);
    for (int lane = 0; lane < kLanes; ++lane)
      result[half][lane] =
          Op::value(source[0][lane], source[1][lane], kSources > 2 ? source[2][lane] : 0);
    if (i.clamp)
      for (int lane = 0; lane < kLanes; ++lane)
        result[half][lane] = bits(clamp_unit(f32(result[half][lane]), wave.mode.dx10_clamp));
    if (wave.mode.flush_f32)
      for (int lane = 0; lane < kLanes; ++lane)
        result[half][lane] = flush(result[half][lane]);
  }
  for (int half = 0; half < 2; ++half)
    write_lanes(wave.lanes(i.dest + half), result[half], wave.exec());
}

// Operations on one 16-bit half; the result's upper bits are ignored.
struct pack_mad {
  static u32 value(u32 a, u32 b, u32 c) { return a * b + c; }
};
struct pack_mul {
  static u32 value(u32 a, u32 b, u32) { return a * b; }
};
struct pack_add {
  static u32 value(u32 a, u32 b, u32) { return a + b; }
};
struct pack_sub {
  static u32 value(u32 a, u32 b, u32) { return a - b; }
};
struct pack_shl {
  static u32 value(u32 a, u32 b, u32) { return b << (a & 15); }
};
struct pack_shr {
  static u32 value(u32 a, u32 b, u32) { return b >> (a & 15); }
};
struct pack_sar {
  static u32 value(u32 a, u32 b, u32) { return static_cast<u32>(static_cast<i16>(b) >> (a & 15)); }
};
struct pack_imax {
  static u32 value(u32 a, u32 b, u32) { return static_cast<i16>(a) > static_cast<i16>(b) ? a : b; }
};
struct pack_imin {
  static u32 value(u32 a, u32 b, u32) { return static_cast<i16>(a) < static_cast<i16>(b) ? a : b; }
};
struct pack_umax {
  static u32 value(u32 a, u32 b, u32) { return std::max(a, b); }
};
struct pack_umin {
  static u32 value(u32 a, u32 b, u32) { return std::min(a, b); }
};
struct pack_fma {
  static u32 value(u32 a, u32 b, u32 c) { return half_fused(a, b, c); }
};
struct pack_fadd {
  static u32 value(u32 a, u32 b, u32) { return half_add(a, b); }
};
struct pack_fmul {
  static u32 value(u32 a, u32 b, u32) { return half_multiply(a, b); }
};
struct pack_fmin {
  static u32 value(u32 a, u32 b, u32) { return half_minimum(a, b); }
};
struct pack_fmax {
  static u32 value(u32 a, u32 b, u32) { return half_maximum(a, b); }
};

// Two 16-bit operations: each result half picks a half of every source.
template <int kSources, class Op> void packed_16(Wave& wave, const Instruction& i) {
  alignas(64) Lanes buffer[3], result = {};
  const u32* source[3] = {buffer[0], buffer[0], buffer[0]};
  u64 mask = wave.exec();
  for (int k = 0; k < kSources; ++k) {
    u16 code = i.source[k];
    source[k] = is_vector(code) ? wave.lanes(code) : buffer[k];
    if (!is_vector(code))
      std::fill(buffer[k], buffer[k] + kLanes, read_scalar(wave, code, i.constant[k]));
  }
  for (int half = 0; half < 2; ++half) {
    u8 select = half ? i.op_sel_high : i.op_sel, negate = half ? i.neg_high : i.neg;
    u32 shift[3], flip[3];
    for (int k = 0; k < 3; ++k) {
      shift[k] = select >> k & 1 ? 16 : 0;
      flip[k] = negate >> k & 1 ? 0x8000 : 0;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      u32 a = (source[0][lane] >> shift[0] & 0xffff) ^ flip[0];
      u32 b = (source[1][lane] >> shift[1] & 0xffff) ^ flip[1];
      u32 c = kSources > 2 ? (source[2][lane] >> shift[2] & 0xffff) ^ flip[2] : 0;
      result[lane] |= (Op::value(a, b, c) & 0xffff) << 16 * half;
    }
  }
  write_lanes(wave.lanes(i.dest), result, mask);
}

void packed_move(Wave& wave, const Instruction& i) {
  alignas(64) Lanes buffer[2], low, high;
  copy_lanes(low, fetch_half(wave, i, 0, i.op_sel & 1, false, buffer[0]));
  copy_lanes(high, fetch_half(wave, i, 1, i.op_sel >> 1 & 1, false, buffer[1]));
  write_lanes(wave.lanes(i.dest), low, wave.exec());
  write_lanes(wave.lanes(i.dest + 1), high, wave.exec());
}

void move_accumulator(Wave& wave, const Instruction& i) {
  alignas(64) Lanes buffer;
  u64 mask = wave.exec();
  const u32* lanes = fetch(wave, i, 0, buffer, mask);
  write_lanes(wave.lanes(i.dest), lanes, mask);
}

// clang-format off
constexpr Class class_of(u16 opcode) {
  return opcode >= 48 && opcode < 80 ? Class::packed : Class::valu;
}
#define ROW(name, opcode, dest, first, second, third, flags, ...)                                  \
  {#name, opcode, flags, dest, {first, second, third}, __VA_ARGS__, {}, {}, class_of(opcode)},
const Row kRows[] = {VOP3P_ROWS(ROW)};
// clang-format on

} // namespace

std::span<const Row> packed_rows() { return kRows; }

} // namespace emu::EMU_SIMD
