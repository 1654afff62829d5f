// Vector compares: VOPC and the same opcodes in VOP3. Built twice, see lane_math.h.
#include "core/vector_tables.h"
#include "isa/rows_vector.h"

namespace emu::EMU_SIMD {
namespace {

// clang-format off
#define BODY(name, opcode, width, flags, ...)                                                      \
  struct name##_body {                                                                             \
    static constexpr bool kWide = width == 2;                                                      \
    using Source = std::conditional_t<kWide, u64, u32>;                                            \
    static u32 value(Source s0, Source s1) { return __VA_ARGS__; }                                 \
  };
VOPC_ROWS(BODY)
#define ROW(name, opcode, width, flags, ...)                                                       \
  {#name, opcode, flags, 0, {width, opcode == 16 ? 1 : width, 0}, run_compare<name##_body>},
const Row kRows[] = {VOPC_ROWS(ROW)};
// clang-format on

} // namespace

std::span<const Row> compare_rows() { return kRows; }

} // namespace emu::EMU_SIMD
