// Arithmetic of the atomic operations on one dword.
#include "core/memory_exec.h"

#define EMU_SIMD host
#include "isa/lane_math.h"

namespace emu {
namespace {

u32 add_halves(u32 memory, u32 operand) {
  u32 result = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    float sum = host::f32(host::float_from_half(memory >> shift & 0xffff)) +
                host::f32(host::float_from_half(operand >> shift & 0xffff));
    result |= host::half_from_float(host::bits(sum)) << shift;
  }
  return result;
}

u32 add_bf16(u32 memory, u32 operand) {
  u32 low = host::bits(host::f32(memory << 16) + host::f32(operand << 16));
  u32 high = host::bits(host::f32(memory & 0xffff0000u) + host::f32(operand & 0xffff0000u));
  return host::bf16_from_float(low) | host::bf16_from_float(high) << 16;
}

} // namespace

u32 combine(AtomicKind kind, u32 memory, u32 operand, u32 compare) {
  i32 a = static_cast<i32>(memory), b = static_cast<i32>(operand);
  switch (kind) {
  case AtomicKind::add:
    return memory + operand;
  case AtomicKind::sub:
    return memory - operand;
  case AtomicKind::smin:
    return static_cast<u32>(std::min(a, b));
  case AtomicKind::smax:
    return static_cast<u32>(std::max(a, b));
  case AtomicKind::umin:
    return std::min(memory, operand);
  case AtomicKind::umax:
    return std::max(memory, operand);
  case AtomicKind::bit_and:
    return memory & operand;
  case AtomicKind::bit_or:
    return memory | operand;
  case AtomicKind::bit_xor:
    return memory ^ operand;
  case AtomicKind::swap:
    return operand;
  case AtomicKind::cmpswap:
    return memory == compare ? operand : memory;
  case AtomicKind::add_f32:
    return host::bits(host::f32(memory) + host::f32(operand));
  case AtomicKind::pk_add_f16:
    return add_halves(memory, operand);
  case AtomicKind::pk_add_bf16:
    return add_bf16(memory, operand);
  case AtomicKind::none:
    break;
  }
  return memory;
}

} // namespace emu
