// What this process holds: drivers, devices, open stores. Filled as it is needed, never emptied;
// anew after a fork.
#ifndef AOTATTN_LAUNCH_RUNTIME_H
#define AOTATTN_LAUNCH_RUNTIME_H

#include "../device/driver.h"
#include "../log.h"
#include "catalog.h"

#include <map>
#include <mutex>

namespace aot {

struct DeviceEntry {
  Device device;
  std::atomic<Catalog*> catalog{nullptr}; // null until the store of its arch could be opened
};

class Runtime {
public:
  static Runtime& get();

  // Neither takes a lock where an earlier call has found the thing; a failure is not remembered.
  Status find_device(int32_t platform, int32_t ordinal, DeviceEntry** entry);
  Status find_catalog(DeviceEntry& entry, Catalog** catalog);
  Status find_catalog(const std::string& arch, Catalog** catalog);

  std::atomic<uint64_t> launches{0};

private:
  friend class Loading;
  Status find_driver(int32_t platform, Driver** driver);
  Status open_catalog(const std::string& arch, Catalog** catalog);

  std::mutex mutex_; // held while something is opened, read or loaded
  std::set<std::string> told_;
  std::unique_ptr<Driver> drivers_[2];
  std::atomic<DeviceEntry*> devices_[2][kMaxDevices] = {};
  std::map<std::string, std::unique_ptr<Catalog>> catalogs_;
};

// The right to open, read and load: one thread at a time. What is worth a word is told when it
// ends.
class Loading {
public:
  explicit Loading(Runtime& runtime) : notices(&runtime.told_), lock_(runtime.mutex_) {}
  ~Loading() {
    lock_.unlock();
    notices.tell();
  }
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

  Notices notices;

private:
  std::unique_lock<std::mutex> lock_;
};

} // namespace aot

#endif
