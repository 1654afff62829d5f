// Memory encodings: DS, FLAT (global and scratch) and MUBUF.
#include <algorithm>

#include "isa/decoder.h"
#include "isa/disassemble.h"
#include "isa/tables.h"

namespace emu {

bool Decoder::lds() {
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

bool Decoder::check_range() {
  for (int k = 0; k < i.num_operands; ++k) {
    const Operand& o = i.operands[k];
    u32 end = o.reg + o.count;
    if ((o.reg < 128 && end > 128) || (o.reg < kAgpr && o.reg >= kVgpr && end > kAgpr) ||
        end > kNumRegisters)
      return fail("registers past the end of the file");
  }
  return true;
}

void Decoder::list_data(u16 reg, const MemoryRow& row) {
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

bool Decoder::buffer() {
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
    i.offset_constant = i.offset_source <= 192 ? i.offset_source - 128u : 192u - i.offset_source;
  } else {
    i.add_operand(i.offset_source, 1, false);
  }
  return check_range();
}

bool Decoder::flat() {
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

} // namespace emu
