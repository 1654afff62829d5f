// Puts the vector tables of one build together. Built twice, see lane_math.h.
#include <vector>

#include "core/vector_tables.h"

namespace emu::EMU_SIMD {

VectorRows vector_rows() {
  auto join = [](std::span<const Row> first, std::span<const Row> second) {
    std::vector<Row> rows(first.begin(), first.end());
    rows.insert(rows.end(), second.begin(), second.end());
    return rows;
  };
  static const std::vector<Row> vop1 = join(simple_vop1_rows(), special_vop1_rows());
  static const std::vector<Row> vop3 = join(simple_vop3_rows(), special_vop3_rows());
  return {vop1, simple_vop2_rows(), compare_rows(), vop3, packed_rows(), mfma_rows()};
}

} // namespace emu::EMU_SIMD
