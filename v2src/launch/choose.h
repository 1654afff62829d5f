// Whether a plan takes a problem, and what its launches then are.
#ifndef AOTATTN_LAUNCH_CHOOSE_H
#define AOTATTN_LAUNCH_CHOOSE_H

#include "plan.h"

namespace aot {

// Why a plan does not take a problem; text is made only where somebody asks.
struct Refusal {
  enum Kind : uint8_t {
    kNone,
    kNotAsked,    // the caller wants plans of another name
    kDamaged,     // its rows do not parse
    kRequirement, // number `index` does not hold
    kArithmetic,  // an expression divides by zero or passes 64 bits
    kTooWide,     // slot `index` does not fit its argument
    kGrid,        // `value` programs along axis `index`
    kWorkspace    // number `index` would have `value` bytes
  };
  Kind kind = kNone;
  size_t index = 0;
  int64_t value = 0;

  bool refused() const { return kind != kNone; }
};

std::string reason(const Refusal& refusal, const Plan& plan, const Vocabulary& vocabulary);

// The launches of a plan for one problem.
struct Prepared {
  uint32_t grid[kMaxSteps][3];
  int64_t workspace_bytes[kMaxWorkspaces];
};

// `wanted`: only plans "backend/kernel/config" that start with this; null: any.
Refusal prepare(const Plan& plan, const Slot* slots, const char* wanted, bool is_cuda,
                Prepared* prepared);

} // namespace aot

#endif
