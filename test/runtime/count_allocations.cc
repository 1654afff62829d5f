// Preloaded, counts what a process takes from the heap.
#include <atomic>
#include <cstddef>

extern "C" void* __libc_malloc(size_t bytes);

static std::atomic<long> g_count{0};

extern "C" __attribute__((visibility("default"))) void* malloc(size_t bytes) {
  g_count += 1;
  return __libc_malloc(bytes);
}

extern "C" __attribute__((visibility("default"))) long num_allocations() { return g_count; }
