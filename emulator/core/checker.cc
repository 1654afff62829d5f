// Waits for registers, and undefined data seen by memory operations.
#include "core/checker.h"

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
  for (const Instruction& i : group.launch->kernel->program.code)
    if (i.format == Format::ds && i.row->memory.bytes < 4)
      unit_ = 1;
  lds_.resize((group.lds.size() + unit_ - 1) / unit_);
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
  issued_lds(wave, op);
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
  retired_lds(wave, op);
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

bool Checker::scratch_valid(const Wave& wave, int lane, u64 address) const {
  const WaveShadow& s = *shadows_[wave.id];
  u64 per_lane = s.scratch_valid.size() / kLanes;
  return s.scratch_valid[lane * per_lane + address / 4 % per_lane];
}

} // namespace emu
