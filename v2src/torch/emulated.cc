#include "emulated.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>

namespace aotattn::binding {
namespace {

struct Emulator {
  int (*hipHostRegister)(void*, size_t, unsigned);
  int (*hipHostUnregister)(void*);
  int (*hipDeviceSynchronize)();
};

template <typename Function> Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

Emulator find_emulator(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_NOLOAD); // kept open
  if (!library || !dlsym(library, "aotattn_emu_report"))
    throw std::runtime_error(std::string(path) + " is not the emulator, or not the HIP library "
                                                 "that this process has loaded");
  return {
      find<decltype(Emulator::hipHostRegister)>(library, "hipHostRegister"),
      find<decltype(Emulator::hipHostUnregister)>(library, "hipHostUnregister"),
      find<decltype(Emulator::hipDeviceSynchronize)>(library, "hipDeviceSynchronize"),
  };
}

std::atomic<const Emulator*> opened{nullptr};
const Emulator& emulator() { return *opened.load(std::memory_order_acquire); }

// A fork waits for the call in flight, so the child finds no lock held, here or in the emulator.
std::mutex mutex;
void lock() { mutex.lock(); }
void unlock() { mutex.unlock(); }
[[maybe_unused]] const int kWatchingForks = pthread_atfork(lock, unlock, unlock);

struct Range {
  uintptr_t begin, end;
};

// From the first to behind the last byte of a tensor that has elements.
Range range_of(const aot_tensor& tensor) {
  int64_t last = 0;
  for (int32_t axis = 0; axis < tensor.rank; ++axis)
    last += (tensor.size[axis] - 1) * tensor.stride[axis];
  const int64_t bytes = (last + 1) * (tensor.dtype == AOT_F32 ? 4 : 2);
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data);
  return {begin, begin + static_cast<uintptr_t>(bytes)};
}

} // namespace

void open_emulator(const char* path) {
  static const Emulator found = find_emulator(path);
  opened.store(&found, std::memory_order_release);
}

bool emulator_is_open() { return opened.load(std::memory_order_acquire); }

Lent::Lent() { mutex.lock(); }

Lent::~Lent() {
  for (void* memory : registered_)
    emulator().hipHostUnregister(memory);
  mutex.unlock();
}

// Views of one storage overlap, as q, k and v of a packed projection do; what HIP is told of may
// not.
bool Lent::add(const aot_attn_fwd_params& params) {
  std::array ranges = {range_of(params.q), range_of(params.k), range_of(params.v),
                       range_of(params.out), range_of(params.lse)};
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (auto next = ranges.begin(); next != ranges.end();) {
    Range merged = *next++;
    while (next != ranges.end() && next->begin < merged.end)
      merged.end = std::max(merged.end, next++->end);
    if (!add(reinterpret_cast<void*>(merged.begin), merged.end - merged.begin))
      return false;
  }
  return true;
}

bool Lent::add(void* memory, size_t bytes) {
  if (emulator().hipHostRegister(memory, bytes, 0))
    return false;
  registered_.push_back(memory);
  return true;
}

bool Lent::synchronize() const { return !emulator().hipDeviceSynchronize(); }

} // namespace aotattn::binding
