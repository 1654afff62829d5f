// Executors of the scalar formats SOP1, SOP2, SOPC and SOPK, and scalar operand reads.
#include "isa/rows_scalar.h"

#include "core/wave.h"
#include "isa/tables.h"

namespace emu {

u32 read_scalar(const Wave& wave, u16 code, u64 constant) {
  if (code < 128)
    return wave.s[code];
  switch (code) {
  case kCodeVccz:
    return wave.vcc() == 0;
  case kCodeExecz:
    return wave.exec() == 0;
  case kCodeScc:
    return wave.scc;
  default:
    return static_cast<u32>(constant);
  }
}

u64 read_scalar64(const Wave& wave, u16 code, u64 constant) {
  if (code < 127)
    return wave.pair(code);
  return code >= kCodeVccz && code <= kCodeScc ? read_scalar(wave, code, 0) : constant;
}

namespace {

u32 reverse_bits(u32 value) {
  u32 result = 0;
  for (int bit = 0; bit < 32; ++bit)
    result |= (value >> bit & 1) << (31 - bit);
  return result;
}

u32 bit_field(u32 value, u32 offset, u32 width) {
  return width == 0 ? 0 : value >> offset & (width >= 32 ? ~0u : (1u << width) - 1);
}

u32 signed_bit_field(u32 value, u32 offset, u32 width) {
  if (width == 0)
    return 0;
  if (offset + width >= 32)
    return static_cast<u32>(static_cast<i32>(value) >> offset);
  return static_cast<u32>(static_cast<i32>(value << (32 - offset - width)) >> (32 - width));
}

// A 32-bit source is zero extended: bodies cast where they mean a signed number.
u64 source(const Wave& wave, const Instruction& i, int k) {
  int width = i.row->source_width[k];
  if (width == 0)
    return 0;
  return width == 2 ? read_scalar64(wave, i.source[k], i.constant[k])
                    : read_scalar(wave, i.source[k], i.constant[k]);
}

template <class Body> void run_scalar(Wave& wave, const Instruction& i) {
  u64 a = source(wave, i, 0), b = source(wave, i, 1);
  u64 old_exec = wave.exec(), exec = old_exec;
  int width = i.row->dest_width;
  u64 d = width == 0 || !(i.row->flags & kReadsDest) ? 0 : wave.s[i.dest];
  u64 result = Body::value(a, b, d, static_cast<i16>(i.immediate), wave.scc, exec);
  if (exec != old_exec)
    wave.set_pair(kExec, exec);
  if (width == 2)
    wave.set_pair(i.dest, result);
  else if (width == 1)
    wave.s[i.dest] = static_cast<u32>(result);
}

// clang-format off
#define BODY(name, opcode, dest, first, second, flags, ...)                                        \
  struct name##_body {                                                                             \
    static u64 value([[maybe_unused]] u64 a, [[maybe_unused]] u64 b, [[maybe_unused]] u64 d,       \
                     [[maybe_unused]] i32 k, [[maybe_unused]] bool& scc,                           \
                     [[maybe_unused]] u64& exec) {                                                 \
      __VA_ARGS__;                                                                                 \
    }                                                                                              \
  };
SOP1_ROWS(BODY) SOP2_ROWS(BODY) SOPC_ROWS(BODY) SOPK_ROWS(BODY)
#define ROW(name, opcode, dest, first, second, flags, ...)                                         \
  {#name, opcode, flags, dest, {first, second, 0}, run_scalar<name##_body>, {}, {}, Class::salu},
const Row kSop1[] = {SOP1_ROWS(ROW)};
const Row kSop2[] = {SOP2_ROWS(ROW)};
const Row kSopc[] = {SOPC_ROWS(ROW)};
const Row kSopk[] = {SOPK_ROWS(ROW)};
// clang-format on

} // namespace

std::span<const Row> sop1_rows() { return kSop1; }
std::span<const Row> sop2_rows() { return kSop2; }
std::span<const Row> sopc_rows() { return kSopc; }
std::span<const Row> sopk_rows() { return kSopk; }

} // namespace emu
