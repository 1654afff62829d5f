#include "isa/disassemble.h"

#include <algorithm>
#include <cstdio>

namespace emu {
namespace {

std::string number(u64 value) { return std::to_string(value); }

// Appending to a string keeps an old compiler from a false warning about operator+.
std::string joined(std::string first, const std::string& second) { return first.append(second); }

std::string range(const char* prefix, u32 first, u32 count) {
  if (count <= 1)
    return joined(prefix, number(first));
  return joined(prefix, "[").append(number(first)).append(":").append(number(first + count - 1)) +
         "]";
}

std::string scalar_name(u16 code, u32 count) {
  switch (code) {
  case kVcc:
    return count > 1 ? "vcc" : "vcc_lo";
  case kVcc + 1:
    return "vcc_hi";
  case kM0:
    return "m0";
  case kExec:
    return count > 1 ? "exec" : "exec_lo";
  case kExec + 1:
    return "exec_hi";
  case kScc:
    return "scc";
  default:
    return code >= 108 && code < 124 ? range("ttmp", code - 108u, count) : range("s", code, count);
  }
}

std::string registers(u16 reg, u32 count) {
  if (reg >= kAgpr)
    return range("a", reg - kAgpr, count);
  return reg >= kVgpr ? range("v", reg - kVgpr, count) : scalar_name(reg, count);
}

std::string operand(const Instruction& i, int k) {
  u16 code = i.source[k];
  if (is_register(code))
    return registers(code, std::max<u32>(1, i.row->source_width[k]));
  switch (code) {
  case kCodeVccz:
    return "vccz";
  case kCodeExecz:
    return "execz";
  case kCodeScc:
    return "scc";
  default:
    break;
  }
  if (code >= 128 && code <= 192)
    return number(code - 128u);
  if (code >= 193 && code <= 208)
    return joined("-", number(code - 192u));
  const char* floats[] = {"0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494"};
  if (code >= 240 && code <= 248)
    return floats[code - 240];
  return hex(i.constant[k] & 0xffffffff);
}

// The destination is an implied source that assembly does not write.
bool rewrites_dest(const Instruction& i) {
  return (i.row->flags & kReadsDest) || std::string_view(i.row->name) == "v_writelane_b32";
}

std::string wait_text(u16 immediate) {
  u32 vm = (immediate & 15) | (immediate >> 10 & 48), lgkm = immediate >> 8 & 15;
  std::string text;
  if (vm != 63)
    text += " vmcnt(" + number(vm) + ")";
  if (lgkm != 15)
    text += " lgkmcnt(" + number(lgkm) + ")";
  return text;
}

std::string memory_text(const Instruction& i) {
  std::string text;
  auto add = [&](const std::string& part) { text.append(text.empty() ? " " : ", ").append(part); };
  for (int k = 0; k < i.num_operands; ++k)
    if (!(i.operands[k].reg == kM0 && !i.operands[k].write))
      add(registers(i.operands[k].reg, i.operands[k].count));
  if (i.format == Format::flat && i.base == kNoRegister)
    add("off");
  if (i.format == Format::mubuf) {
    text += i.offset_enable ? " offen" : "";
    text += i.index_enable ? " idxen" : "";
  }
  if (i.format == Format::ds && i.row->memory.stride)
    text += " offset0:" + number(i.offset0) + " offset1:" + number(i.offset1);
  else if (i.format == Format::ds && (i.offset0 | i.offset1))
    text += " offset:" + number(i.offset0 | i.offset1 << 8);
  else if (i.offset)
    text += " offset:" + std::to_string(i.offset);
  return text + (i.lds && i.format == Format::mubuf ? " lds" : "");
}

} // namespace

std::string hex(u64 value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string register_name(u16 reg) { return registers(reg, 1); }

std::string mnemonic(const Instruction& i) {
  std::string name = i.row->name;
  if (i.format == Format::flat)
    name = (i.segment == 1 ? "scratch_" : i.segment == 2 ? "global_" : "flat_") + name;
  if (i.modifier != Modifier::none)
    return name + (i.modifier == Modifier::dpp ? "_dpp" : "_sdwa");
  return name;
}

std::string disassemble(const Instruction& i) {
  if (!i.row)
    return "unknown word " + hex(i.words[0]);
  std::string text = mnemonic(i);
  if (i.row->memory.kind != MemoryKind::none)
    return text + memory_text(i);
  if (i.format == Format::sopp) {
    if (i.row->opcode == 12)
      return text + wait_text(i.immediate);
    if (i.row->kind == Class::branch)
      return text + " " + std::to_string(static_cast<i16>(i.immediate));
    return i.row->opcode == 0 || i.row->opcode >= 14 ? text + " " + number(i.immediate) : text;
  }
  const char* separator = " ";
  auto add = [&](const std::string& part) {
    text.append(separator).append(part);
    separator = ", ";
  };
  if (i.dest != kNoRegister)
    add(registers(i.dest, i.row->dest_width));
  if (i.scalar_dest != kNoRegister)
    add(registers(i.scalar_dest, 2));
  for (int k = 0; k < 3; ++k)
    if (i.source[k] != kNoRegister && !(k == 2 && i.source[2] == i.dest && rewrites_dest(i))) {
      std::string part = operand(i, k);
      if (i.abs >> k & 1)
        part = joined("|", part).append("|");
      add(i.neg >> k & 1 ? joined("-", part) : part);
    }
  if (i.format == Format::sopk)
    add(hex(i.immediate));
  if (i.clamp)
    text += " clamp";
  return text;
}

} // namespace emu
