// A plan: one way to compute an operator with its features fixed, as steps of one kernel each.
#ifndef AOTATTN_LAUNCH_PLAN_H
#define AOTATTN_LAUNCH_PLAN_H

#include "../store/store.h"
#include "expression.h"
#include "recipe.h"

#include <atomic>

namespace aot {

inline constexpr size_t kMaxSteps = 8;
inline constexpr size_t kMaxWorkspaces = 8;
inline constexpr int32_t kMaxDevices = 64; // of one platform

struct Requirement {
  Expression holds;
  std::string reason; // why not, where it does not hold
};

struct Workspace {
  size_t slot;
  Expression bytes;
  bool zeroed;
};

struct Step {
  std::string kernel, image, symbol;
  uint32_t threads = 0, shared_bytes = 0, cluster = 1;
  Recipe recipe;
  Expression grid[3];
  std::atomic<void*> function[kMaxDevices] = {}; // null until loaded
};

struct Plan {
  std::string text; // "backend/kernel/config"
  std::string backend, kernel, config;
  Status damage; // ok unless a row of it does not parse
  std::vector<Requirement> requirements;
  std::vector<Workspace> workspaces; // zeroed ones first
  std::vector<std::unique_ptr<Step>> steps;
};

// A plan whose rows cannot be read or do not parse is made too, with its `damage` told.
void make_plan(const Store& store, const PlanRow& row, const Vocabulary& vocabulary, Plan* plan);

} // namespace aot

#endif
