// What the store of one arch offers: plans by functional, in the order in which a problem tries
// them.
#ifndef AOTATTN_LAUNCH_CATALOG_H
#define AOTATTN_LAUNCH_CATALOG_H

#include "../device/driver.h"
#include "../ops/operator.h"
#include "../published.h"
#include "plan.h"

#include <map>

namespace aot {

class Loading;
class Runtime;

// The program's own tuning database, over all others; null takes it away.
void set_tuning_database(const char* path);

struct Functional {
  std::string features;
  std::vector<Plan> plans; // in the default order of preference

  // The i-th plan to try where the tuning row names plan `first`.
  static size_t candidate(size_t i, size_t first) {
    return i == 0 ? first : i <= first ? i - 1 : i;
  }

private:
  friend class Catalog;
  struct Tuned {
    const std::string* database; // what set_tuning_database had said
    int64_t compute_units;
    TuningTable table;
  };
  Published<Tuned> tuned_;
};

class Catalog {
public:
  explicit Catalog(std::string arch);
  Status open() { return store_.open(arch_); }

  const std::string& arch() const { return arch_; }
  bool is_cuda() const { return is_cuda_; }
  int32_t compute_units() const { return store_.compute_units(); }

  // One without plans if the store has none. No lock once it has been read.
  Status find(Runtime& runtime, const Operator& op, uint32_t functional, Functional** found);
  // The tuning row nearest to a problem, or null. No lock once a problem like it has been seen.
  const TuningRow* find_tuning(Runtime& runtime, const Operator& op, Functional& functional,
                               int64_t compute_units, const TuningSizes& sizes);
  // Loads the plan's kernels onto the current device. No lock if they are there.
  Status load(Runtime& runtime, const Device& device, Plan& plan);

private:
  Status read(const Operator& op, uint32_t functional, std::unique_ptr<Functional>* result) const;
  TuningTable make_table(const Operator& op, const Functional& functional, int64_t compute_units,
                         const std::string* database, Notices* notices) const;
  Status load_module(const Device& device, const std::string& image, void** module);
  Status load_step(const Device& device, Step& step);

  std::string arch_;
  bool is_cuda_;
  Store store_;
  std::vector<std::unique_ptr<std::atomic<Functional*>[]>> functionals_; // by operator
  std::map<std::pair<int32_t, std::string>, void*> modules_;             // by device and image
};

} // namespace aot

#endif
