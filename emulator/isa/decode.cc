#include "isa/decode.h"

#include <array>

#include "core/knobs.h"
#include "isa/disassemble.h"
#include "isa/tables.h"

namespace emu {

const VectorRows& vector_rows() {
  static const VectorRows plain_rows = plain::vector_rows();
  static const VectorRows avx2_rows = avx2::vector_rows();
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has_avx2 && !knobs().plain ? avx2_rows : plain_rows;
}

namespace {

const Row* find_row(std::span<const Row> rows, u32 opcode) {
  for (const Row& row : rows)
    if (row.opcode == opcode)
      return &row;
  return nullptr;
}

u32 field(u32 word, int high, int low) { return word >> low & ((u32{2} << (high - low)) - 1); }

struct Decoder {
  const u32* words;
  size_t available;
  Instruction& i;
  std::string problem;

  bool fail(const std::string& text) {
    if (problem.empty())
      problem = text;
    return false;
  }

  // One more dword after the first `at` words.
  bool extra_word(u32* out) {
    size_t at = i.size / 4;
    if (at >= available || at >= 3)
      return fail("the instruction is cut off");
    *out = i.words[at] = words[at];
    i.size += 4;
    return true;
  }

  bool set_source(int k, u32 code, u16 vector_bank = kVgpr) {
    i.source[k] = static_cast<u16>(code >= 256 ? code - 256 + vector_bank : code);
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
      i.constant[k] = is_signed ? static_cast<u64>(static_cast<i64>(static_cast<i32>(literal)))
                                : literal;
    } else {
      return fail("operand code " + std::to_string(code));
    }
    return true;
  }

  bool scalar_pair(u16 reg, int width) {
    return width < 2 || reg >= 128 || reg % 2 == 0 || fail("an odd register pair");
  }

