// Vector rows with an executor of their own: lane moves, division, 64-bit multiply-add, bitop3.
// Built twice, see lane_math.h.
#include "core/vector_tables.h"
#include "isa/rows_vector.h"

namespace emu::EMU_SIMD {
namespace {

void no_operation(Wave&, const Instruction&) {}

void read_first_lane(Wave& wave, const Instruction& i) {
  if (!is_vector(i.source[0])) {
    wave.s[i.dest] = read_scalar(wave, i.source[0], i.constant[0]);
    return;
  }
  u64 exec = wave.exec();
  wave.s[i.dest] = wave.lanes(i.source[0])[exec ? std::countr_zero(exec) : 0];
}

void read_lane(Wave& wave, const Instruction& i) {
  u32 lane = read_scalar(wave, i.source[1], i.constant[1]) & 63;
  wave.s[i.dest] = wave.lanes(i.source[0])[lane];
}

void write_lane(Wave& wave, const Instruction& i) {
  u32 lane = read_scalar(wave, i.source[1], i.constant[1]) & 63;
  wave.lanes(i.dest)[lane] = read_scalar(wave, i.source[0], i.constant[0]);
}

// Exchanges the odd rows of the destination with the even rows of the source.
template <int kRow> void swap_rows(Wave& wave, const Instruction& i) {
  if (wave.exec() != ~u64{0})
    fault(wave, i, Fault::unsupported, "row swap with inactive lanes is not specified");
  u32 *first = wave.lanes(i.dest), *second = wave.lanes(i.source[0]);
  for (int base = 0; base < kLanes; base += 2 * kRow)
    for (int lane = 0; lane < kRow; ++lane)
      std::swap(first[base + kRow + lane], second[base + lane]);
}

void divide_scale(Wave& wave, const Instruction& i) {
  alignas(64) Lanes buffer[3], result;
  u64 mask = wave.exec(), scaled = 0;
  const u32* a = fetch(wave, i, 0, buffer[0], mask);
  const u32* b = fetch(wave, i, 1, buffer[1], mask);
  const u32* c = fetch(wave, i, 2, buffer[2], mask);
  for (u32 lane = 0; lane < kLanes; ++lane) {
    bool post_scale = false;
    result[lane] = scale_for_division(a[lane], b[lane], c[lane], &post_scale);
    scaled |= static_cast<u64>(post_scale) << lane;
  }
  wave.set_pair(i.scalar_dest, scaled & mask);
  commit(wave, i, result, mask);
}

void divide_fmas(Wave& wave, const Instruction& i) {
  alignas(64) Lanes buffer[3], result;
  u64 mask = wave.exec(), scaled = wave.vcc();
  const u32* a = fetch(wave, i, 0, buffer[0], mask);
  const u32* b = fetch(wave, i, 1, buffer[1], mask);
  const u32* c = fetch(wave, i, 2, buffer[2], mask);
  for (u32 lane = 0; lane < kLanes; ++lane) {
    double value = static_cast<double>(f32(a[lane])) * f32(b[lane]) + f32(c[lane]);
    if (scaled >> lane & 1)
      value *= exponent_of(c[lane]) > 127 ? 0x1p64 : 0x1p-64;
    else
      value = __builtin_fmaf(f32(a[lane]), f32(b[lane]), f32(c[lane]));
    result[lane] = bits(static_cast<float>(value));
  }
  commit(wave, i, result, mask);
}

template <class Number> void multiply_add_64(Wave& wave, const Instruction& i) {
  alignas(64) u64 a[kLanes], b[kLanes], c[kLanes], result[kLanes];
  using Narrow = std::conditional_t<std::is_signed_v<Number>, i32, u32>;
  fetch_wide(wave, i, 0, a);
  fetch_wide(wave, i, 1, b);
  fetch_wide(wave, i, 2, c);
  u64 carry = 0, mask = wave.exec();
  for (int lane = 0; lane < kLanes; ++lane) {
    u64 product = static_cast<u64>(static_cast<Number>(static_cast<Narrow>(a[lane])) *
                                   static_cast<Number>(static_cast<Narrow>(b[lane])));
    result[lane] = product + c[lane];
    carry |= static_cast<u64>(result[lane] < product) << lane;
  }
  wave.set_pair(i.scalar_dest, carry & mask);
  write_wide(wave, i.dest, result, mask);
}

// The omod, abs and neg fields are an 8-bit truth table; src0 is bit 2 of its index.
void bit_operation(Wave& wave, const Instruction& i) {
  alignas(64) Lanes buffer[3], result;
  u64 mask = wave.exec();
  const u32* a = fetch(wave, i, 0, buffer[0], mask);
  const u32* b = fetch(wave, i, 1, buffer[1], mask);
  const u32* c = fetch(wave, i, 2, buffer[2], mask);
  u32 table = i.immediate;
  u32 term[8];
  for (int k = 0; k < 8; ++k)
    term[k] = table >> k & 1 ? ~0u : 0u;
  for (int lane = 0; lane < kLanes; ++lane) {
    u32 x = a[lane], y = b[lane], z = c[lane];
    result[lane] = (term[0] & ~x & ~y & ~z) | (term[1] & ~x & ~y & z) | (term[2] & ~x & y & ~z) |
                   (term[3] & ~x & y & z) | (term[4] & x & ~y & ~z) | (term[5] & x & ~y & z) |
                   (term[6] & x & y & ~z) | (term[7] & x & y & z);
  }
  commit(wave, i, result, mask);
}

// clang-format off
#define ROW(name, opcode, dest, first, second, third, flags, ...)                                  \
  {#name, opcode, flags, dest, {first, second, third}, __VA_ARGS__},
const Row kVop1[] = {VOP1_SPECIAL_ROWS(ROW)};
const Row kVop3[] = {VOP3_SPECIAL_ROWS(ROW)};
// clang-format on

} // namespace

std::span<const Row> special_vop1_rows() { return kVop1; }
std::span<const Row> special_vop3_rows() { return kVop3; }

} // namespace emu::EMU_SIMD
