// Matrix multiply-add. Exact products are summed in double in ascending k, C is added last, and the
// sum is rounded once: the hardware's order is not documented and kernels must not depend on it.
// Built twice, see lane_math.h.
#include "core/vector_tables.h"
#include "isa/rows_vector.h"

namespace emu::EMU_SIMD {
namespace {

template <MfmaShape::Type kType> float element(const Wave& wave, u16 reg, int lane, int k) {
  if constexpr (kType == MfmaShape::f32)
    return f32(wave.lanes(reg)[lane]);
  u32 half = wave.lanes(reg + k / 2)[lane] >> 16 * (k % 2) & 0xffff;
  return f32(kType == MfmaShape::bf16 ? half << 16 : float_from_half(half));
}

// Lane L holds row (or column) L % rows, k = per_lane * (L / rows) + 0..per_lane-1.
template <int kRows, int kDepth, MfmaShape::Type kType>
void load_matrix(const Wave& wave, u16 reg, double (*out)[kRows]) {
  constexpr int kPerLane = kDepth * kRows / kLanes;
  for (int e = 0; e < kPerLane; ++e)
    for (int lane = 0; lane < kLanes; ++lane)
      out[kPerLane * (lane / kRows) + e][lane % kRows] = element<kType>(wave, reg, lane, e);
}

// Row of the result that register r of a lane holds.
template <int kRows> int result_row(int lane, int r) {
  if constexpr (kRows == 16)
    return 4 * (lane / 16) + r;
  return 8 * (r / 4) + 4 * (lane / 32) + r % 4;
}

template <int kRows, int kDepth, MfmaShape::Type kType>
void multiply_add(Wave& wave, const Instruction& i) {
  constexpr int kResults = kRows * kRows / kLanes;
  alignas(64) double a[kDepth][kRows], b[kDepth][kRows], sum[kRows][kRows] = {};
  load_matrix<kRows, kDepth, kType>(wave, i.source[0], a);
  load_matrix<kRows, kDepth, kType>(wave, i.source[1], b);
  for (int row = 0; row < kRows; ++row)
    for (int k = 0; k < kDepth; ++k) {
      double factor = a[k][row]; // products are exact, so fusing would change nothing
      for (int column = 0; column < kRows; ++column)
        sum[row][column] += factor * b[k][column];
    }
  bool constant = !is_vector(i.source[2]);
  float broadcast = f32(static_cast<u32>(i.constant[2]));
  for (int r = 0; r < kResults; ++r) {
    const u32* c = constant ? nullptr : wave.lanes(i.source[2] + r);
    for (int lane = 0; lane < kLanes; ++lane)
      sum[result_row<kRows>(lane, r)][lane % kRows] += constant ? broadcast : f32(c[lane]);
  }
  for (int r = 0; r < kResults; ++r) { // all addends are read: results may overlap them
    u32* d = wave.lanes(i.dest + r);
    for (int lane = 0; lane < kLanes; ++lane)
      d[lane] = bits(static_cast<float>(sum[result_row<kRows>(lane, r)][lane % kRows]));
  }
}

// clang-format off
#define ROW(name, opcode, inputs, results, rows, depth, passes, type)                              \
  {#name, opcode, kInteger, results, {inputs, inputs, results},                                    \
   multiply_add<rows, depth, MfmaShape::type>, {}, {rows, depth, passes, MfmaShape::type},         \
   Class::mfma},
const Row kRows[] = {MFMA_ROWS(ROW)};
// clang-format on

} // namespace

std::span<const Row> mfma_rows() { return kRows; }

} // namespace emu::EMU_SIMD
