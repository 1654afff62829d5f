#include "isa/decode.h"

#include <array>

#include "core/knobs.h"
#include "isa/decoder.h"
#include "isa/tables.h"

namespace emu {

const VectorRows& vector_rows() {
  static const VectorRows plain_rows = plain::vector_rows();
  static const VectorRows avx2_rows = avx2::vector_rows();
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has_avx2 && !knobs().plain ? avx2_rows : plain_rows;
}

const Row* find_row(std::span<const Row> rows, u32 opcode) {
  for (const Row& row : rows)
    if (row.opcode == opcode)
      return &row;
  return nullptr;
}

bool Decoder::fail(const std::string& text) {
  if (problem.empty())
    problem = text;
  return false;
}

// One more dword after the first `at` words.
bool Decoder::extra_word(u32* out) {
  size_t at = i.size / 4;
  if (at >= available || at >= 3)
    return fail("the instruction is cut off");
  *out = i.words[at] = words[at];
  i.size += 4;
  return true;
}

bool Decoder::set_source(int k, u32 code, u16 vector_bank) {
  i.source[k] = static_cast<u16>(code >= 256 ? code - 256 + vector_bank : code);
  std::string_view name = i.row->name;
  if (k == 0 && code < 256 &&
      (name == "v_readlane_b32" || name == "v_accvgpr_read_b32" || name.ends_with("_swap_b32")))
    return fail("the source is no vector register");
  u32 flags = i.row->flags;
  int width = i.row->source_width[k];
  if (code < 128 || code >= 256 || (code >= kCodeVccz && code <= kCodeScc))
    return true;
  if (code <= 192) {
    i.constant[k] = code - 128;
  } else if (code <= 208) {
    i.constant[k] = static_cast<u64>(static_cast<i64>(192) - static_cast<i64>(code));
  } else if (code >= 240 && code <= 248) {
    static const u32 floats[] = {0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000,
                                 0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983};
    static const u16 halves[] = {0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000,
                                 0xc000, 0x4400, 0xc400, 0x3118};
    i.constant[k] = flags & kHalf ? halves[code - 240] : floats[code - 240];
  } else if (code == kCodeLiteral) {
    u32 literal = 0;
    if (i.format == Format::vop3 || i.format == Format::vop3p || i.format == Format::mfma)
      return fail("a literal in a format that has none");
    if (!extra_word(&literal))
      return false;
    bool is_signed = width == 2 && std::string_view(i.row->name).ends_with("i64");
    i.constant[k] =
        is_signed ? static_cast<u64>(static_cast<i64>(static_cast<i32>(literal))) : literal;
  } else {
    return fail("operand code " + std::to_string(code));
  }
  return true;
}

void Decoder::list(u16 code, int count, bool write) {
  if (code == kNoRegister)
    return;
  if (is_register(code))
    i.add_operand(code, count, write);
  else if (code == kCodeVccz)
    i.add_operand(kVcc, 2, false);
  else if (code == kCodeExecz)
    i.add_operand(kExec, 2, false);
  else if (code == kCodeScc)
    i.add_operand(kScc, 1, false);
}

bool Decoder::finish_operands() {
  const Row& row = *i.row;
  list(i.dest, row.dest_width, true);
  list(i.scalar_dest, 2, true);
  for (int k = 0; k < 3; ++k)
    list(i.source[k], std::max<int>(1, row.source_width[k]), false);
  if ((row.flags & kReadsDest) && i.source[2] == kNoRegister)
    list(i.dest, row.dest_width, false);
  if (row.flags & kReadsScc)
    i.add_operand(kScc, 1, false);
  if (row.flags & kSetsScc)
    i.add_operand(kScc, 1, true);
  for (int k = 0; k < i.num_operands; ++k) {
    const Operand& o = i.operands[k];
    u32 end = o.reg + o.count;
    if ((o.reg < 128 && end > 128) || (o.reg >= kVgpr && o.reg < kAgpr && end > kAgpr) ||
        end > kNumRegisters)
      return fail("registers past the end of the file");
  }
  return true;
}

bool Decoder::run() {
  u32 w = words[0];
  const VectorRows& tables = vector_rows();
  i.words[0] = w;
  i.size = 4;
  if (w >> 23 == 0x17d)
    return scalar(Format::sop1, sop1_rows(), field(w, 15, 8));
  if (w >> 23 == 0x17e)
    return scalar(Format::sopc, sopc_rows(), field(w, 22, 16));
  if (w >> 23 == 0x17f)
    return program_control();
  if (w >> 28 == 0xb)
    return scalar(Format::sopk, sopk_rows(), field(w, 27, 23));
  if (w >> 30 == 2)
    return scalar(Format::sop2, sop2_rows(), field(w, 29, 23));
  if (w >> 25 == 0x3f)
    return short_vector(Format::vop1, tables.vop1, field(w, 16, 9));
  if (w >> 25 == 0x3e)
    return short_vector(Format::vopc, tables.vopc, field(w, 24, 17));
  if (w >> 31 == 0)
    return short_vector(Format::vop2, tables.vop2, field(w, 30, 25));
  if (w >> 23 == 0x1a7)
    return packed_vector();
  switch (w >> 26) {
  case 0x30:
    return scalar_memory();
  case 0x34:
    return long_vector();
  case 0x36:
    return lds();
  case 0x37:
    return flat();
  case 0x38:
    return buffer();
  default:
    return fail("unknown encoding");
  }
}

// The lane that DPP control reads for `lane`. Not valid: outside the row or the wave. An unknown
// control gives ~0.
u32 dpp_source_lane(u32 control, u32 lane, bool* valid) {
  bool ignored;
  bool& ok = valid ? *valid : ignored;
  ok = true;
  u32 row = lane & ~15u, position = lane & 15, n = control & 15;
  if (control < 0x100)
    return (lane & ~3u) | (control >> 2 * (lane & 3) & 3);
  if (control > 0x100 && control <= 0x10f) {
    ok = position + n < 16;
    return row + ((position + n) & 15);
  }
  if (control > 0x110 && control <= 0x11f) {
    ok = position >= n;
    return row + ((position - n) & 15);
  }
  if (control > 0x120 && control <= 0x12f)
    return row + ((position - n) & 15);
  switch (control) {
  case 0x130:
    ok = lane < 63;
    return (lane + 1) & 63;
  case 0x134:
    return (lane + 1) & 63;
  case 0x138:
    ok = lane > 0;
    return (lane - 1) & 63;
  case 0x13c:
    return (lane - 1) & 63;
  case 0x140:
    return row + 15 - position;
  case 0x141:
    return (lane & ~7u) + 7 - (lane & 7);
  case 0x142:
    ok = lane >= 16;
    return ok ? row - 1 : 0;
  case 0x143:
    ok = lane >= 32;
    return 31;
  default:
    break;
  }
  if (control >= 0x150 && control <= 0x15f)
    return row + n;
  ok = false;
  return ~0u;
}

bool decode(const u32* words, size_t available, u64 pc, Instruction* out, std::string* error) {
  *out = Instruction();
  out->pc = pc;
  if (available == 0) {
    *error = "the code ends";
    return false;
  }
  Decoder decoder{words, available, *out, {}};
  if (decoder.run())
    return true;
  *error = decoder.problem;
  return false;
}

} // namespace emu
