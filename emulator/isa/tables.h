// Where the decoder finds the rows of each format. Vector rows exist twice, built for AVX2 and for
// any CPU; both give the same bits.
#pragma once

#include <span>

#include "isa/instruction.h"

namespace emu {

std::span<const Row> sop1_rows();
std::span<const Row> sop2_rows();
std::span<const Row> sopc_rows();
std::span<const Row> sopk_rows();
std::span<const Row> sopp_rows();
std::span<const Row> smem_rows();
std::span<const Row> ds_rows();
std::span<const Row> mubuf_rows();
std::span<const Row> flat_rows();

struct VectorRows {
  std::span<const Row> vop1, vop2, vopc, vop3, vop3p, mfma;
};

namespace plain {
VectorRows vector_rows();
}
namespace avx2 {
VectorRows vector_rows();
}
const VectorRows& vector_rows(); // the set this CPU and the knobs ask for

// Set when a vector row has to be run with operands its executor reads through the decoder's maps.
u32 dpp_source_lane(u32 control, u32 lane, bool* valid);

} // namespace emu
