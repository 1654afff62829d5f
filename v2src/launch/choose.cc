#include "choose.h"

#include <cstring>

namespace aot {
namespace {

constexpr int64_t kMaxGrid[3] = {INT32_MAX, 65535, 65535};
constexpr int64_t kMaxHipThreads = UINT32_MAX; // programs * threads along x
constexpr int64_t kMaxWorkspaceBytes = int64_t{1} << 50;

Refusal prepare_step(const Step& step, const Slot* slots, bool is_cuda, uint32_t* grid) {
  if (const int slot = step.recipe.find_too_wide(slots); slot >= 0)
    return {Refusal::kTooWide, static_cast<size_t>(slot),
            static_cast<int64_t>(slots[static_cast<size_t>(slot)])};
  for (size_t axis = 0; axis < 3; ++axis) {
    int64_t count = 0;
    if (!step.grid[axis].evaluate(slots, &count))
      return {Refusal::kArithmetic};
    const bool too_many_threads = !is_cuda && axis == 0 && count * step.threads > kMaxHipThreads;
    if (count < 0 || count > kMaxGrid[axis] || too_many_threads)
      return {Refusal::kGrid, axis, count};
    grid[axis] = static_cast<uint32_t>(count);
  }
  return {};
}

} // namespace

Refusal prepare(const Plan& plan, const Slot* slots, const char* wanted, bool is_cuda,
                Prepared* prepared) {
  if (wanted && std::strncmp(plan.text.c_str(), wanted, std::strlen(wanted)) != 0)
    return {Refusal::kNotAsked};
  if (!plan.damage.ok())
    return {Refusal::kDamaged};
  for (size_t i = 0; i < plan.requirements.size(); ++i) {
    int64_t holds = 0;
    if (!plan.requirements[i].holds.evaluate(slots, &holds))
      return {Refusal::kArithmetic};
    if (!holds)
      return {Refusal::kRequirement, i};
  }
  for (size_t i = 0; i < plan.workspaces.size(); ++i) {
    int64_t& bytes = prepared->workspace_bytes[i];
    if (!plan.workspaces[i].bytes.evaluate(slots, &bytes))
      return {Refusal::kArithmetic};
    if (bytes < 0 || bytes > kMaxWorkspaceBytes)
      return {Refusal::kWorkspace, i, bytes};
  }
  for (size_t i = 0; i < plan.steps.size(); ++i)
    if (const Refusal refusal = prepare_step(*plan.steps[i], slots, is_cuda, prepared->grid[i]);
        refusal.refused())
      return refusal;
  return {};
}

std::string reason(const Refusal& refusal, const Plan& plan, const Vocabulary& vocabulary) {
  const auto value = static_cast<long long>(refusal.value);
  switch (refusal.kind) {
  case Refusal::kNone:
    return "";
  case Refusal::kNotAsked:
    return "it was not asked for";
  case Refusal::kDamaged:
    return plan.damage.message();
  case Refusal::kRequirement:
    return plan.requirements[refusal.index].reason;
  case Refusal::kArithmetic:
    return "an expression of it divides by zero or passes 64 bits";
  case Refusal::kTooWide:
    return format("%s = %lld does not fit its argument", vocabulary.name(refusal.index).c_str(),
                  value);
  case Refusal::kGrid:
    return format("a grid of %lld along %c; at most %lld are allowed", value, "xyz"[refusal.index],
                  static_cast<long long>(kMaxGrid[refusal.index]));
  case Refusal::kWorkspace:
    return format("a workspace of %lld bytes", value);
  }
  return "";
}

} // namespace aot
