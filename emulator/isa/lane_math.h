// Arithmetic of one lane. Included by files that are built once for AVX2 and once for any CPU, so
// everything lives in the namespace EMU_SIMD of that build.
#pragma once

#include <algorithm>

#include "core/types.h"

namespace emu::EMU_SIMD {

inline float f32(u32 value) { return std::bit_cast<float>(value); }
inline u32 bits(float value) { return std::bit_cast<u32>(value); }
inline bool is_nan(u32 value) { return (value & 0x7fffffff) > 0x7f800000; }
inline u32 fused(float a, float b, float c) { return bits(__builtin_fmaf(a, b, c)); }
inline u32 flush(u32 value) { return (value & 0x7f800000) == 0 ? value & 0x80000000 : value; }
inline u32 quiet(u32 value) { return value | 0x00400000; }
inline i32 low24(u32 value) { return static_cast<i32>(value << 8) >> 8; }

inline u32 reverse_bits(u32 value) {
  value = (value >> 1 & 0x55555555) | (value & 0x55555555) << 1;
  value = (value >> 2 & 0x33333333) | (value & 0x33333333) << 2;
  value = (value >> 4 & 0x0f0f0f0f) | (value & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(value);
}

inline u32 unsigned_from_float(float value) {
  if (!(value > 0.0f))
    return 0;
  return value >= 4294967296.0f ? ~0u : static_cast<u32>(value);
}

inline u32 signed_from_float(float value) {
  if (value != value)
    return 0;
  if (value >= 2147483648.0f)
    return 0x7fffffff;
  return value <= -2147483648.0f ? 0x80000000u : static_cast<u32>(static_cast<i32>(value));
}

// Round to nearest even; NaN keeps its sign and payload top and becomes quiet.
inline u32 half_from_float(u32 value) {
  u32 sign = value >> 16 & 0x8000, magnitude = value & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return sign | 0x7e00 | (magnitude >> 13 & 0x1ff);
  if (magnitude >= 0x477ff000) // 65520 rounds to infinity
    return sign | 0x7c00;
  if (magnitude < 0x38800000) { // below the smallest normal: let the FPU round at 2^-24
    float scaled = std::bit_cast<float>(magnitude) * 16777216.0f;
    return sign | static_cast<u32>(std::nearbyint(scaled));
  }
  u32 rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return sign | ((rounded - 0x38000000) >> 13);
}

inline u32 half_toward_zero(u32 value) {
  u32 sign = value >> 16 & 0x8000, magnitude = value & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return sign | 0x7e00 | (magnitude >> 13 & 0x1ff);
  if (magnitude == 0x7f800000)
    return sign | 0x7c00;
  if (magnitude >= 0x47800000)
    return sign | 0x7bff;
  if (magnitude < 0x38800000)
    return sign | static_cast<u32>(std::bit_cast<float>(magnitude) * 16777216.0f);
  return sign | ((magnitude - 0x38000000) >> 13);
}

inline u32 float_from_half(u32 value) {
  u32 sign = (value & 0x8000) << 16, exponent = value >> 10 & 31, fraction = value & 0x3ff;
  if (exponent == 31)
    return sign | 0x7f800000 | fraction << 13 | (fraction ? 0x00400000 : 0);
  if (exponent == 0)
    return sign | std::bit_cast<u32>(static_cast<float>(fraction) * (1.0f / 16777216.0f));
  return sign | (exponent + 112) << 23 | fraction << 13;
}

inline float h(u32 value) { return f32(float_from_half(value)); }

struct Pair {
  float low, high;
};
inline Pair half_pair(u32 value) { return {h(value & 0xffff), h(value >> 16)}; }
// The order of the two sums is not documented; kernels must not depend on it.
inline u32 dot(Pair a, Pair b, float c) {
  return fused(a.high, b.high, f32(fused(a.low, b.low, c)));
}
inline Pair bf16_pair(u32 value) { return {f32(value << 16), f32(value & 0xffff0000)}; }
inline u32 half_add(u32 a, u32 b) { return half_from_float(bits(h(a) + h(b))); }
inline u32 half_multiply(u32 a, u32 b) { return half_from_float(bits(h(a) * h(b))); }

// One rounding: the sum is made odd where f32 cannot hold it, so that rounding it again is safe.
inline u32 half_fused(u32 a, u32 b, u32 c) {
  double exact = static_cast<double>(h(a)) * h(b) + h(c);
  float near = static_cast<float>(exact);
  u32 pattern = bits(near);
  if (static_cast<double>(near) != exact && exact == exact)
    pattern = (std::fabs(static_cast<double>(near)) > std::fabs(exact) ? pattern - 1 : pattern) | 1;
  return half_from_float(pattern);
}

inline u32 bf16_from_float(u32 value) {
  u32 rounded = (value + 0x7fff + (value >> 16 & 1)) >> 16;
  return is_nan(value) ? (value >> 16) | 0x40 : rounded;
}

// A NaN operand yields the other one; +0 is above -0.
inline u32 maximum(u32 a, u32 b) {
  u32 larger = f32(a) > f32(b) ? a : b;
  u32 result = f32(a) == f32(b) ? a & b : larger;
  result = is_nan(a) ? b : result;
  return is_nan(b) ? a : result;
}

inline u32 minimum(u32 a, u32 b) {
  u32 smaller = f32(a) < f32(b) ? a : b;
  u32 result = f32(a) == f32(b) ? a | b : smaller;
  result = is_nan(a) ? b : result;
  return is_nan(b) ? a : result;
}

inline u32 half_maximum(u32 a, u32 b) {
  return half_from_float(maximum(float_from_half(a), float_from_half(b)));
}

inline u32 half_minimum(u32 a, u32 b) {
  return half_from_float(minimum(float_from_half(a), float_from_half(b)));
}

inline u32 median(u32 a, u32 b, u32 c) {
  if (is_nan(a) || is_nan(b) || is_nan(c))
    return minimum(minimum(a, b), c);
  return maximum(minimum(a, b), minimum(maximum(a, b), c));
}

inline u32 signed_median(i32 a, i32 b, i32 c) {
  return static_cast<u32>(std::max(std::min(a, b), std::min(std::max(a, b), c)));
}

// The approximate unit does not handle denormals: they are zero on both sides. Elsewhere the
// hardware is within one unit in the last place; the nearest value is given here.
inline u32 approximate_exp2(u32 value) {
  return flush(bits(static_cast<float>(std::exp2(static_cast<double>(f32(flush(value)))))));
}

inline u32 approximate_log2(u32 value) {
  if ((value & 0x80000000) && (flush(value) & 0x7fffffff) && !is_nan(value))
    return 0x7fc00000;
  return bits(static_cast<float>(
      std::log2(std::fabs(static_cast<double>(f32(flush(value)))) + (is_nan(value) ? NAN : 0.0))));
}

inline u32 approximate_reciprocal(u32 value) {
  return flush(bits(static_cast<float>(1.0 / static_cast<double>(f32(flush(value))))));
}

inline u32 approximate_sqrt(u32 value) {
  return bits(static_cast<float>(std::sqrt(static_cast<double>(f32(flush(value))))));
}

inline u32 approximate_rsqrt(u32 value) {
  return bits(static_cast<float>(1.0 / std::sqrt(static_cast<double>(f32(flush(value))))));
}

inline u32 fraction(float value) {
  float result = value - std::floor(value);
  return bits(result >= 1.0f ? 0x1.fffffep-1f : result);
}

inline u32 scale_by_power(u32 value, i32 power) {
  power = std::clamp(power, -400, 400);
  return bits(static_cast<float>(std::ldexp(static_cast<double>(f32(value)), power)));
}

inline u32 signed_field(u32 value, u32 offset, u32 width) {
  if (width == 0)
    return 0;
  i32 shifted = static_cast<i32>(value) >> offset;
  if (offset + width >= 32)
    return static_cast<u32>(shifted);
  return static_cast<u32>(static_cast<i32>(static_cast<u32>(shifted) << (32 - width)) >>
                          (32 - width));
}

inline u32 permute_bytes(u32 high, u32 low, u32 selectors) {
  u64 bytes = static_cast<u64>(high) << 32 | low;
  u32 result = 0;
  for (int k = 0; k < 4; ++k) {
    u32 selector = selectors >> 8 * k & 255, byte = 0xff;
    if (selector < 8)
      byte = bytes >> 8 * selector & 255;
    else if (selector < 12) // the sign of byte 1, 3, 5 or 7
      byte = bytes >> (16 * (selector - 8) + 15) & 1 ? 0xff : 0;
    else if (selector == 12)
      byte = 0;
    result |= byte << 8 * k;
  }
  return result;
}

inline u32 add_signed(u32 a, u32 b, bool clamp) {
  i64 sum = static_cast<i64>(static_cast<i32>(a)) + static_cast<i32>(b);
  return static_cast<u32>(clamp ? std::clamp<i64>(sum, INT32_MIN, INT32_MAX) : sum);
}

inline u32 subtract_signed(u32 a, u32 b, bool clamp) {
  i64 difference = static_cast<i64>(static_cast<i32>(a)) - static_cast<i32>(b);
  return static_cast<u32>(clamp ? std::clamp<i64>(difference, INT32_MIN, INT32_MAX) : difference);
}

// Mask of the lanes below `lane` among the 32 lanes that start at `first`.
inline u32 below_lane(u32 lane, u32 first) {
  if (lane <= first)
    return 0;
  return lane >= first + 32 ? ~0u : (1u << (lane - first)) - 1;
}

inline bool in_float_class(u32 value, u32 classes) {
  bool negative = value >> 31;
  u32 magnitude = value & 0x7fffffff, kind;
  if (magnitude > 0x7f800000)
    kind = magnitude & 0x00400000 ? 1 : 0;
  else if (magnitude == 0x7f800000)
    kind = negative ? 2 : 9;
  else if (magnitude >= 0x00800000)
    kind = negative ? 3 : 8;
  else if (magnitude != 0)
    kind = negative ? 4 : 7;
  else
    kind = negative ? 5 : 6;
  return classes >> kind & 1;
}

// Division: v_div_scale, the Newton steps in v_fma, v_div_fmas and v_div_fixup belong together.
inline int exponent_of(u32 value) { return static_cast<int>(value >> 23 & 255); }
inline bool is_denormal(u32 value) { return (value & 0x7f800000) == 0 && (value & 0x7fffff) != 0; }

// s1 is the denominator, s2 the numerator, s0 the one of them to scale.
inline u32 scale_for_division(u32 s0, u32 s1, u32 s2, bool* post_scale) {
  *post_scale = false;
  if ((s1 & 0x7fffffff) == 0 || (s2 & 0x7fffffff) == 0)
    return 0x7fc00000;
  u32 up = scale_by_power(s0, 64);
  if (exponent_of(s2) - exponent_of(s1) >= 96) { // quotient near overflow
    *post_scale = true;
    return s0 == s1 ? up : s0;
  }
  if (is_denormal(s1))
    return up;
  bool tiny_reciprocal = exponent_of(s1) >= 253;
  bool tiny_quotient = exponent_of(s2) - exponent_of(s1) <= -126;
  if (tiny_reciprocal && tiny_quotient) {
    *post_scale = true;
    return s0 == s1 ? scale_by_power(s0, -64) : s0;
  }
  if (tiny_reciprocal)
    return scale_by_power(s0, -64);
  if (tiny_quotient) {
    *post_scale = true;
    return s0 == s2 ? up : s0;
  }
  return exponent_of(s2) <= 23 ? up : s0;
}

// s0 is the quotient so far, s1 the denominator, s2 the numerator.
inline u32 divide_fixup(u32 s0, u32 s1, u32 s2) {
  u32 sign = (s1 ^ s2) & 0x80000000;
  u32 denominator = s1 & 0x7fffffff, numerator = s2 & 0x7fffffff;
  if (is_nan(s2))
    return quiet(s2);
  if (is_nan(s1))
    return quiet(s1);
  if (denominator == 0 && numerator == 0)
    return 0xffc00000;
  if (denominator == 0x7f800000 && numerator == 0x7f800000)
    return 0xffc00000;
  if (denominator == 0 || numerator == 0x7f800000)
    return sign | 0x7f800000;
  if (denominator == 0x7f800000 || numerator == 0)
    return sign;
  if (exponent_of(s2) - exponent_of(s1) < -150)
    return sign;
  if (is_nan(s0)) // the steps overflowed
    return sign | 0x7f800000;
  return sign | (s0 & 0x7fffffff);
}

} // namespace emu::EMU_SIMD
