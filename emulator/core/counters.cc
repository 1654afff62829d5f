#include "core/counters.h"

#include <algorithm>

#include "core/memory_exec.h"
#include "core/workgroup.h"

namespace emu {

const char* const kClassNames[kNumClasses] = {"valu",   "packed",  "transcendental", "mfma",
                                              "lds",    "vmem",    "smem",           "salu",
                                              "branch", "internal"};

void Counters::add(const Counters& o) {
  for (int k = 0; k < kNumClasses; ++k)
    instructions[k] += o.instructions[k];
  u64 Counters::* fields[] = {&Counters::barriers,
                              &Counters::waits,
                              &Counters::mfma_passes,
                              &Counters::lds_clocks,
                              &Counters::lds_conflict_clocks,
                              &Counters::lds_bytes,
                              &Counters::global_read_bytes,
                              &Counters::global_write_bytes,
                              &Counters::global_to_lds_bytes,
                              &Counters::atomic_bytes,
                              &Counters::scratch_bytes,
                              &Counters::flops,
                              &Counters::workgroups,
                              &Counters::waves};
  for (auto field : fields)
    this->*field += o.*field;
}

u64 Counters::total() const {
  u64 sum = 0;
  for (u64 n : instructions)
    sum += n;
  return sum;
}

namespace {

constexpr u32 kBanks = 64;

// Lanes the LDS serves in one clock: group of lane `lane` for this access.
u32 lane_group(const Instruction& i, u32 lane) {
  const MemoryRow& row = i.row->memory;
  if (row.kind == MemoryKind::load && row.bytes == 16) {
    // {0-3, 12-15, 20-23, 24-27} and that set XOR 32, 4, 36
    u32 quad = lane / 4 % 8; // position inside 32 lanes
    bool first = quad == 0 || quad == 3 || quad == 5 || quad == 6;
    return (lane >= 32 ? 2 : 0) + (first ? 0 : 1);
  }
  if (row.bytes >= 12)
    return lane / 16;
  return row.bytes == 8 ? lane / 32 : 0;
}

u32 num_groups(const MemoryRow& row) { return row.bytes >= 12 ? 4 : row.bytes == 8 ? 2 : 1; }

} // namespace

// For every lane group, the largest number of different dwords in one bank; an empty group costs 1.
u32 lds_transfer_clocks(const Instruction& i, const u64* address, u64 exec, u32* conflict_free) {
  const MemoryRow& row = i.row->memory;
  u32 groups = num_groups(row), dwords = std::max(1, row.bytes / 4), total = 0;
  for (u32 group = 0; group < groups; ++group) {
    u64 seen[kBanks][8];
    u8 count[kBanks] = {};
    u32 worst = 1;
    for (u32 lane = 0; lane < kLanes; ++lane) {
      if (!(exec >> lane & 1) || lane_group(i, lane) != group)
        continue;
      for (u32 d = 0; d < dwords; ++d) {
        u64 dword = address[lane] / 4 + d;
        u32 bank = dword % kBanks, n = std::min<u32>(count[bank], 8);
        if (std::find(seen[bank], seen[bank] + n, dword) != seen[bank] + n)
          continue;
        if (count[bank] < 8)
          seen[bank][count[bank]] = dword;
        worst = std::max<u32>(worst, ++count[bank]);
      }
    }
    total += worst;
  }
  *conflict_free = groups;
  return total;
}

void count_memory(Wave& wave, const PendingOp& op) {
  const Instruction& i = *op.instruction;
  const MemoryRow& row = i.row->memory;
  Counters& c = wave.group->counters;
  u64 lanes = static_cast<u64>(std::popcount(op.exec));
  if (i.format == Format::ds) {
    int elements = lds_elements(i);
    u64 address[kLanes];
    u32 clocks = 0, ideal = 0;
    for (int e = 0; e < elements; ++e) {
      u32 free = 0;
      for (int lane = 0; lane < kLanes; ++lane)
        address[lane] = lds_element_address(op, lane, e);
      clocks += lds_transfer_clocks(i, address, op.exec, &free);
      ideal += free;
    }
    c.lds_clocks += clocks;
    c.lds_conflict_clocks += clocks - ideal;
    c.lds_bytes += lanes * row.bytes * static_cast<u64>(elements);
    if (!wave.group->trace.empty() && !wave.group->trace[wave.id].empty())
      wave.group->trace[wave.id].back().lds_clocks = static_cast<u16>(std::min(clocks, 65535u));
    return;
  }
  if (i.format == Format::smem) {
    c.global_read_bytes += 4 * i.row->dest_width;
    return;
  }
  u64 bytes = lanes * row.bytes;
  if (i.format == Format::flat && i.segment == 1)
    c.scratch_bytes += bytes;
  else if (row.kind == MemoryKind::atomic)
    c.atomic_bytes += bytes;
  else if (row.kind == MemoryKind::store)
    c.global_write_bytes += bytes;
  else if (i.lds)
    c.global_to_lds_bytes += bytes;
  else
    c.global_read_bytes += bytes;
}

} // namespace emu
