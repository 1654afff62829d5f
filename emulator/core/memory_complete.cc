// Completion of memory operations: the moment their effect becomes visible.
#include <algorithm>
#include <cstring>

#include "core/checker.h"
#include "core/memory_exec.h"
#include "core/workgroup.h"

namespace emu {
namespace {

u8* lds_at(Wave& wave, const PendingOp& op, int lane, u64 address, u32 bytes) {
  const Instruction& i = *op.instruction;
  auto& lds = wave.group->lds;
  u32 align = bytes >= 4 ? 4 : bytes;
  if (address % align)
    fault(wave, i, Fault::bounds,
          "lane " + std::to_string(lane) + ": misaligned LDS address " + std::to_string(address));
  if (address + bytes <= lds.size())
    return lds.data() + address;
  if (wave.group->launch->check_bounds)
    fault(wave, i, Fault::bounds,
          "lane " + std::to_string(lane) + ": LDS address " + std::to_string(address) + " + " +
              std::to_string(bytes) + " is outside the " + std::to_string(lds.size()) +
              " bytes of the workgroup");
  return nullptr;
}

// The host bytes of a global address, or null (reads as zero, writes vanish) when it is outside
// every allocation and bounds are not checked.
u8* global_at(Wave& wave, const PendingOp& op, int lane, u64 address, u32 bytes) {
  const Allocation* a = wave.last_allocation;
  if (a && a->contains(address, bytes))
    return reinterpret_cast<u8*>(address);
  const Launch& launch = *wave.group->launch;
  a = find_allocation(*launch.memory, address);
  if (a && a->contains(address, bytes)) {
    wave.last_allocation = a;
    return reinterpret_cast<u8*>(address);
  }
  if (!launch.check_bounds)
    return nullptr;
  char text[96];
  std::snprintf(text, sizeof text, "lane %d: %u bytes at address 0x%llx, ", lane, bytes,
                static_cast<unsigned long long>(address));
  fault(wave, *op.instruction, Fault::bounds, text + device_memory().describe(address));
}

u8* scratch_at(Wave& wave, const PendingOp& op, int lane, u64 address, u32 bytes) {
  u64 size = wave.scratch.size() / kLanes;
  if (address + bytes <= size)
    return wave.scratch.data() + static_cast<u64>(lane) * size + address;
  if (wave.group->launch->check_bounds)
    fault(wave, *op.instruction, Fault::bounds,
          "lane " + std::to_string(lane) + ": scratch address " + std::to_string(address) +
              " is outside its " + std::to_string(size) + " bytes");
  return nullptr;
}

u32 extend(u32 value, const MemoryRow& row, u32 old) {
  switch (row.extend) {
  case Extend::sign:
    return row.bytes == 1 ? static_cast<u32>(static_cast<i32>(static_cast<i8>(value)))
                          : static_cast<u32>(static_cast<i32>(static_cast<i16>(value)));
  case Extend::low_half:
    return (old & 0xffff0000u) | (value & 0xffff);
  case Extend::high_half:
    return (old & 0xffff) | value << 16;
  default:
    return value;
  }
}

void load_registers(Wave& wave, u16 reg, int lane, const u8* from, const MemoryRow& row) {
  if (row.bytes < 4) {
    u32 value = 0;
    std::memcpy(&value, from, row.bytes);
    u32* to = wave.lanes(reg) + lane;
    *to = extend(value, row, *to);
    return;
  }
  for (u32 d = 0; d < row.bytes / 4u; ++d)
    std::memcpy(wave.lanes(reg + d) + lane, from + 4 * d, 4);
}

void store_bytes(u8* to, const PendingOp& op, int first, int lane, const MemoryRow& row) {
  if (row.bytes < 4) {
    u32 value = op.data[first][lane] >> (row.extend == Extend::high_half ? 16 : 0);
    std::memcpy(to, &value, row.bytes);
    return;
  }
  for (u32 d = 0; d < row.bytes / 4u; ++d)
    std::memcpy(to + 4 * d, &op.data[first + d][lane], 4);
}

u32 atomic_update(u8* at, AtomicKind kind, u32 operand, u32 compare) {
  u32* word = reinterpret_cast<u32*>(at);
  u32 old = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &old, combine(kind, old, operand, compare), false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

void complete_transpose(Wave& wave, PendingOp& op) {
  const Instruction& i = *op.instruction;
  u16 halves[kLanes][4] = {};
  for (int group = 0; group < kLanes; group += 16) {
    u64 active = op.exec >> group & 0xffff;
    if (active == 0)
      continue;
    if (active != 0xffff)
      fault(wave, i, Fault::unsupported, "transposed read with part of a lane group inactive");
    for (int lane = group; lane < group + 16; ++lane) {
      if (op.address[lane] % 8)
        fault(wave, i, Fault::bounds,
              "lane " + std::to_string(lane) + ": transposed read needs multiples of 8 bytes");
      if (const u8* from = lds_at(wave, op, lane, op.address[lane], 8))
        std::memcpy(halves[lane], from, 8);
    }
    for (int k = 0; k < 16; ++k)
      for (int d = 0; d < 2; ++d) {
        u32 low = halves[group + 8 * d + k / 4][k % 4];
        u32 high = halves[group + 8 * d + 4 + k / 4][k % 4];
        wave.lanes(i.dest + d)[group + k] = low | high << 16;
      }
  }
}

void complete_lane_exchange(Wave& wave, PendingOp& op) {
  const Instruction& i = *op.instruction;
  alignas(64) Lanes result = {};
  u32 pattern = i.offset0 | i.offset1 << 8;
  for (u32 lane = 0; lane < kLanes; ++lane) {
    u32 other = static_cast<u32>(op.address[lane] / 4 % kLanes);
    if (i.row->memory.kind == MemoryKind::permute) {
      if (op.exec >> lane & 1)
        result[other] = op.data[0][lane];
      continue;
    }
    if (i.row->memory.kind == MemoryKind::swizzle) {
      if (pattern & 0x8000)
        other = (lane & ~3u) | (pattern >> 2 * (lane & 3) & 3);
      else
        other =
            (lane & 32) | ((((lane & 31) & pattern) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31));
    }
    result[lane] = op.exec >> other & 1 ? op.data[0][other] : 0;
  }
  u32* to = wave.lanes(i.dest);
  for (int lane = 0; lane < kLanes; ++lane)
    if (op.exec >> lane & 1)
      to[lane] = result[lane];
}

void complete_ds(Wave& wave, PendingOp& op) {
  const Instruction& i = *op.instruction;
  const MemoryRow& row = i.row->memory;
  int elements = lds_elements(i), dwords = std::max(1, row.bytes / 4);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(op.exec >> lane & 1))
      continue;
    for (int e = 0; e < elements; ++e) {
      u8* at = lds_at(wave, op, lane, lds_element_address(op, lane, e), row.bytes);
      if (row.kind == MemoryKind::load) {
        static const u8 zeros[16] = {};
        load_registers(wave, i.dest + e * dwords, lane, at ? at : zeros, row);
      } else if (at && row.kind == MemoryKind::store) {
        store_bytes(at, op, e * dwords, lane, row);
      } else if (at) {
        u32 old = atomic_update(at, row.atomic, op.data[0][lane], op.data[1][lane]);
        if (i.dest != kNoRegister)
          wave.lanes(i.dest)[lane] = old;
      }
    }
  }
}

bool all_dwords_in_range(const PendingOp& op, int lane, int dwords) {
  for (int d = 0; d < dwords; ++d)
    if (!(op.in_range[d] >> lane & 1))
      return false;
  return true;
}

// Loads one lane; dwords outside the descriptor's range are zero.
void load_lane(Wave& wave, PendingOp& op, int lane, u8* buffer) {
  const MemoryRow& row = op.instruction->row->memory;
  int dwords = std::max(1, row.bytes / 4);
  u32 each = std::min<u32>(4, row.bytes);
  bool scratch = op.instruction->format == Format::flat && op.instruction->segment == 1;
  bool track = wave.group->launch->check_uninitialised;
  std::memset(buffer, 0, 16);
  if (all_dwords_in_range(op, lane, dwords)) { // one lookup for the usual case
    u8* at = scratch ? scratch_at(wave, op, lane, op.address[lane], row.bytes)
                     : global_at(wave, op, lane, op.address[lane], row.bytes);
    if (at)
      std::memcpy(buffer, at, row.bytes);
    if (track && at)
      for (int d = 0; d < dwords; ++d) {
        bool written = scratch ? wave.checker->scratch_valid(wave, lane, op.address[lane] + 4 * d)
                               : wave.last_allocation->is_written(op.address[lane] + 4 * d, each);
        if (!written)
          op.valid[d] &= ~(u64{1} << lane);
      }
    return;
  }
  for (int d = 0; d < dwords; ++d) {
    if (!(op.in_range[d] >> lane & 1))
      continue;
    u64 address = op.address[lane] + 4 * d;
    if (u8* at = global_at(wave, op, lane, address, each)) {
      std::memcpy(buffer + 4 * d, at, each);
      if (track && !wave.last_allocation->is_written(address, each))
        op.valid[d] &= ~(u64{1} << lane);
    }
  }
}

void store_lane(Wave& wave, PendingOp& op, int lane) {
  const MemoryRow& row = op.instruction->row->memory;
  int dwords = std::max(1, row.bytes / 4);
  if (op.instruction->format == Format::flat && op.instruction->segment == 1) {
    if (u8* at = scratch_at(wave, op, lane, op.address[lane], row.bytes))
      store_bytes(at, op, 0, lane, row);
    return;
  }
  bool whole = all_dwords_in_range(op, lane, dwords);
  if (row.bytes < 4 || whole) {
    if (!whole)
      return;
    if (u8* at = global_at(wave, op, lane, op.address[lane], row.bytes)) {
      store_bytes(at, op, 0, lane, row);
      wave.last_allocation->mark(op.address[lane], row.bytes);
    }
    return;
  }
  for (int d = 0; d < dwords; ++d)
    if (op.in_range[d] >> lane & 1)
      if (u8* at = global_at(wave, op, lane, op.address[lane] + 4 * d, 4)) {
        std::memcpy(at, &op.data[d][lane], 4);
        wave.last_allocation->mark(op.address[lane] + 4 * d, 4);
      }
}

void atomic_lane(Wave& wave, PendingOp& op, int lane) {
  const Instruction& i = *op.instruction;
  u32 old = 0;
  if (op.in_range[0] >> lane & 1) {
    if (op.address[lane] % 4)
      fault(wave, i, Fault::bounds, "lane " + std::to_string(lane) + ": misaligned atomic");
    if (u8* at = global_at(wave, op, lane, op.address[lane], 4)) {
      old = atomic_update(at, i.row->memory.atomic, op.data[0][lane], op.data[1][lane]);
      if (wave.group->launch->check_uninitialised &&
          !wave.last_allocation->is_written(op.address[lane], 4))
        fault(wave, i, Fault::uninitialised,
              "lane " + std::to_string(lane) + ": atomic on memory that was never written");
      wave.last_allocation->mark(op.address[lane], 4);
    }
  }
  if (i.returns)
    wave.lanes(i.dest)[lane] = old;
}

void complete_vector_memory(Wave& wave, PendingOp& op) {
  const Instruction& i = *op.instruction;
  const MemoryRow& row = i.row->memory;
  std::fill(op.valid, op.valid + 4, ~u64{0});
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(op.exec >> lane & 1))
      continue;
    if (row.kind == MemoryKind::atomic) {
      atomic_lane(wave, op, lane);
    } else if (row.kind == MemoryKind::store) {
      store_lane(wave, op, lane);
    } else {
      alignas(16) u8 buffer[16];
      load_lane(wave, op, lane, buffer);
      if (!i.lds) {
        load_registers(wave, i.dest, lane, buffer, row);
      } else if (u8* to =
                     lds_at(wave, op, lane, op.lds_address + u64{row.bytes} * lane, row.bytes)) {
        std::memcpy(to, buffer, row.bytes);
      }
    }
  }
}

