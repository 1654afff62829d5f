// Who touched which part of the LDS: races between waves, transfers in flight, undefined data.
#include <algorithm>

#include "core/checker.h"
#include "core/memory_exec.h"
#include "core/workgroup.h"
#include "isa/disassemble.h"

namespace emu {

// Calls visit(lane, address, bytes, write, element) for every access of the operation that lies
// inside the LDS.
template <class Visit> void Checker::visit_lds(const PendingOp& op, Visit visit) {
  const Instruction& i = *op.instruction;
  const MemoryRow& row = i.row->memory;
  if (i.lds) {
    for (int lane = 0; lane < kLanes; ++lane) {
      u64 address = op.lds_address + u64{row.bytes} * lane;
      if ((op.exec >> lane & 1) && address + row.bytes <= group_.lds.size())
        visit(lane, address, row.bytes, true, 0);
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
        visit(lane, address, row.bytes, write, e);
    }
}

void Checker::set_in_flight(const PendingOp& op, u64 address, u32 bytes, u32 waves, bool on) {
  if (op.instruction->lds && waits_)
    for (u64 d = address / unit_; d < (address + bytes) / unit_; ++d)
      lds_[d].in_flight = on ? lds_[d].in_flight | waves : lds_[d].in_flight & ~waves;
}

void Checker::issued_lds(Wave& wave, PendingOp& op) {
  visit_lds(op, [&](int lane, u64 address, u32 bytes, bool write, int element) {
    access_lds(wave, op, address, bytes, write, lane, element);
    set_in_flight(op, address, bytes, u32{1} << wave.id, true);
  });
}

// An access may really happen at any time until it is retired: one that crossed a barrier counts
// again, and so does a transfer, which others may only see after the next barrier.
void Checker::retired_lds(Wave& wave, PendingOp& op) {
  if (!op.instruction->lds && op.epoch == wave.epoch)
    return;
  visit_lds(op, [&](int lane, u64 address, u32 bytes, bool write, int element) {
    set_in_flight(op, address, bytes, u32{1} << wave.id, false);
    access_lds(wave, op, address, bytes, write, lane, element);
  });
}

Checker::Stored Checker::stored_value(const PendingOp& op, int lane, int element,
                                      u64 offset) const {
  const MemoryRow& row = op.instruction->row->memory;
  if (op.instruction->lds) {
    u64 inside = op.in_range[offset / 4] >> lane & 1;
    return {u64{1} << 63 | inside << 62 | (op.address[lane] + offset), true};
  }
  if (row.kind != MemoryKind::store)
    return {0, false};
  u32 value = op.data[element * std::max(1, row.bytes / 4) + offset / 4][lane];
  if (row.extend == Extend::high_half)
    value >>= 16;
  return {unit_ == 4 ? value : value >> 8 * (offset % 4) & 255, true};
}

void Checker::race(Wave& wave, const PendingOp& op, int lane, u64 address, const char* kind,
                   u32 other, const Instruction* other_at) {
  std::string at =
      other_at ? " ('" + disassemble(*other_at) + "' at pc " + hex(other_at->pc) + ")" : "";
  fault(wave, *op.instruction, Fault::race,
        "lane " + std::to_string(lane) + ": LDS address " + std::to_string(address) + ": " + kind +
            " wave " + std::to_string(other) + at + " with no barrier in between");
}

// Two waves conflict in one epoch when one of them writes, unless both only store the same value.
void Checker::check_race(Wave& wave, const PendingOp& op, const LdsShadow& s, u64 address,
                         bool write, int lane, Stored stored) {
  auto is_atomic = [](const Instruction* i) {
    return i && i->row->memory.kind == MemoryKind::atomic;
  };
  u32 self = u32{1} << wave.id;
  bool both_atomic = is_atomic(op.instruction) && is_atomic(s.writer_at);
  u32 writers = s.write_epoch == wave.epoch ? s.writers : 0;
  bool same_value = stored.known && s.value_known && stored.value == s.value;
  bool harmless = write ? same_value : (writers & self) != 0;
  if ((writers & ~self) && !harmless && !both_atomic)
    race(wave, op, lane, address, write ? "written, but also written by" : "read, but written by",
         static_cast<u32>(std::countr_zero(writers & ~self)), s.writer_at);
  u32 readers = s.read_epoch == wave.epoch ? s.readers & ~self : 0;
  if (write && same_value)
    readers &= ~writers;
  if (write && readers && !is_atomic(op.instruction))
    race(wave, op, lane, address, "written, but read by",
         static_cast<u32>(std::countr_zero(readers)), s.reader_at);
}

void Checker::access_lds(Wave& wave, const PendingOp& op, u64 address, u32 bytes, bool write,
                         int lane, int element) {
  u32 self = u32{1} << wave.id;
  for (u64 d = address / unit_; d <= (address + bytes - 1) / unit_; ++d) {
    LdsShadow& s = lds_[d];
    u64 at = d * unit_;
    // Another wave may still be filling in the value that this wave has already put here.
    bool own_copy = s.write_epoch == wave.epoch && (s.writers & self) && s.value_known;
    u32 filling = own_copy ? s.in_flight & self : s.in_flight;
    if (waits_ && filling && !op.instruction->lds)
      fault(wave, *op.instruction, Fault::wait,
            "lane " + std::to_string(lane) + ": LDS address " + std::to_string(at) +
                " is still being filled by wave " + std::to_string(std::countr_zero(filling)) +
                " ('" + disassemble(*s.writer_at) + "' at pc " + hex(s.writer_at->pc) +
                "); its s_waitcnt vmcnt is missing in between");
    if (uninitialised_ && !write && !s.written)
      fault(wave, *op.instruction, Fault::uninitialised,
            "lane " + std::to_string(lane) + ": LDS address " + std::to_string(at) +
                " was never written");
    Stored stored = write ? stored_value(op, lane, element, at - address) : Stored{0, false};
    if (races_)
      check_race(wave, op, s, at, write, lane, stored);
    if (write) {
      s.writers = s.write_epoch == wave.epoch ? s.writers | self : self;
      s.write_epoch = wave.epoch;
      s.writer_at = op.instruction;
      s.value = stored.value;
      s.value_known = stored.known;
      s.written = true;
    } else {
      s.readers = s.read_epoch == wave.epoch ? s.readers | self : self;
      s.read_epoch = wave.epoch;
      s.reader_at = op.instruction;
    }
  }
}

// Whether LDS data is defined follows the data through stores, transfers and loads.
void Checker::propagate_lds(Wave&, PendingOp& op) {
  const Instruction& i = *op.instruction;
  const MemoryRow& row = i.row->memory;
  int dwords = std::max(1, row.bytes / 4);
  visit_lds(op, [&](int lane, u64 address, u32 bytes, bool write, int element) {
    for (u64 at = address; at < address + bytes; at += unit_) {
      LdsShadow& s = lds_[at / unit_];
      u64 d = (at - address) / 4;
      if (row.kind == MemoryKind::atomic) {
        s.defined = true;
      } else if (write) {
        u64 valid = i.lds ? op.valid[d] : op.valid[(element ? 12 : 8) + d];
        s.defined = valid >> lane & 1;
      } else if (!s.defined) {
        if (row.kind == MemoryKind::transpose)
          op.valid[0] = op.valid[1] &= ~(u64{0xffff} << (lane & ~15));
        else
          op.valid[static_cast<u64>(element * dwords) + d] &= ~(u64{1} << lane);
      }
    }
  });
}

} // namespace emu
