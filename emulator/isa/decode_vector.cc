// Vector encodings: VOP1, VOP2, VOPC, VOP3, VOP3P and the matrix operations.
#include <algorithm>

#include "isa/decoder.h"
#include "isa/disassemble.h"
#include "isa/tables.h"

namespace emu {

bool Decoder::control_word(u32 kind) {
  u32 w = 0;
  if (!extra_word(&w))
    return false;
  i.control = w;
  i.modifier = kind == kCodeDpp ? Modifier::dpp : Modifier::sdwa;
  if (i.row->run == nullptr || (i.row->flags & (kCarryOut | kCrossLane)) ||
      (i.format == Format::vopc ? kind == kCodeDpp : i.row->dest_width != 1) ||
      i.row->source_width[0] != 1)
    return fail("DPP or SDWA on an instruction that has no such form");
  if (kind == kCodeDpp) {
    i.source[0] = static_cast<u16>(kVgpr + (w & 255));
    i.neg = (w >> 20 & 1) | (w >> 22 & 1) << 1;
    i.abs = (w >> 21 & 1) | (w >> 23 & 1) << 1;
    bool valid = false;
    u32 control = w >> 8 & 0x1ff;
    dpp_source_lane(control, 0, &valid);
    if (!valid && dpp_source_lane(control, 0, nullptr) == ~0u)
      return fail("DPP control " + hex(control));
    return true;
  }
  i.source[0] = static_cast<u16>((w & 255) + (w >> 23 & 1 ? 0 : kVgpr));
  if (i.format == Format::vopc) { // bits 15:8 name the mask to write, VCC if the top bit is clear
    if (w >> 15 & 1)
      i.scalar_dest = static_cast<u16>(field(w, 14, 8));
    if (i.scalar_dest >= 127 || i.scalar_dest % 2)
      return fail("mask destination");
  } else {
    i.clamp = w >> 13 & 1;
    if (w >> 14 & 3)
      return fail("SDWA output modifier");
    if ((w >> 8 & 7) == 7 || (w >> 11 & 3) == 3)
      return fail("SDWA selection");
  }
  i.neg = (w >> 20 & 1) | (w >> 28 & 1) << 1;
  i.abs = (w >> 21 & 1) | (w >> 29 & 1) << 1;
  if ((w >> 16 & 7) == 7 || (w >> 24 & 7) == 7)
    return fail("SDWA selection");
  if (i.row->source_width[1] && w >> 31)
    i.source[1] = static_cast<u16>(i.source[1] - kVgpr);
  if ((w >> 23 & 1) && i.source[0] >= 128)
    return fail("SDWA with a constant");
  return i.source[1] == kNoRegister || is_register(i.source[1]) || fail("SDWA with a constant");
}

// VOP1, VOP2 and VOPC in their short forms.
bool Decoder::short_vector(Format format, std::span<const Row> rows, u32 opcode) {
  u32 w = words[0], source = w & 0x1ff;
  i.format = format;
  i.row = find_row(rows, opcode);
  if (!i.row)
    return fail("unknown vector opcode " + std::to_string(opcode));
  const Row& row = *i.row;
  bool scalar_result = row.flags & kCrossLane && row.opcode == 2 && format == Format::vop1;
  if (row.dest_width)
    i.dest = static_cast<u16>(field(w, 24, 17) + (scalar_result ? 0 : kVgpr));
  if (std::string_view(row.name) == "v_accvgpr_mov_b32")
    i.dest = static_cast<u16>(field(w, 24, 17) + kAgpr);
  if (row.source_width[1])
    i.source[1] = static_cast<u16>(field(w, 16, 9) + kVgpr);
  if (format == Format::vopc || (row.flags & kCarryOut))
    i.scalar_dest = kVcc;
  if (row.flags & kLaneMask)
    i.source[2] = kVcc;
  bool modified = source == kCodeDpp || source == kCodeSdwa;
  if (modified && !control_word(source))
    return false;
  if (row.source_width[0] && !modified &&
      !set_source(0, source, std::string_view(row.name) == "v_accvgpr_mov_b32" ? kAgpr : kVgpr))
    return false;
  if (format == Format::vop2 && (opcode == 23 || opcode == 24)) { // with a constant K
    u32 literal = i.words[1];
    if (source != kCodeLiteral && !extra_word(&literal))
      return false;
    int k = opcode == 23 ? 1 : 2;
    if (k == 1)
      i.source[2] = i.source[1];
    i.source[k] = kCodeLiteral;
    i.constant[k] = literal;
  }
  if (row.flags & kReadsDest)
    i.source[2] = i.dest;
  if (scalar_result && i.dest >= 128)
    return fail("result register");
  if (std::string_view(row.name).ends_with("_swap_b32"))
    i.add_operand(i.source[0], 1, true);
  return finish_operands();
}

bool Decoder::long_vector() {
  u32 w = words[0], second = 0, opcode = field(w, 25, 16);
  if (!extra_word(&second))
    return false;
  i.format = Format::vop3;
  const VectorRows& tables = vector_rows();
  if (opcode < 256)
    i.row = find_row(tables.vopc, opcode);
  else if (opcode < 320)
    i.row = find_row(tables.vop2, opcode - 256);
  else if (opcode < 448)
    i.row = find_row(tables.vop1, opcode - 320);
  else
    i.row = find_row(tables.vop3, opcode);
  if (!i.row || (opcode >= 256 && opcode < 320 && (opcode == 279 || opcode == 280)))
    return fail("unknown vector opcode " + std::to_string(opcode));
  const Row& row = *i.row;
  for (int k = 0; k < 3; ++k)
    if (row.source_width[k] && !set_source(k, field(second, 9 * k + 8, 9 * k)))
      return false;
  u32 dest = field(w, 7, 0);
  std::string_view name = row.name;
  bool scalar_result = name == "v_readlane_b32" || name == "v_readfirstlane_b32";
  if (row.dest_width)
    i.dest = static_cast<u16>(dest + (scalar_result ? 0 : kVgpr));
  if (row.flags & kReadsDest)
    i.source[2] = i.dest;
  if (name == "v_writelane_b32")
    i.source[2] = i.dest;
  if (opcode < 256)
    i.scalar_dest = static_cast<u16>(dest);
  bool carry = row.flags & kCarryOut;
  if (carry)
    i.scalar_dest = static_cast<u16>(field(w, 14, 8));
  if (i.scalar_dest != kNoRegister && (i.scalar_dest >= 127 || i.scalar_dest % 2))
    return fail("mask destination");
  if (scalar_result && i.dest >= 128)
    return fail("result register");
  i.neg = static_cast<u8>(field(second, 31, 29));
  i.omod = static_cast<u8>(field(second, 28, 27));
  if (!carry) {
    i.abs = static_cast<u8>(field(w, 10, 8));
    i.op_sel = static_cast<u8>(field(w, 14, 11));
  }
  i.clamp = w >> 15 & 1;
  if (name == "v_bitop3_b32") {
    i.immediate = static_cast<u16>(i.omod << 6 | i.abs << 3 | i.neg);
    i.omod = i.abs = i.neg = 0;
  }
  if (name == "v_div_fmas_f32")
    i.add_operand(kVcc, 2, false);
  if (name.ends_with("_swap_b32"))
    i.add_operand(i.source[0], 1, true);
  return check_modifiers() && finish_operands();
}

bool Decoder::check_modifiers() {
  u32 flags = i.row->flags;
  if (i.omod)
    return fail("output modifier");
  if (i.op_sel && !((flags & kHalf) && i.op_sel < 8))
    return fail("op_sel");
  if ((i.neg || i.abs) && !(flags & (kFloat | kHalf | kSignBits)))
    return fail("neg or abs on an integer operation");
  if (i.clamp && !(flags & (kFloat | kClampInt)))
    return fail("clamp");
  return true;
}

bool Decoder::packed_vector() {
  u32 w = words[0], second = 0, opcode = field(w, 22, 16);
  if (!extra_word(&second))
    return false;
  const VectorRows& tables = vector_rows();
  i.row = find_row(tables.mfma, opcode);
  if (i.row)
    return matrix(second);
  i.format = Format::vop3p;
  i.row = find_row(tables.vop3p, opcode);
  if (!i.row)
    return fail("unknown packed opcode " + std::to_string(opcode));
  const Row& row = *i.row;
  for (int k = 0; k < 3; ++k)
    if (row.source_width[k] && !set_source(k, field(second, 9 * k + 8, 9 * k)))
      return false;
  i.dest = static_cast<u16>(field(w, 7, 0) + kVgpr);
  if (opcode == 88) // reads an accumulator
    i.source[0] = static_cast<u16>(i.source[0] - kVgpr + kAgpr);
  if (opcode == 89)
    i.dest = static_cast<u16>(i.dest - kVgpr + kAgpr);
  if (opcode >= 88)
    return finish_operands();
  i.neg_high = static_cast<u8>(field(w, 10, 8));
  i.op_sel = static_cast<u8>(field(w, 13, 11));
  i.op_sel_high = static_cast<u8>(field(second, 28, 27) | (w >> 14 & 1) << 2);
  i.neg = static_cast<u8>(field(second, 31, 29));
  i.clamp = w >> 15 & 1;
  for (int k = 0; k < 3; ++k) {
    bool constant = i.source[k] >= 128 && i.source[k] < 256;
    u8 high = opcode == 51 ? 0 : i.op_sel_high;
    if (row.source_width[k] && constant && ((high | i.op_sel) >> k & 1))
      return fail("a constant whose high half is selected");
  }
  if (opcode < 48 && (i.clamp || ((i.neg | i.neg_high) && !(row.flags & kHalf))))
    return fail("modifier of a packed 16-bit operation");
  return opcode < 48 ? finish_operands() : packed_operands();
}

// Of each source pair only the selected halves are read.
bool Decoder::packed_operands() {
  list(i.dest, 2, true);
  for (int k = 0; k < 3; ++k) {
    u16 code = i.source[k];
    if (code == kNoRegister || !is_register(code))
      continue;
    bool low = i.op_sel >> k & 1, high = i.op_sel_high >> k & 1;
    if (i.row->opcode == 51) // moves: one half of each source
      high = low;
    list(static_cast<u16>(code + (low && high)), low == high ? 1 : 2, false);
  }
  return check_range();
}

bool Decoder::matrix(u32 second) {
  u32 w = words[0];
  i.format = Format::mfma;
  const Row& row = *i.row;
  bool results_in_acc = w >> 15 & 1;
  u16 bank[3] = {static_cast<u16>(second >> 27 & 1 ? kAgpr : kVgpr),
                 static_cast<u16>(second >> 28 & 1 ? kAgpr : kVgpr),
                 static_cast<u16>(results_in_acc ? kAgpr : kVgpr)};
  for (int k = 0; k < 3; ++k) {
    u32 code = field(second, 9 * k + 8, 9 * k);
    if (k < 2 && code < 256)
      return fail("matrix operand that is no vector register");
    if (!set_source(k, code, bank[k]))
      return false;
  }
  if (i.source[2] < 128)
    return fail("scalar register as matrix addend");
  if (field(w, 10, 8) || field(w, 14, 11) || field(second, 31, 29))
    return fail("cbsz, abid or blgp");
  i.dest = static_cast<u16>(field(w, 7, 0) + bank[2]);
  (void)row;
  return finish_operands();
}

} // namespace emu
