// The kernel store of one arch, `aotattn-<arch>.db`: see python/aotattn/store.py, which writes it.
#ifndef AOTATTN_STORE_STORE_H
#define AOTATTN_STORE_STORE_H

#include "database.h"

#include <vector>

namespace aot {

inline constexpr int64_t kSchemaVersion = 1;

struct PlanRow {
  std::string backend, kernel, config, requirements, workspace, steps;
};

struct KernelRow {
  std::string name, image, symbol, arguments, grid[3];
  int64_t threads, shared_bytes, cluster, argument_bytes;
};

// One thread at a time.
class Store {
public:
  // AOT_NO_STORE: says where it looked and which archs there are. AOT_STORE_MISMATCH: says both
  // versions.
  Status open(const std::string& arch);
  int32_t compute_units() const {
    return compute_units_;
  } // of the arch, 0 if the store does not say

  // The plans of a functional in the default order of preference.
  Status plans(const char* op, const std::string& features, std::vector<PlanRow>* plans) const;
  Status kernel(int64_t id, KernelRow* kernel) const;
  // Decompressed and checked.
  Status image(const std::string& hash, std::string* bytes) const;

private:
  Status check_versions(const std::string& arch) const;

  Database database_;
  int32_t compute_units_ = 0;
};

} // namespace aot

#endif
