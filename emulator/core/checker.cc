// Waits, LDS races and undefined data seen by memory operations.
#include "core/checker.h"

#include "core/memory_exec.h"
#include "core/workgroup.h"
#include "isa/disassemble.h"

namespace emu {

Checker::Checker(Workgroup& group)
    : group_(group), waits_(group.launch->check_waits), races_(group.launch->check_races),
      uninitialised_(group.launch->check_uninitialised) {
  u64 scratch = group.launch->kernel->scratch_bytes;
  for (size_t w = 0; w < group.waves.size(); ++w) {
    shadows_.push_back(std::make_unique<WaveShadow>());
    if (uninitialised_)
      shadows_.back()->scratch_valid.resize(kLanes * (scratch + 3) / 4 + kLanes);
  }
  lds_.resize((group.lds.size() + 3) / 4);
}

void Checker::define(const Wave& wave, u16 reg, int count) {
  for (int r = 0; r < count; ++r)
    shadow(wave).valid[reg + r] = ~u64{0};
}

void Checker::before(Wave& wave, const Instruction& i) {
  if (waits_ && shadow(wave).num_pending)
    check_pending(wave, i);
  if (uninitialised_) {
    check_sinks(wave, i);
    propagate(wave, i);
  }
}

void Checker::check_pending(Wave& wave, const Instruction& i) {
  WaveShadow& s = shadow(wave);
  bool is_memory = i.row->memory.kind != MemoryKind::none;
  for (int k = 0; k < i.num_operands; ++k) {
    const Operand& operand = i.operands[k];
    for (u16 reg = operand.reg; reg < operand.reg + operand.count; ++reg) {
      const Pending& p = s.pending[reg];
      if (!p.count)
        continue;
      // Loads of one queue return in order, so a later one may overwrite an earlier one.
      Queue own = i.format == Format::ds ? Queue::lgkm : Queue::vector;
      if (operand.write && is_memory && i.format != Format::smem && p.queue == own &&
          p.by->format != Format::smem)
        continue;
      const char* counter = p.queue == Queue::vector ? "vmcnt" : "lgkmcnt";
      fault(wave, i, Fault::wait,
            std::string(operand.write ? "writes " : "reads ") + register_name(reg) +
                ", which is still being loaded by '" + disassemble(*p.by) + "' at pc " +
                hex(p.by->pc) + "; a s_waitcnt " + counter + " is missing in between");
    }
  }
}

void Checker::issued(Wave& wave, PendingOp& op, Queue queue) {
  WaveShadow& s = shadow(wave);
  const Instruction& i = *op.instruction;
  for (int k = 0; k < i.num_operands; ++k)
    if (i.operands[k].write)
      for (u16 reg = i.operands[k].reg; reg < i.operands[k].reg + i.operands[k].count; ++reg) {
        s.pending[reg].by = &i;
        s.pending[reg].queue = queue;
        ++s.pending[reg].count;
        ++s.num_pending;
      }
  if (uninitialised_ && i.data != kNoRegister && i.row->memory.kind == MemoryKind::store)
    for (int d = 0; d < (i.row->memory.bytes + 3) / 4; ++d) {
      op.valid[8 + d] = s.valid[i.data + d];
      op.valid[12 + d] = i.data2 != kNoRegister ? s.valid[i.data2 + d] : 0;
    }
  visit_lds(op, [&](int lane, u64 address, u32 bytes, bool write) {
    access_lds(wave, op, address, bytes, write, lane);
    if (i.lds && waits_)
      for (u64 d = address / 4; d < (address + bytes) / 4; ++d)
        lds_[d].in_flight = static_cast<u8>(wave.id + 1);
  });
}

void Checker::retired(Wave& wave, PendingOp& op, Queue) {
  WaveShadow& s = shadow(wave);
  const Instruction& i = *op.instruction;
  for (int k = 0; k < i.num_operands; ++k)
    if (i.operands[k].write)
      for (u16 reg = i.operands[k].reg; reg < i.operands[k].reg + i.operands[k].count; ++reg) {
        --s.pending[reg].count;
        --s.num_pending;
      }
  bool barrier_passed = op.epoch != wave.epoch;
  if (!i.lds && !barrier_passed)
    return;
  visit_lds(op, [&](int lane, u64 address, u32 bytes, bool write) {
    if (i.lds)
      for (u64 d = address / 4; d < (address + bytes) / 4; ++d)
        lds_[d].in_flight = 0;
    access_lds(wave, op, address, bytes, write, lane); // it may have happened only now
  });
}

// Calls visit(lane, address, bytes, write) for every LDS access of the operation inside the LDS.
template <class Visit> void Checker::visit_lds(const PendingOp& op, Visit visit) {
  const Instruction& i = *op.instruction;
  const MemoryRow& row = i.row->memory;
  if (i.lds) {
    for (int lane = 0; lane < kLanes; ++lane) {
      u64 address = op.lds_address + u64{row.bytes} * lane;
      if ((op.exec >> lane & 1) && address + row.bytes <= group_.lds.size())
        visit(lane, address, row.bytes, true);
    }
    return;
  }
  if (i.format != Format::ds || row.kind == MemoryKind::bpermute ||
      row.kind == MemoryKind::permute || row.kind == MemoryKind::swizzle)
    return;
  bool write = row.kind == MemoryKind::store || row.kind == MemoryKind::atomic;
  for (int lane = 0; lane < kLanes; ++lane)
    for (int e = 0; (op.exec >> lane & 1) && e < lds_elements(i); ++e) {
      u64 address = lds_element_address(op, lane, e);
      if (address + row.bytes <= group_.lds.size())
        visit(lane, address, row.bytes, write);
    }
}

void Checker::race(Wave& wave, const PendingOp& op, int lane, u64 address, const char* kind,
                   u32 other, const Instruction* other_at) {
  fault(wave, *op.instruction, Fault::race,
        "lane " + std::to_string(lane) + ": LDS address " + std::to_string(address) + ": " + kind +
            " wave " + std::to_string(other) +
            (other_at ? " ('" + disassemble(*other_at) + "' at pc " + hex(other_at->pc) + ")" : "") +
            " with no barrier in between");
}

void Checker::access_lds(Wave& wave, const PendingOp& op, u64 address, u32 bytes, bool write,
                         int lane) {
  u32 self = u32{1} << wave.id;
  bool atomic = op.instruction->row->memory.kind == MemoryKind::atomic;
  for (u64 d = address / 4; d <= (address + bytes - 1) / 4; ++d) {
    LdsShadow& s = lds_[d];
    if (waits_ && s.in_flight && !op.instruction->lds)
      fault(wave, *op.instruction, Fault::wait,
            "lane " + std::to_string(lane) + ": LDS address " + std::to_string(4 * d) +
                " is still being filled by wave " + std::to_string(s.in_flight - 1) + " ('" +
                disassemble(*s.writer_at) + "' at pc " + hex(s.writer_at->pc) +
                "); its s_waitcnt vmcnt is missing in between");
    if (uninitialised_ && !write && !s.written)
      fault(wave, *op.instruction, Fault::uninitialised,
            "lane " + std::to_string(lane) + ": LDS address " + std::to_string(4 * d) +
                " was never written");
    if (races_) {
      bool other_wrote = s.write_epoch == wave.epoch && s.writer != wave.id;
      if (other_wrote && !(atomic && s.writer_at && s.writer_at->row->memory.kind ==
                                                        MemoryKind::atomic))
        race(wave, op, lane, 4 * d, write ? "written, but also written by" : "read, but written by",
             s.writer, s.writer_at);
      u32 others = s.read_epoch == wave.epoch ? s.readers & ~self : 0;
      if (write && others && !atomic)
        race(wave, op, lane, 4 * d, "written, but read by",
             static_cast<u32>(std::countr_zero(others)), s.reader_at);
    }
    if (write) {
      s.write_epoch = wave.epoch;
      s.writer = static_cast<u8>(wave.id);
      s.writer_at = op.instruction;
      s.written = true;
    } else {
      if (s.read_epoch != wave.epoch)
        s.readers = 0;
      s.read_epoch = wave.epoch;
      s.readers |= self;
      s.reader_at = op.instruction;
    }
  }
}

// The loaded registers are as defined as the memory they came from.
void Checker::completed(Wave& wave, PendingOp& op) {
  if (!uninitialised_)
    return;
  const Instruction& i = *op.instruction;
  const MemoryRow& row = i.row->memory;
  WaveShadow& s = shadow(wave);
  if (i.format == Format::flat && i.segment == 1 && row.kind == MemoryKind::store) {
    u64 per_lane = s.scratch_valid.size() / kLanes;
    for (int d = 0; d < (row.bytes + 3) / 4; ++d)
      for (int lane = 0; lane < kLanes; ++lane)
        if (op.exec >> lane & 1)
          s.scratch_valid[lane * per_lane + (op.address[lane] / 4 + d) % per_lane] =
              op.valid[8 + d] >> lane & 1;
    return;
  }
  if (i.lds || i.format == Format::ds)
    propagate_lds(wave, op);
  for (int k = 0; k < i.num_operands; ++k) {
    const Operand& operand = i.operands[k];
    if (!operand.write)
      continue;
    for (int d = 0; d < operand.count; ++d) {
      u64 valid = op.valid[std::min(d, 15)];
      if (operand.reg < 128)
        s.valid[operand.reg + d] = valid;
      else if (row.kind == MemoryKind::bpermute || row.kind == MemoryKind::permute)
        set_valid(wave, operand.reg + d, ~u64{0}, op.exec, nullptr, &i);
      else
        set_valid(wave, operand.reg + d, valid, op.exec, nullptr, &i);
    }
  }
}

// Whether LDS data is defined follows the data through stores, transfers and loads.
void Checker::propagate_lds(Wave&, PendingOp& op) {
  const Instruction& i = *op.instruction;
  const MemoryRow& row = i.row->memory;
  int dwords = std::max(1, row.bytes / 4), element = 0, last_lane = -1;
  visit_lds(op, [&](int lane, u64 address, u32, bool write) {
    element = lane == last_lane ? element + 1 : 0;
    last_lane = lane;
    for (int d = 0; d < dwords; ++d) {
      LdsShadow& s = lds_[address / 4 + d];
      if (row.kind == MemoryKind::atomic) {
        s.defined = true;
      } else if (write) {
        u64 valid = i.lds ? op.valid[d] : op.valid[(element ? 12 : 8) + d];
        s.defined = valid >> lane & 1;
      } else if (!s.defined) {
        if (row.kind == MemoryKind::transpose)
          op.valid[0] = op.valid[1] &= ~(u64{0xffff} << (lane & ~15));
        else
          op.valid[element * dwords + d] &= ~(u64{1} << lane);
      }
    }
  });
}

bool Checker::scratch_valid(const Wave& wave, int lane, u64 address) const {
  const WaveShadow& s = *shadows_[wave.id];
  u64 per_lane = s.scratch_valid.size() / kLanes;
  return s.scratch_valid[lane * per_lane + address / 4 % per_lane];
}

} // namespace emu
