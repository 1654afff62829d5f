// Issue of memory instructions: addresses and store data are captured, then the operation is
// completed at once or queued until a wait retires it.
#include <algorithm>
#include <cstring>

#include "core/checker.h"
#include "core/memory_exec.h"
#include "core/workgroup.h"
#include "isa/rows_memory.h"
#include "isa/rows_scalar.h"

namespace emu {
namespace {

PendingOp& begin(Wave& wave, const Instruction& i, std::unique_ptr<PendingOp>& holder) {
  if (wave.free_ops.empty()) {
    holder = std::make_unique<PendingOp>();
  } else {
    holder = std::move(wave.free_ops.back());
    wave.free_ops.pop_back();
  }
  holder->instruction = &i;
  holder->exec = wave.exec();
  holder->epoch = wave.epoch;
  holder->completed = false;
  return *holder;
}

void submit(Wave& wave, std::unique_ptr<PendingOp> op, Queue queue) {
  const Launch& launch = *wave.group->launch;
  if (launch.knobs.count)
    count_memory(wave, *op);
  if (wave.checker)
    wave.checker->issued(wave, *op, queue);
  if (!launch.knobs.complete_at_wait) {
    complete(wave, *op);
    if (!wave.checker) {
      wave.free_ops.push_back(std::move(op));
      return;
    }
  }
  auto& list = queue == Queue::vector ? wave.vector_queue : wave.lgkm_queue;
  list.push_back(std::move(op));
  if (queue == Queue::vector && list.size() > 64) // the hardware counter holds no more
    retire(wave, queue, 64);
}

void capture_data(const Wave& wave, PendingOp& op, u16 reg, int dwords, int at = 0) {
  for (int d = 0; d < dwords; ++d)
    std::memcpy(op.data[at + d], wave.lanes(reg + d), sizeof(Lanes));
}

int data_dwords(const MemoryRow& row) {
  return row.atomic == AtomicKind::cmpswap ? 2 : (row.bytes + 3) / 4;
}

void issue_ds(Wave& wave, const Instruction& i) {
  std::unique_ptr<PendingOp> holder;
  PendingOp& op = begin(wave, i, holder);
  const MemoryRow& row = i.row->memory;
  const u32* address = wave.lanes(i.address);
  u32 offset = row.stride ? 0 : i.offset0 | i.offset1 << 8;
  bool cross_lane = row.kind == MemoryKind::bpermute || row.kind == MemoryKind::permute;
  for (int lane = 0; lane < kLanes; ++lane)
    op.address[lane] = cross_lane ? (address[lane] + offset) : u64{address[lane]} + offset;
  int dwords = (row.bytes + 3) / 4;
  if (row.kind == MemoryKind::swizzle) {
    capture_data(wave, op, i.address, 1);
  } else if (i.data != kNoRegister &&
             (row.kind == MemoryKind::store || row.kind == MemoryKind::atomic || cross_lane)) {
    capture_data(wave, op, i.data, dwords);
    if (row.stride)
      capture_data(wave, op, i.data2, dwords, dwords);
  }
  submit(wave, std::move(holder), Queue::lgkm);
}

struct Descriptor {
  u64 base;
  u32 stride, records;
};

Descriptor read_descriptor(const Wave& wave, const Instruction& i) {
  const u32* w = wave.s + i.base;
  if (w[1] >> 31 || w[3] >> 23 & 1)
    fault(wave, i, Fault::unsupported, "buffer descriptor with swizzle or add_tid");
  return {w[0] | u64{w[1] & 0xffff} << 32, w[1] >> 16 & 0x3fff, w[2]};
}

void issue_mubuf(Wave& wave, const Instruction& i) {
  std::unique_ptr<PendingOp> holder;
  PendingOp& op = begin(wave, i, holder);
  const MemoryRow& row = i.row->memory;
  if (row.kind == MemoryKind::cache) {
    op.exec = 0;
    submit(wave, std::move(holder), Queue::vector);
    return;
  }
  Descriptor descriptor = read_descriptor(wave, i);
  u32 scalar = read_scalar(wave, i.offset_source, i.offset_constant);
  const u32* index = i.index_enable ? wave.lanes(i.address) : nullptr;
  const u32* vector = i.offset_enable ? wave.lanes(i.address + (i.index_enable ? 1 : 0)) : nullptr;
  int dwords = std::max(1, row.bytes / 4);
  bool by_index = index && descriptor.stride != 0;
  std::fill(op.in_range, op.in_range + 4, 0);
  for (int lane = 0; lane < kLanes; ++lane) {
    u32 offset = (vector ? vector[lane] : 0) + static_cast<u32>(i.offset);
    u64 record = index ? index[lane] : 0;
    op.address[lane] = descriptor.base + scalar + record * descriptor.stride + offset;
    for (int d = 0; d < dwords; ++d) {
      u64 end = u64{offset} + scalar + 4 * d + std::min<u32>(4, row.bytes);
      bool inside = by_index ? record < descriptor.records : end <= descriptor.records;
      op.in_range[d] |= static_cast<u64>(inside) << lane;
    }
  }
  if (row.kind != MemoryKind::load)
    capture_data(wave, op, i.data, data_dwords(row));
  if (i.lds)
    op.lds_address = wave.s[kM0] + static_cast<u32>(i.offset);
  submit(wave, std::move(holder), Queue::vector);
}

void issue_flat(Wave& wave, const Instruction& i) {
  if (i.segment == 0)
    fault(wave, i, Fault::unsupported, "flat address space");
  std::unique_ptr<PendingOp> holder;
  PendingOp& op = begin(wave, i, holder);
  const MemoryRow& row = i.row->memory;
  const u32* low = i.address != kNoRegister ? wave.lanes(i.address) : nullptr;
  bool scalar_base = i.base != kNoRegister;
  if (i.segment == 1) {
    u32 scalar = scalar_base ? wave.s[i.base] : 0;
    for (int lane = 0; lane < kLanes; ++lane)
      op.address[lane] = static_cast<u32>((low ? low[lane] : 0) + scalar + i.offset);
  } else {
    const u32* high = scalar_base ? nullptr : wave.lanes(i.address + 1);
    u64 scalar = scalar_base ? wave.pair(i.base) : 0;
    for (int lane = 0; lane < kLanes; ++lane)
      op.address[lane] = scalar + low[lane] + (high ? u64{high[lane]} << 32 : 0) +
                         static_cast<u64>(static_cast<i64>(i.offset));
  }
  std::fill(op.in_range, op.in_range + 4, ~u64{0});
  if (row.kind != MemoryKind::load)
    capture_data(wave, op, i.data, data_dwords(row));
  if (i.lds)
    op.lds_address = wave.s[kM0] + static_cast<u32>(i.offset);
  submit(wave, std::move(holder), Queue::vector);
}

void issue_smem(Wave& wave, const Instruction& i) {
  std::unique_ptr<PendingOp> holder;
  PendingOp& op = begin(wave, i, holder);
  u64 offset = static_cast<u64>(static_cast<i64>(i.offset));
  if (i.offset_source != kNoRegister)
    offset += read_scalar(wave, i.offset_source, i.offset_constant);
  op.exec = ~u64{0};
  u32 dwords = i.row->dest_width;
  op.in_range[0] = ~u64{0};
  if (i.row->opcode >= 8) {
    Descriptor descriptor = read_descriptor(wave, i);
    u64 size =
        descriptor.stride ? u64{descriptor.records} * descriptor.stride : u64{descriptor.records};
    op.in_range[0] = 0;
    for (u32 d = 0; d < dwords; ++d)
      op.in_range[0] |= static_cast<u64>((offset & ~u64{3}) + 4 * d + 4 <= size) << d;
    op.address[0] = (descriptor.base + offset) & ~u64{3};
  } else {
    op.address[0] = (wave.pair(i.base) + offset) & ~u64{3};
  }
  submit(wave, std::move(holder), Queue::lgkm);
}

// clang-format off
#define DS_ROW(name, opcode, kind, bytes, unit, extend, atomic)                                    \
  {#name, opcode, kCrossLane, 0, {0, 0, 0}, issue_ds,                                              \
   {MemoryKind::kind, bytes, unit, Extend::extend, AtomicKind::atomic}, {}, Class::lds},
#define MUBUF_ROW(name, opcode, kind, bytes, extend, atomic)                                       \
  {#name, opcode, kCrossLane, 0, {0, 0, 0}, issue_mubuf,                                           \
   {MemoryKind::kind, bytes, 0, Extend::extend, AtomicKind::atomic}, {}, Class::vmem},
#define FLAT_ROW(name, opcode, kind, bytes, extend, atomic)                                        \
  {#name, opcode, kCrossLane, 0, {0, 0, 0}, issue_flat,                                            \
   {MemoryKind::kind, bytes, 0, Extend::extend, AtomicKind::atomic}, {}, Class::vmem},
#define SMEM_ROW(name, opcode, dwords)                                                             \
  {#name, opcode, kInteger, dwords, {0, 0, 0}, issue_smem, {MemoryKind::load, 4}, {}, Class::smem},
const Row kDs[] = {DS_ROWS(DS_ROW)};
const Row kMubuf[] = {MUBUF_ROWS(MUBUF_ROW)};
const Row kFlat[] = {FLAT_ROWS(FLAT_ROW)};
const Row kSmem[] = {SMEM_ROWS(SMEM_ROW)};
// clang-format on

} // namespace

std::span<const Row> ds_rows() { return kDs; }
std::span<const Row> mubuf_rows() { return kMubuf; }
std::span<const Row> flat_rows() { return kFlat; }
std::span<const Row> smem_rows() { return kSmem; }

void retire(Wave& wave, Queue queue, u32 keep) {
  auto& list = queue == Queue::vector ? wave.vector_queue : wave.lgkm_queue;
  if (list.size() <= keep)
    return;
  if (queue == Queue::lgkm && keep != 0)
    for (const auto& op : list) // scalar loads return in any order: only zero proves anything
      if (op->instruction->format == Format::smem)
        return;
  size_t count = list.size() - keep;
  for (size_t k = 0; k < count; ++k) {
    PendingOp& op = *list[k];
    if (!op.completed)
      complete(wave, op);
    if (wave.checker)
      wave.checker->retired(wave, op, queue);
    wave.free_ops.push_back(std::move(list[k]));
  }
  list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count));
}

void retire_all(Wave& wave) {
  retire(wave, Queue::vector, 0);
  retire(wave, Queue::lgkm, 0);
}

} // namespace emu
