// Operand fetch, lane loops and result commit of the vector formats. Built twice, see lane_math.h.
#pragma once

#include <cstring>

#include "core/wave.h"
#include "isa/lane_math.h"
#include "isa/tables.h"

namespace emu::EMU_SIMD {

inline void copy_lanes(u32* to, const u32* from) { std::memcpy(to, from, sizeof(Lanes)); }

inline u32 select_part(u32 value, u32 select, bool sign_extend) {
  if (select < 4)
    return sign_extend ? static_cast<u32>(static_cast<i32>(static_cast<i8>(value >> 8 * select)))
                       : value >> 8 * select & 255;
  if (select < 6)
    return sign_extend
               ? static_cast<u32>(static_cast<i32>(static_cast<i16>(value >> 16 * (select - 4))))
               : value >> 16 * (select - 4) & 0xffff;
  return value;
}

// Reads through the DPP permutation; removes lanes from `mask` that keep their destination.
inline void permute_lanes(const u32* from, u32 control, u32* to, u64 exec, u64& mask) {
  bool zero_fill = control >> 19 & 1;
  u32 bank_mask = control >> 24 & 15, row_mask = control >> 28;
  for (u32 lane = 0; lane < kLanes; ++lane) {
    bool valid = false;
    u32 other = dpp_source_lane(control >> 8 & 0x1ff, lane, &valid);
    valid = valid && (exec >> other & 1);
    to[lane] = valid ? from[other] : 0;
    bool selected = (row_mask >> lane / 16 & 1) && (bank_mask >> lane % 16 / 4 & 1);
    if (!selected || (!valid && !zero_fill))
      mask &= ~(u64{1} << lane);
  }
}

inline void apply_modifiers(u32* lanes, bool absolute, bool negative, u32 sign) {
  u32 keep = absolute ? ~sign : ~0u, flip = negative ? sign : 0;
  for (int lane = 0; lane < kLanes; ++lane)
    lanes[lane] = (lanes[lane] & keep) ^ flip;
}

// The lanes of source k; points into the register file where nothing has to be changed.
inline const u32* fetch(const Wave& wave, const Instruction& i, int k, u32* buffer, u64& mask) {
  u16 code = i.source[k];
  u32 flags = i.row->flags;
  const u32* lanes = buffer;
  if (is_vector(code)) {
    lanes = wave.lanes(code);
  } else if ((flags & kLaneMask) && i.row->source_width[k] == 2) {
    u64 bits = read_scalar64(wave, code, i.constant[k]);
    for (int lane = 0; lane < kLanes; ++lane)
      buffer[lane] = bits >> lane & 1;
    return buffer;
  } else {
    u32 value = read_scalar(wave, code, i.constant[k]);
    for (int lane = 0; lane < kLanes; ++lane)
      buffer[lane] = value;
  }
  bool absolute = i.abs >> k & 1, negative = i.neg >> k & 1;
  if (i.modifier == Modifier::dpp && k == 0) {
    permute_lanes(lanes, i.control, buffer, wave.exec(), mask);
    lanes = buffer;
  } else if (i.modifier == Modifier::sdwa && k < 2) {
    u32 select = i.control >> (k ? 24 : 16) & 7;
    bool extend = i.control >> (k ? 27 : 19) & 1;
    for (int lane = 0; lane < kLanes; ++lane)
      buffer[lane] = select_part(lanes[lane], select, extend);
    lanes = buffer;
  }
  if ((flags & kHalf) && (i.op_sel >> k & 1)) {
    for (int lane = 0; lane < kLanes; ++lane)
      buffer[lane] = lanes[lane] >> 16;
    lanes = buffer;
  }
  bool flushes = (flags & kFloat) && wave.mode.flush_f32;
  if (!absolute && !negative && !flushes)
    return lanes;
  if (lanes != buffer)
    copy_lanes(buffer, lanes);
  if (absolute || negative)
    apply_modifiers(buffer, absolute, negative, flags & kHalf ? 0x8000 : 0x80000000);
  if (flushes)
    for (int lane = 0; lane < kLanes; ++lane)
      buffer[lane] = flush(buffer[lane]);
  return buffer;
}

inline void write_lanes(u32* to, const u32* from, u64 mask) {
  if (mask == ~u64{0}) {
    copy_lanes(to, from);
    return;
  }
  for (int lane = 0; lane < kLanes; ++lane)
    to[lane] = mask >> lane & 1 ? from[lane] : to[lane];
}

inline float clamp_unit(float value, bool nan_to_zero) {
  if (value != value)
    return nan_to_zero ? 0.0f : value;
  return value < 0.0f ? 0.0f : value > 1.0f ? 1.0f : value;
}

// Finishes 32-bit results in place (clamp, flush, SDWA placement) and writes the lanes of `mask`.
inline void commit(Wave& wave, const Instruction& i, u32* result, u64 mask) {
  u32 flags = i.row->flags;
  if (i.clamp && (flags & kFloat))
    for (int lane = 0; lane < kLanes; ++lane)
      result[lane] = bits(clamp_unit(f32(result[lane]), wave.mode.dx10_clamp));
  if ((flags & kFloat) && wave.mode.flush_f32)
    for (int lane = 0; lane < kLanes; ++lane)
      result[lane] = flush(result[lane]);
  u32* to = wave.lanes(i.dest);
  if (i.modifier == Modifier::sdwa && (i.control >> 8 & 7) != 6) {
    u32 select = i.control >> 8 & 7, unused = i.control >> 11 & 3;
    u32 shift = select < 4 ? 8 * select : 16 * (select - 4);
    u32 part = select < 4 ? 0xff : 0xffff;
    for (int lane = 0; lane < kLanes; ++lane) {
      u32 value = (result[lane] & part) << shift;
      if (unused == 2)
        value |= to[lane] & ~(part << shift);
      else if (unused == 1 && (result[lane] & (part + 1) / 2))
        value |= ~((part << shift) | ((1u << shift) - 1));
      result[lane] = value;
    }
  }
  write_lanes(to, result, mask);
}

template <class Body> void run_lanes(Wave& wave, const Instruction& i) {
  alignas(64) Lanes buffer[3], result;
  u64 mask = wave.exec();
  const u32* source[3] = {buffer[0], buffer[0], buffer[0]};
  for (int k = 0; k < Body::kSources; ++k)
    source[k] = fetch(wave, i, k, buffer[k], mask);
  const u32 *a = source[0], *b = source[1], *c = source[2];
  bool clamp = i.clamp;
  for (u32 lane = 0; lane < kLanes; ++lane)
    result[lane] = Body::value(a[lane], Body::kSources > 1 ? b[lane] : 0,
                               Body::kSources > 2 ? c[lane] : 0, lane, clamp);
  commit(wave, i, result, mask);
}

// Lanes of a source of one or two dwords as 64-bit numbers.
inline void fetch_wide(const Wave& wave, const Instruction& i, int k, u64* out) {
  u16 code = i.source[k];
  bool wide = i.row->source_width[k] == 2;
  if (is_vector(code)) {
    const u32 *low = wave.lanes(code), *high = wide ? wave.lanes(code + 1) : nullptr;
    for (int lane = 0; lane < kLanes; ++lane)
      out[lane] = low[lane] | (wide ? static_cast<u64>(high[lane]) << 32 : 0);
  } else {
    u64 value =
        wide ? read_scalar64(wave, code, i.constant[k]) : read_scalar(wave, code, i.constant[k]);
    for (int lane = 0; lane < kLanes; ++lane)
      out[lane] = value;
  }
}

inline void write_wide(Wave& wave, u16 dest, const u64* result, u64 mask) {
  u32 *low = wave.lanes(dest), *high = wave.lanes(dest + 1);
  for (int lane = 0; lane < kLanes; ++lane)
    if (mask >> lane & 1) {
      low[lane] = static_cast<u32>(result[lane]);
      high[lane] = static_cast<u32>(result[lane] >> 32);
    }
}

template <class Body> void run_wide(Wave& wave, const Instruction& i) {
  alignas(64) u64 source[3][kLanes] = {}, result[kLanes];
  for (int k = 0; k < Body::kSources; ++k)
    fetch_wide(wave, i, k, source[k]);
  for (u32 lane = 0; lane < kLanes; ++lane)
    result[lane] = Body::value(source[0][lane], source[1][lane], source[2][lane], lane, i.clamp);
  write_wide(wave, i.dest, result, wave.exec());
}

inline u64 pack_mask(const u32* flags) {
  u64 mask = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    mask |= static_cast<u64>(flags[lane] & 1) << lane;
  return mask;
}

template <class Body> void run_compare(Wave& wave, const Instruction& i) {
  u64 mask = wave.exec(), unused = mask;
  alignas(64) Lanes result;
  if constexpr (Body::kWide) {
    alignas(64) u64 a[kLanes], b[kLanes];
    fetch_wide(wave, i, 0, a);
    fetch_wide(wave, i, 1, b);
    for (u32 lane = 0; lane < kLanes; ++lane)
      result[lane] = Body::value(a[lane], b[lane]);
  } else {
    alignas(64) Lanes buffer[2];
    const u32* a = fetch(wave, i, 0, buffer[0], unused);
    const u32* b = fetch(wave, i, 1, buffer[1], unused);
    for (u32 lane = 0; lane < kLanes; ++lane)
      result[lane] = Body::value(a[lane], b[lane]);
  }
  wave.set_pair(i.scalar_dest, pack_mask(result) & mask);
}

template <class Body> void run_carry(Wave& wave, const Instruction& i) {
  alignas(64) Lanes buffer[3], result, carry;
  u64 mask = wave.exec();
  const u32* a = fetch(wave, i, 0, buffer[0], mask);
  const u32* b = fetch(wave, i, 1, buffer[1], mask);
  const u32* c = Body::kSources > 2 ? fetch(wave, i, 2, buffer[2], mask) : a;
  for (u32 lane = 0; lane < kLanes; ++lane) {
    u64 value = Body::value(a[lane], b[lane], c[lane]);
    result[lane] = static_cast<u32>(value);
    carry[lane] = value >> 32 & 1;
  }
  wave.set_pair(i.scalar_dest, pack_mask(carry) & mask);
  write_lanes(wave.lanes(i.dest), result, mask);
}

} // namespace emu::EMU_SIMD
