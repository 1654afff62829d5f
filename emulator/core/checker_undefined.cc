// Follows undefined data through registers, and reports where it would be used.
#include <algorithm>

#include "core/checker.h"
#include "core/workgroup.h"
#include "isa/disassemble.h"
#include "isa/tables.h"

namespace emu {

void Checker::require(Wave& wave, const Instruction& i, u16 reg, int count, u64 lanes,
                      const char* use) {
  WaveShadow& s = shadow(wave);
  for (int r = 0; r < count; ++r) {
    u64 missing = reg < 128 ? static_cast<u32>(~s.valid[reg + r]) : ~s.valid[reg + r] & lanes;
    if (reg == kScc)
      missing = ~s.valid[reg] & 1;
    if (!missing)
      continue;
    const Instruction* origin = s.origin[reg + r];
    std::string where =
        reg >= kVgpr ? " (lane " + std::to_string(std::countr_zero(missing)) + ")" : "";
    fault(wave, i, Fault::uninitialised,
          std::string(use) + " " + register_name(reg + r) + where + " is undefined: " +
              (origin
                   ? "the data comes from '" + disassemble(*origin) + "' at pc " + hex(origin->pc)
                   : std::string("it was never written")));
  }
}

// Undefined data may be moved and computed with, but not decide an address, a branch, which lanes
// run, or what is stored to global memory.
void Checker::check_sinks(Wave& wave, const Instruction& i) {
  u64 exec = wave.exec();
  if (i.format == Format::sopp) {
    if (i.row->opcode == 4 || i.row->opcode == 5)
      require(wave, i, kScc, 1, 1, "the branch condition");
    else if (i.row->opcode == 6 || i.row->opcode == 7)
      require(wave, i, kVcc, 2, 0, "the branch condition");
    return;
  }
  MemoryKind kind = i.row->memory.kind;
  if (kind == MemoryKind::none || kind == MemoryKind::cache) {
    for (int k = 0; k < i.num_operands; ++k) // a new EXEC
      if (i.operands[k].write && i.operands[k].reg == kExec && i.source[0] < 128)
        require(wave, i, i.source[0], 2, 0, "the lane mask");
    return;
  }
  if (i.address != kNoRegister && kind != MemoryKind::swizzle) {
    int count = i.index_enable && i.offset_enable ? 2 : 1;
    if (i.format == Format::flat && i.segment == 2 && i.base == kNoRegister)
      count = 2;
    require(wave, i, i.address, count, exec, "address");
  }
  if (i.base != kNoRegister)
    require(wave, i, i.base,
            i.format == Format::mubuf || (i.format == Format::smem && i.row->opcode >= 8) ? 4 : 2,
            0, "base");
  if (i.offset_source < 128)
    require(wave, i, i.offset_source, 1, 0, "offset");
  if (i.lds)
    require(wave, i, kM0, 1, 0, "LDS base");
  bool scratch = i.format == Format::flat && i.segment == 1;
  if ((kind == MemoryKind::store || kind == MemoryKind::atomic) && i.format != Format::ds &&
      !scratch)
    require(wave, i, i.data,
            i.row->memory.atomic == AtomicKind::cmpswap ? 2 : (i.row->memory.bytes + 3) / 4, exec,
            "stored");
}

void Checker::set_valid(Wave& wave, u16 reg, u64 valid, u64 lanes, const Instruction* origin,
                        const Instruction* here) {
  WaveShadow& s = shadow(wave);
  s.valid[reg] = (s.valid[reg] & ~lanes) | (valid & lanes);
  if (~valid & lanes)
    s.origin[reg] = origin ? origin : here;
}

// Defined lanes of source k (bits, for a lane mask); constants are defined.
u64 Checker::source_valid(Wave& wave, const Instruction& i, int k, const Instruction** origin) {
  u16 code = i.source[k];
  WaveShadow& s = shadow(wave);
  if (code == kCodeVccz)
    code = kVcc;
  if (!is_register(code) || code == kNoRegister)
    return ~u64{0};
  int width = std::max<int>(1, i.row->source_width[k]);
  u64 valid = ~u64{0};
  if (code < 128) {
    if ((i.row->flags & kLaneMask) && width == 2)
      return (s.valid[code] & 0xffffffff) | s.valid[code + 1] << 32;
    for (int r = 0; r < width; ++r)
      if (static_cast<u32>(~s.valid[code + r]))
        valid = 0, *origin = s.origin[code + r];
    return valid;
  }
  for (int r = 0; r < width; ++r) {
    valid &= s.valid[code + r];
    if (~s.valid[code + r])
      *origin = s.origin[code + r];
  }
  if (i.modifier == Modifier::dpp && k == 0) {
    u64 moved = 0;
    for (u32 lane = 0; lane < kLanes; ++lane) {
      bool inside = false;
      u32 other = dpp_source_lane(i.control >> 8 & 0x1ff, lane, &inside);
      inside = inside && (wave.exec() >> other & 1);
      moved |= static_cast<u64>(inside ? valid >> other & 1 : 1) << lane;
    }
    return moved;
  }
  return valid;
}

void Checker::propagate_matrix(Wave& wave, const Instruction& i) {
  WaveShadow& s = shadow(wave);
  u32 rows = i.row->mfma.rows;
  const Instruction *origin = nullptr, *ignored = nullptr;
  u64 a = source_valid(wave, i, 0, &origin), b = source_valid(wave, i, 1, &origin);
  bool all = a == ~u64{0} && b == ~u64{0};
  u64 row_mask = rows == 16 ? 0xffff : 0xffffffff, row_valid = row_mask, column_valid = row_mask;
  for (u32 shift = 0; shift < kLanes; shift += rows) {
    row_valid &= a >> shift;
    column_valid &= b >> shift;
  }
  u64 valid[16];
  for (int r = 0; r < i.row->dest_width; ++r) { // all before a result, which may overlap an addend
    valid[r] = is_vector(i.source[2]) ? s.valid[i.source[2] + r] : ~u64{0};
    if (~valid[r])
      ignored = s.origin[i.source[2] + r];
  }
  for (int r = 0; r < i.row->dest_width; ++r) {
    if (!all)
      for (u32 lane = 0; lane < kLanes; ++lane) {
        u32 row = rows == 16 ? 4 * (lane / 16) + r : 8 * (r / 4) + 4 * (lane / 32) + r % 4;
        if (!(row_valid >> row & 1) || !(column_valid >> lane % rows & 1))
          valid[r] &= ~(u64{1} << lane);
      }
    set_valid(wave, i.dest + r, valid[r], ~u64{0}, origin ? origin : ignored, &i);
  }
}

void Checker::propagate_scalar(Wave& wave, const Instruction& i) {
  WaveShadow& s = shadow(wave);
  const Instruction* origin = nullptr;
  u64 valid[2] = {~u64{0}, ~u64{0}};
  const char* name = i.row->name;
  bool is_and = std::string_view(name).starts_with("s_and_b"),
       is_or = std::string_view(name).starts_with("s_or_b");
  bool is_andn2 = std::string_view(name).starts_with("s_andn2_b");
  bool move = std::string_view(name).starts_with("s_mov_b");
  if (is_and || is_or || is_andn2 || move) {
    for (int d = 0; d < i.row->dest_width; ++d) {
      u64 known[2], value[2];
      for (int k = 0; k < 2; ++k) {
        u16 code = i.source[k];
        bool reg = code < 128;
        known[k] = reg ? s.valid[code + d] : ~u64{0};
        value[k] = reg ? wave.s[code + d] : static_cast<u32>(i.constant[k] >> 32 * d);
        if (reg && static_cast<u32>(~known[k]))
          origin = s.origin[code + d];
      }
      u64 one = is_andn2 ? ~value[1] : value[1];
      if (move)
        valid[d] = known[0];
      else if (is_or)
        valid[d] = (known[0] & known[1]) | (known[0] & value[0]) | (known[1] & value[1]);
      else
        valid[d] = (known[0] & known[1]) | (known[0] & ~value[0]) | (known[1] & ~one);
    }
  } else {
    for (int k = 0; k < 2; ++k)
      if (i.source[k] != kNoRegister && !source_valid(wave, i, k, &origin))
        valid[0] = valid[1] = 0;
    if (((i.row->flags & kReadsScc) && !(s.valid[kScc] & 1)) ||
        ((i.row->flags & kReadsDest) && static_cast<u32>(~s.valid[i.dest])))
      valid[0] = valid[1] = 0;
  }
  for (int d = 0; d < i.row->dest_width; ++d) {
    s.valid[i.dest + d] = valid[d];
    if (static_cast<u32>(~valid[d]))
      s.origin[i.dest + d] = origin;
  }
  if (i.row->flags & kSetsScc) {
    s.valid[kScc] =
        static_cast<u32>(~valid[0]) == 0 && static_cast<u32>(~valid[1]) == 0 ? ~u64{0} : 0;
    s.origin[kScc] = origin;
  }
}

void Checker::propagate_vector(Wave& wave, const Instruction& i) {
  WaveShadow& s = shadow(wave);
  u64 exec = wave.exec(), valid = ~u64{0};
  const Instruction* origin = nullptr;
  std::string_view name = i.row->name;
  if (name == "v_readfirstlane_b32" || name == "v_readlane_b32") {
    if (is_vector(i.source[0])) {
      u32 lane = exec ? static_cast<u32>(std::countr_zero(exec)) : 0;
      if (name == "v_readlane_b32")
        lane = read_scalar(wave, i.source[1], i.constant[1]) & 63;
      valid = s.valid[i.source[0]] >> lane & 1 ? ~u64{0} : 0;
      origin = s.origin[i.source[0]];
    }
    s.valid[i.dest] = valid;
    s.origin[i.dest] = origin;
    return;
  }
  if (name == "v_writelane_b32") {
    u64 lane = u64{1} << (read_scalar(wave, i.source[1], i.constant[1]) & 63);
    valid = source_valid(wave, i, 0, &origin);
    set_valid(wave, i.dest, valid, lane, origin, &i);
    return;
  }
  if (name.ends_with("_swap_b32")) {
    bool rows = name == "v_permlane16_swap_b32";
    u64 low = rows ? 0x0000ffff0000ffffull : 0xffffffffull;
    int shift = rows ? 16 : 32;
    u64 a = s.valid[i.dest], b = s.valid[i.source[0]];
    s.valid[i.dest] = (a & low) | (b & low) << shift;
    s.valid[i.source[0]] = (b & ~low) | (a >> shift & low);
    return;
  }
  if (i.row->kind == Class::packed) {
    u64 result[2];
    for (int half = 0; half < 2; ++half) {
      result[half] = ~u64{0};
      for (int k = 0; k < 3; ++k) {
        if (i.source[k] == kNoRegister || !is_register(i.source[k]))
          continue;
        bool move = i.row->opcode == 51;
        if (move && k != half)
          continue;
        u8 select = half && !move ? i.op_sel_high : i.op_sel;
        u16 reg = static_cast<u16>(i.source[k] + (select >> k & 1));
        u64 known = reg < 128 ? (static_cast<u32>(~s.valid[reg]) ? 0 : ~u64{0}) : s.valid[reg];
        result[half] &= known;
        if (~known)
          origin = s.origin[reg];
      }
    }
    for (int half = 0; half < 2; ++half)
      set_valid(wave, i.dest + half, result[half], exec, origin, &i);
    return;
  }
  if (name == "v_cndmask_b32") {
    const Instruction *first = nullptr, *second = nullptr;
    u64 chosen = read_scalar64(wave, i.source[2], i.constant[2]);
    u64 a = source_valid(wave, i, 0, &first), b = source_valid(wave, i, 1, &second);
    u64 mask = source_valid(wave, i, 2, &origin);
    valid = mask & ((chosen & b) | (~chosen & a));
    if (!origin)
      origin = ~b & chosen ? second : first;
  } else {
    for (int k = 0; k < 3; ++k)
      if (i.source[k] != kNoRegister)
        valid &= source_valid(wave, i, k, &origin);
  }
  if ((name == "v_xor_b32" || name == "v_sub_u32") && i.source[0] == i.source[1])
    valid = ~u64{0};
  u64 low = valid; // sums carry upwards: their low half does not depend on an addend's high half
  if (name.starts_with("v_mad_u64_") || name.starts_with("v_mad_i64_") ||
      name == "v_lshl_add_u64") {
    low = ~u64{0};
    for (u16 reg : i.source) {
      if (reg == kNoRegister || !is_register(reg))
        continue;
      low &= reg < 128 ? (static_cast<u32>(~s.valid[reg]) ? 0 : ~u64{0}) : s.valid[reg];
    }
  }
  if (i.scalar_dest != kNoRegister) { // inactive lanes of a mask are zero
    u64 mask = valid | ~exec;
    s.valid[i.scalar_dest] = mask & 0xffffffff;
    s.valid[i.scalar_dest + 1] = mask >> 32;
    s.origin[i.scalar_dest] = s.origin[i.scalar_dest + 1] = origin;
  }
  for (int d = 0; d < i.row->dest_width; ++d)
    set_valid(wave, i.dest + d, d ? valid : low, exec, origin, &i);
}

void Checker::propagate(Wave& wave, const Instruction& i) {
  switch (i.format) {
  case Format::sop1:
  case Format::sop2:
  case Format::sopc:
  case Format::sopk:
    propagate_scalar(wave, i);
    break;
  case Format::mfma:
    propagate_matrix(wave, i);
    break;
  case Format::vop1:
  case Format::vop2:
  case Format::vopc:
  case Format::vop3:
  case Format::vop3p:
    propagate_vector(wave, i);
    break;
  default:
    break;
  }
}

} // namespace emu
