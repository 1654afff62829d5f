// VOP1, VOP2 and VOP3 rows whose value is one expression. Built twice, see lane_math.h.
#include "core/vector_tables.h"
#include "isa/rows_vector.h"

namespace emu::EMU_SIMD {
namespace {

// clang-format off
#define BODY32(name, opcode, dest, first, second, third, flags, ...)                               \
  struct name##_body {                                                                             \
    static constexpr int kSources = (first > 0) + (second > 0) + (third > 0);                      \
    static u32 value([[maybe_unused]] u32 s0, [[maybe_unused]] u32 s1, [[maybe_unused]] u32 s2,    \
                     [[maybe_unused]] u32 lane, [[maybe_unused]] bool clamp) {                     \
      return __VA_ARGS__;                                                                          \
    }                                                                                              \
  };
#define BODY64(name, opcode, dest, first, second, third, flags, ...)                               \
  struct name##_body {                                                                             \
    static constexpr int kSources = (first > 0) + (second > 0) + (third > 0);                      \
    static u64 value([[maybe_unused]] u64 s0, [[maybe_unused]] u64 s1, [[maybe_unused]] u64 s2,    \
                     [[maybe_unused]] u32 lane, [[maybe_unused]] bool clamp) {                     \
      return __VA_ARGS__;                                                                          \
    }                                                                                              \
  };
#define BODY_CARRY(name, opcode, dest, first, second, third, flags, ...)                           \
  struct name##_body {                                                                             \
    static constexpr int kSources = (first > 0) + (second > 0) + (third > 0);                      \
    static u64 value(u64 s0, u64 s1, [[maybe_unused]] u64 s2) { return __VA_ARGS__; }              \
  };
VOP1_ROWS(BODY32) VOP2_ROWS(BODY32) VOP3_ROWS(BODY32)
VOP1_WIDE_ROWS(BODY64) VOP3_WIDE_ROWS(BODY64)
VOP2_CARRY_ROWS(BODY_CARRY)

constexpr Class class_of(u32 flags) {
  return flags & kTrans ? Class::transcendental : Class::valu;
}
#define ROW(run, name, opcode, dest, first, second, third, flags)                                  \
  {#name, opcode, flags, dest, {first, second, third}, run<name##_body>, {}, {}, class_of(flags)},
#define ROW32(name, opcode, dest, first, second, third, flags, ...)                                \
  ROW(run_lanes, name, opcode, dest, first, second, third, flags)
#define ROW64(name, opcode, dest, first, second, third, flags, ...)                                \
  ROW(run_wide, name, opcode, dest, first, second, third, flags)
#define ROW_CARRY(name, opcode, dest, first, second, third, flags, ...)                            \
  ROW(run_carry, name, opcode, dest, first, second, third, flags)
const Row kVop1[] = {VOP1_ROWS(ROW32) VOP1_WIDE_ROWS(ROW64)};
const Row kVop2[] = {VOP2_ROWS(ROW32) VOP2_CARRY_ROWS(ROW_CARRY)};
const Row kVop3[] = {VOP3_ROWS(ROW32) VOP3_WIDE_ROWS(ROW64)};
// clang-format on

} // namespace

std::span<const Row> simple_vop1_rows() { return kVop1; }
std::span<const Row> simple_vop2_rows() { return kVop2; }
std::span<const Row> simple_vop3_rows() { return kVop3; }

} // namespace emu::EMU_SIMD