void complete_smem(Wave& wave, PendingOp& op) {
  const Instruction& i = *op.instruction;
  for (u32 d = 0; d < i.row->dest_width; ++d) {
    u32 value = 0;
    u64 address = op.address[0] + 4 * d;
    op.valid[d] = ~u64{0};
    if (op.in_range[0] >> d & 1)
      if (u8* at = global_at(wave, op, 0, address, 4)) {
        std::memcpy(&value, at, 4);
        if (!wave.last_allocation->is_written(address, 4))
          op.valid[d] = 0;
      }
    wave.s[i.dest + d] = value;
  }
}

} // namespace

void complete(Wave& wave, PendingOp& op) {
  const Instruction& i = *op.instruction;
  op.completed = true;
  if (i.format == Format::smem) {
    complete_smem(wave, op);
  } else if (i.format == Format::ds) {
    std::fill(op.valid, op.valid + 8, ~u64{0});
    MemoryKind kind = i.row->memory.kind;
    if (kind == MemoryKind::transpose)
      complete_transpose(wave, op);
    else if (kind == MemoryKind::bpermute || kind == MemoryKind::permute ||
             kind == MemoryKind::swizzle)
      complete_lane_exchange(wave, op);
    else
      complete_ds(wave, op);
  } else if (i.row->memory.kind != MemoryKind::cache) {
    complete_vector_memory(wave, op);
  }
  if (wave.checker)
    wave.checker->completed(wave, op);
}

} // namespace emu
