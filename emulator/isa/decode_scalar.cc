// Scalar encodings: SOP1, SOP2, SOPC, SOPK, SOPP, SMEM.
#include <algorithm>

#include "isa/decoder.h"
#include "isa/disassemble.h"
#include "isa/tables.h"

namespace emu {

bool Decoder::scalar_pair(u16 reg, int width) {
  return width < 2 || reg >= 128 || reg % 2 == 0 || fail("an odd register pair");
}

bool Decoder::scalar(Format format, std::span<const Row> rows, u32 opcode) {
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

bool Decoder::program_control() {
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

bool Decoder::scalar_memory() {
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

} // namespace emu
