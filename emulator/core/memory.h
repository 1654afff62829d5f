// Device memory: which host bytes a kernel may touch, and which of them were ever written.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/types.h"

namespace emu {

struct Allocation {
  u64 base = 0, size = 0;
  bool owned = false;            // allocated here, not registered host memory
  std::shared_ptr<u8[]> written; // one byte a dword; null: all of it counts as written
  void* block = nullptr;         // what to free, red zones included

  u64 end() const { return base + size; }
  bool contains(u64 address, u64 bytes) const {
    return address >= base && address - base <= size && size - (address - base) >= bytes;
  }
  void mark(u64 address, u64 bytes) const;
  bool is_written(u64 address, u64 bytes) const;
};

// Immutable view that a launch reads without locks.
using Snapshot = std::shared_ptr<const std::vector<Allocation>>;

const Allocation* find_allocation(const std::vector<Allocation>& sorted, u64 address);

class MemoryMap {
public:
  // Returns null when there is no memory. A fresh allocation counts as never written.
  void* allocate(u64 bytes, bool track_writes);
  bool release(void* pointer);
  bool add_host(void* pointer, u64 bytes);
  bool remove_host(void* pointer);
  void mark_written(const void* pointer, u64 bytes);
  void copy_written(const void* to, const void* from, u64 bytes);
  bool find(const void* pointer, Allocation* out);
  // Where an address outside every allocation lies, in words.
  std::string describe(u64 address);
  Snapshot snapshot();
  u64 bytes_in_use() const { return in_use_; }

private:
  std::mutex mutex_;
  std::map<u64, Allocation> allocations_;
  Snapshot snapshot_;
  u64 in_use_ = 0;
};

MemoryMap& device_memory();

constexpr u64 kDeviceMemoryBytes = u64{288} << 30; // what the device reports
constexpr u64 kRedZone = 4096;

} // namespace emu
