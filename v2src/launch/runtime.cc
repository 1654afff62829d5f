#include "runtime.h"

#include <pthread.h>

namespace aot {
namespace {

std::atomic<Runtime*> g_runtime{nullptr};
Runtime* g_parents =
    nullptr; // what a child of fork cannot use: locks may be held, handles are its parent's

void start_anew() { g_parents = g_runtime.exchange(nullptr); }

[[maybe_unused]] const int kWatchingForks = pthread_atfork(nullptr, nullptr, start_anew);

} // namespace

Runtime& Runtime::get() {
  Runtime* runtime = g_runtime.load(std::memory_order_acquire);
  if (runtime) [[likely]]
    return *runtime;
  auto fresh = std::make_unique<Runtime>();
  if (g_runtime.compare_exchange_strong(runtime, fresh.get(), std::memory_order_acq_rel))
    return *fresh.release();
  return *runtime; // another thread was first
}

Status Runtime::find_driver(int32_t platform, Driver** driver) {
  std::unique_ptr<Driver>& mine = drivers_[platform];
  if (!mine)
    AOT_TRY(platform == AOT_CUDA ? open_cuda(&mine) : open_hip(&mine));
  *driver = mine.get();
  return {};
}

Status Runtime::find_device(int32_t platform, int32_t ordinal, DeviceEntry** entry) {
  if (platform != AOT_CUDA && platform != AOT_HIP)
    return fail(AOT_BAD_ARGUMENT, "platform = %d; allowed are 0 (CUDA), 1 (HIP)", platform);
  if (ordinal < 0 || ordinal >= kMaxDevices)
    return fail(AOT_BAD_ARGUMENT, "device = %d; allowed are 0 to %d", ordinal, kMaxDevices - 1);
  std::atomic<DeviceEntry*>& place = devices_[platform][ordinal];
  *entry = place.load(std::memory_order_acquire);
  if (*entry) [[likely]]
    return {};
  const Loading loading(*this);
  *entry = place.load(std::memory_order_acquire);
  if (*entry)
    return {};
  Driver* driver = nullptr;
  AOT_TRY(find_driver(platform, &driver));
  const LoadingScope capture_goes_on(driver);
  auto fresh = std::make_unique<DeviceEntry>();
  AOT_TRY(driver->find_device(ordinal, &fresh->device));
  *entry = fresh.release();
  place.store(*entry, std::memory_order_release);
  return {};
}

Status Runtime::open_catalog(const std::string& arch, Catalog** catalog) {
  std::unique_ptr<Catalog>& mine = catalogs_[arch];
  if (!mine) {
    auto fresh = std::make_unique<Catalog>(arch);
    AOT_TRY(fresh->open());
    mine = std::move(fresh);
  }
  *catalog = mine.get();
  return {};
}

Status Runtime::find_catalog(DeviceEntry& entry, Catalog** catalog) {
  *catalog = entry.catalog.load(std::memory_order_acquire);
  if (*catalog) [[likely]]
    return {};
  AOT_TRY(find_catalog(entry.device.arch, catalog));
  entry.catalog.store(*catalog, std::memory_order_release);
  return {};
}

Status Runtime::find_catalog(const std::string& arch, Catalog** catalog) {
  const Loading loading(*this);
  return open_catalog(arch, catalog);
}

} // namespace aot
