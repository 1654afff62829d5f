// The parts a vector table is put together from, one function a source file. Built twice.
#pragma once

#include "core/vector_exec.h"

namespace emu::EMU_SIMD {

std::span<const Row> simple_vop1_rows();
std::span<const Row> simple_vop2_rows();
std::span<const Row> simple_vop3_rows();
std::span<const Row> special_vop1_rows();
std::span<const Row> special_vop3_rows();
std::span<const Row> compare_rows();
std::span<const Row> packed_rows();
std::span<const Row> mfma_rows();

} // namespace emu::EMU_SIMD