  void list(u16 code, int count, bool write) {
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

  bool finish_operands() {
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

  bool scalar(Format format, std::span<const Row> rows, u32 opcode) {
    u32 w = words[0];
    i.format = format;
    i.row = find_row(rows, opcode);
    if (!i.row)
      return fail("unknown scalar opcode " + std::to_string(opcode));
    const Row& row = *i.row;
    if (row.dest_width)
      i.dest = static_cast<u16>(field(w, 22, 16));
    if (format == Format::sopk) {
      i.immediate = static_cast<u16>(w);
      if (row.source_width[0])
        i.source[0] = static_cast<u16>(field(w, 22, 16));
    } else {
      if (row.source_width[0] && !set_source(0, w & 255))
        return false;
      if (row.source_width[1] && !set_source(1, field(w, 15, 8)))
        return false;
    }
    if (!scalar_pair(i.dest == kNoRegister ? 0 : i.dest, row.dest_width))
      return false;
    for (int k = 0; k < 2; ++k)
      if (row.source_width[k] && !scalar_pair(i.source[k], row.source_width[k]))
        return false;
    if (!finish_operands())
      return false;
    if (std::string_view(row.name).ends_with("saveexec_b64")) {
      i.add_operand(kExec, 2, false);
      i.add_operand(kExec, 2, true);
    }
    return true;
  }

  bool program_control() {
    i.format = Format::sopp;
    i.immediate = static_cast<u16>(words[0]);
    i.row = find_row(sopp_rows(), field(words[0], 22, 16));
    if (!i.row)
      return fail("unknown control opcode " + std::to_string(field(words[0], 22, 16)));
    if (i.row->opcode == 6 || i.row->opcode == 7)
      i.add_operand(kVcc, 2, false);
    if (i.row->opcode == 8 || i.row->opcode == 9)
      i.add_operand(kExec, 2, false);
    if (i.row->opcode == 4 || i.row->opcode == 5)
      i.add_operand(kScc, 1, false);
    return true;
  }

  bool scalar_memory() {
    u32 second = 0, w = words[0];
    if (!extra_word(&second))
      return false;
    i.format = Format::smem;
    i.row = find_row(smem_rows(), field(w, 25, 18));
    if (!i.row)
      return fail("unknown scalar memory opcode " + std::to_string(field(w, 25, 18)));
    i.base = static_cast<u16>(field(w, 5, 0) * 2);
    i.dest = static_cast<u16>(field(w, 12, 6));
    bool immediate = w >> 17 & 1, scalar_offset = w >> 14 & 1;
    if (immediate)
      i.offset = static_cast<i32>(second << 11) >> 11;
    if (scalar_offset)
      i.offset_source = static_cast<u16>(field(second, 31, 25));
    else if (!immediate)
      i.offset_source = static_cast<u16>(field(second, 6, 0));
    list(i.dest, i.row->dest_width, true);
    list(i.base, i.row->opcode >= 8 ? 4 : 2, false);
    list(i.offset_source, 1, false);
    return i.dest + i.row->dest_width <= 128 && i.base + 4 <= 128 &&
                   (i.offset_source < 128 || i.offset_source == kNoRegister)
               ? true
               : fail("registers past the end of the file");
  }

  bool control_word(u32 kind) {
    u32 w = 0;
    if (!extra_word(&w))
      return false;
    i.control = w;
    i.modifier = kind == kCodeDpp ? Modifier::dpp : Modifier::sdwa;
    if (i.row->run == nullptr || (i.row->flags & (kCarryOut | kCrossLane)) ||
        i.row->dest_width != 1 || i.row->source_width[0] != 1)
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
    i.clamp = w >> 13 & 1;
    i.neg = (w >> 20 & 1) | (w >> 28 & 1) << 1;
    i.abs = (w >> 21 & 1) | (w >> 29 & 1) << 1;
    if (w >> 14 & 3)
      return fail("SDWA output modifier");
    if (i.row->source_width[1] && w >> 31)
      i.source[1] = static_cast<u16>(i.source[1] - kVgpr);
    if ((w >> 23 & 1) && i.source[0] >= 128)
      return fail("SDWA with a constant");
    return i.source[1] == kNoRegister || is_register(i.source[1]) || fail("SDWA with a constant");
  }

  // VOP1, VOP2 and VOPC in their short forms.
  bool short_vector(Format format, std::span<const Row> rows, u32 opcode) {
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
    if (modified && (format == Format::vopc || !control_word(source)))
      return fail("DPP or SDWA compare");
    if (row.source_width[0] && !modified &&
        !set_source(0, source,
                    std::string_view(row.name) == "v_accvgpr_mov_b32" ? kAgpr : kVgpr))
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

  bool long_vector() {
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
      if (row.source_width[k] &&
          !set_source(k, field(second, 9 * k + 8, 9 * k)))
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

  bool check_modifiers() {
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

  bool packed_vector() {
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
      return (i.source[0] < 128 || i.source[0] >= kVgpr || opcode == 89 ||
              fail("accumulator read of a constant")) && finish_operands();
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
    return packed_operands();
  }

  // Of each source pair only the selected halves are read.
  bool packed_operands() {
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

  bool matrix(u32 second) {
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

  bool lds() {
    u32 w = words[0], second = 0;
    if (!extra_word(&second))
      return false;
    i.format = Format::ds;
    i.row = find_row(ds_rows(), field(w, 24, 17));
    if (!i.row)
      return fail("unknown LDS opcode " + std::to_string(field(w, 24, 17)));
    if (w >> 16 & 1)
      return fail("global data share");
    const MemoryRow& row = i.row->memory;
    u16 bank = w >> 25 & 1 ? kAgpr : kVgpr;
    i.offset0 = static_cast<u8>(w);
    i.offset1 = static_cast<u8>(w >> 8);
    i.address = static_cast<u16>(field(second, 7, 0) + kVgpr);
    int dwords = (row.bytes + 3) / 4;
    bool returns = row.kind == MemoryKind::load || row.kind == MemoryKind::transpose ||
                   row.kind == MemoryKind::bpermute || row.kind == MemoryKind::permute ||
                   row.kind == MemoryKind::swizzle || i.row->opcode == 32;
    bool sends = row.kind == MemoryKind::store || row.kind == MemoryKind::atomic ||
                 row.kind == MemoryKind::bpermute || row.kind == MemoryKind::permute;
    if (returns) {
      i.dest = static_cast<u16>(field(second, 31, 24) + bank);
      list(i.dest, row.stride ? 2 * dwords : dwords, true);
    }
    i.add_operand(i.address, 1, false);
    if (sends) {
      i.data = static_cast<u16>(field(second, 15, 8) + bank);
      i.add_operand(i.data, dwords, false);
      if (row.stride) {
        i.data2 = static_cast<u16>(field(second, 23, 16) + bank);
        i.add_operand(i.data2, dwords, false);
      }
    }
    return check_range();
  }

  bool check_range() {
    for (int k = 0; k < i.num_operands; ++k) {
      const Operand& o = i.operands[k];
      u32 end = o.reg + o.count;
      if ((o.reg < 128 && end > 128) || (o.reg < kAgpr && o.reg >= kVgpr && end > kAgpr) ||
          end > kNumRegisters)
        return fail("registers past the end of the file");
    }
    return true;
  }

  void list_data(u16 reg, const MemoryRow& row) {
    int dwords = (row.bytes + 3) / 4;
    if (row.kind == MemoryKind::load && !i.lds) {
      i.dest = reg;
      list(reg, dwords, true);
      if (row.extend == Extend::low_half || row.extend == Extend::high_half)
        list(reg, 1, false);
      return;
    }
    if (row.kind == MemoryKind::store || row.kind == MemoryKind::atomic) {
      i.data = reg;
      list(reg, row.atomic == AtomicKind::cmpswap ? 2 : dwords, false);
    }
    if (i.lds)
      i.add_operand(kM0, 1, false);
  }

  bool buffer() {
    u32 w = words[0], second = 0;
    if (!extra_word(&second))
      return false;
    i.format = Format::mubuf;
    i.row = find_row(mubuf_rows(), field(w, 24, 18));
    if (!i.row)
      return fail("unknown buffer opcode " + std::to_string(field(w, 24, 18)));
    const MemoryRow& row = i.row->memory;
    if (row.kind == MemoryKind::cache)
      return true;
    i.offset = static_cast<i32>(field(w, 11, 0));
    i.offset_enable = w >> 12 & 1;
    i.index_enable = w >> 13 & 1;
    i.returns = row.kind == MemoryKind::atomic && (w >> 14 & 1);
    i.lds = w >> 16 & 1;
    if (i.lds && (row.kind != MemoryKind::load || row.bytes < 4 || row.bytes == 8))
      return fail("transfer to LDS of this size");
    list_data(static_cast<u16>(field(second, 15, 8) + (second >> 23 & 1 ? kAgpr : kVgpr)), row);
    if (i.returns) {
      i.dest = i.data;
      list(i.dest, 1, true);
    }
    if (i.offset_enable || i.index_enable) {
      i.address = static_cast<u16>(field(second, 7, 0) + kVgpr);
      i.add_operand(i.address, i.offset_enable && i.index_enable ? 2 : 1, false);
    }
    i.base = static_cast<u16>(field(second, 20, 16) * 4);
    i.add_operand(i.base, 4, false);
    i.offset_source = static_cast<u16>(field(second, 31, 24));
    if (i.offset_source >= 128) {
      if (i.offset_source > 208)
        return fail("scalar offset operand");
      i.offset_constant = i.offset_source <= 192 ? i.offset_source - 128u
                                                 : 192u - i.offset_source;
    } else {
      i.add_operand(i.offset_source, 1, false);
    }
    return check_range();
  }

  bool flat() {
    u32 w = words[0], second = 0;
    if (!extra_word(&second))
      return false;
    i.format = Format::flat;
    i.row = find_row(flat_rows(), field(w, 24, 18));
    i.segment = static_cast<u8>(field(w, 15, 14));
    if (!i.row || i.segment == 0 || i.segment == 3 ||
        (i.segment == 1 && i.row->memory.kind == MemoryKind::atomic))
      return fail("unknown flat opcode " + std::to_string(field(w, 24, 18)) + " segment " +
                  std::to_string(field(w, 15, 14)));
    const MemoryRow& row = i.row->memory;
    i.lds = std::string_view(i.row->name).starts_with("load_lds");
    if (i.lds && i.segment != 2)
      return fail("scratch transfer to LDS");
    i.offset = static_cast<i32>(w << 19) >> 19;
    i.returns = row.kind == MemoryKind::atomic && (w >> 16 & 1);
    u16 bank = second >> 23 & 1 ? kAgpr : kVgpr;
    u16 result = static_cast<u16>(field(second, 31, 24) + bank);
    u16 data = static_cast<u16>(field(second, 15, 8) + bank);
    list_data(row.kind == MemoryKind::load ? result : data, row);
    if (i.returns) {
      i.dest = result;
      list(result, 1, true);
    }
    u32 base = field(second, 22, 16);
    if (i.segment == 2 || (w >> 13 & 1)) {
      i.address = static_cast<u16>(field(second, 7, 0) + kVgpr);
      i.add_operand(i.address, i.segment == 2 && base == 127 ? 2 : 1, false);
    }
    if (base != 127) {
      i.base = static_cast<u16>(base);
      i.add_operand(i.base, i.segment == 2 ? 2 : 1, false);
    }
    return check_range();
  }

  bool run() {
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
};

} // namespace

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
