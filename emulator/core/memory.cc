#include "core/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace emu {

void Allocation::mark(u64 address, u64 bytes) const {
  if (written && bytes)
    std::memset(written.get() + (address - base) / 4, 1,
                (address - base + bytes - 1) / 4 - (address - base) / 4 + 1);
}

bool Allocation::is_written(u64 address, u64 bytes) const {
  if (!written)
    return true;
  for (u64 dword = (address - base) / 4; dword <= (address - base + bytes - 1) / 4; ++dword)
    if (!written[dword])
      return false;
  return true;
}

const Allocation* find_allocation(const std::vector<Allocation>& sorted, u64 address) {
  auto after = std::upper_bound(sorted.begin(), sorted.end(), address,
                                [](u64 value, const Allocation& a) { return value < a.base; });
  if (after == sorted.begin())
    return nullptr;
  const Allocation& candidate = *std::prev(after);
  return address < candidate.end() ? &candidate : nullptr;
}

void* MemoryMap::allocate(u64 bytes, bool track_writes) {
  if (bytes > kDeviceMemoryBytes)
    return nullptr;
  u64 padded = (bytes + 255) / 256 * 256 + 2 * kRedZone;
  void* block = std::aligned_alloc(4096, (padded + 4095) / 4096 * 4096);
  if (!block)
    return nullptr;
  Allocation allocation;
  allocation.base = reinterpret_cast<u64>(block) + kRedZone;
  allocation.size = bytes;
  allocation.owned = true;
  allocation.block = block;
  if (track_writes && bytes) {
    auto* shadow = static_cast<u8*>(std::calloc((bytes + 3) / 4, 1));
    if (!shadow) {
      std::free(block);
      return nullptr;
    }
    allocation.written = std::shared_ptr<u8[]>(shadow, [](u8* p) { std::free(p); });
  }
  std::lock_guard lock(mutex_);
  void* result = reinterpret_cast<void*>(allocation.base);
  allocations_[allocation.base] = std::move(allocation);
  snapshot_ = nullptr;
  in_use_ += bytes;
  return result;
}

bool MemoryMap::release(void* pointer) {
  std::lock_guard lock(mutex_);
  auto found = allocations_.find(reinterpret_cast<u64>(pointer));
  if (found == allocations_.end() || !found->second.owned)
    return false;
  in_use_ -= found->second.size;
  std::free(found->second.block);
  allocations_.erase(found);
  snapshot_ = nullptr;
  return true;
}

bool MemoryMap::add_host(void* pointer, u64 bytes) {
  std::lock_guard lock(mutex_);
  Allocation allocation;
  allocation.base = reinterpret_cast<u64>(pointer);
  allocation.size = bytes;
  if (!pointer || !bytes)
    return false;
  auto after = allocations_.upper_bound(allocation.base);
  bool overlaps =
      (after != allocations_.end() && after->first < allocation.end()) ||
      (after != allocations_.begin() && std::prev(after)->second.end() > allocation.base);
  if (overlaps)
    return false;
  allocations_[allocation.base] = allocation;
  snapshot_ = nullptr;
  return true;
}

bool MemoryMap::remove_host(void* pointer) {
  std::lock_guard lock(mutex_);
  auto found = allocations_.find(reinterpret_cast<u64>(pointer));
  if (found == allocations_.end() || found->second.owned)
    return false;
  allocations_.erase(found);
  snapshot_ = nullptr;
  return true;
}

bool MemoryMap::find(const void* pointer, Allocation* out) {
  Snapshot view = snapshot();
  const Allocation* found = find_allocation(*view, reinterpret_cast<u64>(pointer));
  if (!found)
    return false;
  *out = *found;
  return true;
}

void MemoryMap::mark_written(const void* pointer, u64 bytes) {
  Allocation found;
  u64 address = reinterpret_cast<u64>(pointer);
  if (bytes && find(pointer, &found) && found.contains(address, bytes))
    found.mark(address, bytes);
}

void MemoryMap::copy_written(const void* to, const void* from, u64 bytes) {
  Allocation target, source;
  u64 to_address = reinterpret_cast<u64>(to), from_address = reinterpret_cast<u64>(from);
  if (!bytes || !find(to, &target) || !target.written || !target.contains(to_address, bytes))
    return;
  if (!find(from, &source) || !source.written || !source.contains(from_address, bytes) ||
      (to_address - target.base) % 4 != (from_address - source.base) % 4) {
    target.mark(to_address, bytes);
    return;
  }
  u64 first = (to_address - target.base) / 4;
  u64 count = (to_address - target.base + bytes - 1) / 4 - first + 1;
  std::memmove(target.written.get() + first,
               source.written.get() + (from_address - source.base) / 4, count);
}

Snapshot MemoryMap::snapshot() {
  std::lock_guard lock(mutex_);
  if (!snapshot_) {
    auto view = std::make_shared<std::vector<Allocation>>();
    for (const auto& entry : allocations_)
      view->push_back(entry.second);
    snapshot_ = view;
  }
  return snapshot_;
}

std::string MemoryMap::describe(u64 address) {
  Snapshot view = snapshot();
  auto after = std::upper_bound(view->begin(), view->end(), address,
                                [](u64 value, const Allocation& a) { return value < a.base; });
  u64 past = after != view->begin() ? address - std::prev(after)->end() : ~u64{0};
  u64 ahead = after != view->end() ? after->base - address : ~u64{0};
  constexpr u64 kNear = u64{1} << 30;
  char text[160];
  if (past <= ahead && past < kNear) {
    std::snprintf(text, sizeof text, "%llu bytes past the end of an allocation of %llu bytes",
                  static_cast<unsigned long long>(past),
                  static_cast<unsigned long long>(std::prev(after)->size));
    return text;
  }
  if (ahead < past && ahead < kNear) {
    std::snprintf(text, sizeof text, "%llu bytes before an allocation of %llu bytes",
                  static_cast<unsigned long long>(ahead),
                  static_cast<unsigned long long>(after->size));
    return text;
  }
  return "near no allocation";
}

MemoryMap& device_memory() {
  static MemoryMap map;
  return map;
}

} // namespace emu
