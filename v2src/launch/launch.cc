#include "launch.h"
#include "choose.h"
#include "runtime.h"

#include <algorithm>

namespace aot {
namespace {

constexpr size_t kAlignment = 256; // of each piece of the workspace
constexpr size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

// The argument blocks of a plan's steps. Not initialised: `Recipe::start` clears what is used.
struct Blocks {
  alignas(64) uint8_t bytes[kMaxSteps][kMaxArgumentBytes];
};

// Why no plan was taken: the first refusal, and the first plan that would have been taken but did
// not load.
class Refusals {
public:
  void add(const Functional& functional, const Plan& plan, const Refusal& refusal) {
    if (first_plan_ && first_.kind != Refusal::kNotAsked)
      return;
    functional_ = &functional;
    first_plan_ = &plan;
    first_ = refusal;
  }
  void add(const Functional& functional, const Plan& plan, Status failure) {
    if (failure_.ok())
      failure_ = fail(failure.code(), "%s %s: %s", functional.features.c_str(), plan.text.c_str(),
                      failure.message().c_str());
  }
  Status sentence(const Operator& op, const Request& request, const std::string& arch,
                  const char* wanted) const {
    if (!failure_.ok())
      return fail(failure_.code(), "%s on %s: %s", op.name.c_str(), arch.c_str(),
                  failure_.message().c_str());
    const std::string features = op.features_text(request.functionals[0]);
    const std::string asked = wanted ? format(" that starts with '%s'", wanted) : "";
    if (!first_plan_)
      return fail(AOT_UNSUPPORTED,
                  "no kernel for %s %s on %s; its store has none for these features",
                  op.name.c_str(), features.c_str(), arch.c_str());
    const aot_status code = first_.kind == Refusal::kDamaged ? AOT_BAD_STORE : AOT_UNSUPPORTED;
    return fail(code, "no plan%s takes %s %s on %s; %s of %s: %s", asked.c_str(), op.name.c_str(),
                features.c_str(), arch.c_str(), first_plan_->text.c_str(),
                functional_->features.c_str(), reason(first_, *first_plan_, op.vocabulary).c_str());
  }

private:
  const Functional* functional_ = nullptr;
  const Plan* first_plan_ = nullptr;
  Refusal first_;
  Status failure_;
};

Status read_call(const aot_call* given, aot_call* call) {
  AOT_TRY(read_struct("call", given, call, sizeof *call));
  if (call->reserved != 0)
    return fail(AOT_BAD_ARGUMENT, "call.reserved = %d; it must be 0", call->reserved);
  return {};
}

// Loads the plan's kernels and makes its TMA descriptors: all that may still refuse the plan.
Status make_ready(Runtime& runtime, Catalog& catalog, const Device& device, Plan& plan,
                  const Slot* slots, Mode mode, Blocks* blocks) {
  AOT_TRY(catalog.load(runtime, device, plan));
  if (mode == Mode::kLaunch)
    for (size_t i = 0; i < plan.steps.size(); ++i)
      AOT_TRY(plan.steps[i]->recipe.start(slots, device.driver, blocks->bytes[i]));
  return {};
}

// One allocation for all pieces; those to be zeroed come first and are zeroed at once.
Status allocate(const Device& device, const Plan& plan, const Prepared& prepared,
                const aot_call& call, Slot* slots) {
  size_t total = 0, zeroed = 0;
  for (size_t i = 0; i < plan.workspaces.size(); ++i) {
    total += aligned(static_cast<size_t>(prepared.workspace_bytes[i]));
    if (plan.workspaces[i].zeroed)
      zeroed = total;
  }
  uintptr_t at = 0;
  if (total != 0) {
    if (!call.allocate)
      return fail(AOT_BAD_ARGUMENT, "call.allocate is null; plan %s needs a workspace of %zu bytes",
                  plan.text.c_str(), total);
    void* memory = call.allocate(call.allocate_context, total + kAlignment);
    if (!memory)
      return fail(AOT_NO_MEMORY, "the caller's allocator has no %zu bytes for plan %s",
                  total + kAlignment, plan.text.c_str());
    at = aligned(reinterpret_cast<uintptr_t>(memory));
  }
  if (zeroed != 0)
    AOT_TRY(device.driver->clear(reinterpret_cast<void*>(at), zeroed, call.stream));
  for (size_t i = 0; i < plan.workspaces.size(); ++i) {
    slots[plan.workspaces[i].slot] = at;
    at += aligned(static_cast<size_t>(prepared.workspace_bytes[i]));
  }
  return {};
}

Status launch_steps(Runtime& runtime, const Device& device, const Plan& plan,
                    const Prepared& prepared, const Slot* slots, void* stream, Blocks* blocks) {
  void* parameters[kMaxArguments];
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = *plan.steps[i];
    const uint32_t* grid = prepared.grid[i];
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0)
      continue;
    uint8_t* block = blocks->bytes[i];
    step.recipe.pack(slots, block);
    step.recipe.point(block, parameters);
    AOT_TRY(device.driver->launch({step.function[device.ordinal].load(std::memory_order_acquire),
                                   {grid[0], grid[1], grid[2]},
                                   step.threads,
                                   step.shared_bytes,
                                   step.cluster,
                                   stream,
                                   parameters,
                                   block,
                                   step.recipe.block_bytes()}));
    runtime.launches.fetch_add(1, std::memory_order_relaxed);
  }
  return {};
}

} // namespace

Status run(const Operator& op, const void* params, const aot_call* given, Mode mode) {
  aot_call call;
  Request request;
  AOT_TRY(read_call(given, &call));
  AOT_TRY(op.read(params, mode == Mode::kLaunch, &request));
  Runtime& runtime = Runtime::get();
  DeviceEntry* entry = nullptr;
  Catalog* catalog = nullptr;
  if (request.nothing_to_do)
    return {};
  AOT_TRY(runtime.find_device(call.platform, call.device, &entry));
  AOT_TRY(runtime.find_catalog(*entry, &catalog));
  const Device& device = entry->device;
  request.slots[op.compute_units_slot] = static_cast<Slot>(device.compute_units);
  DeviceScope scope(device);
  AOT_TRY(scope.enter());

  Refusals refusals;
  Prepared prepared;
  Blocks blocks;
  for (size_t i = 0; i < request.num_functionals; ++i) {
    Functional* functional = nullptr;
    AOT_TRY(catalog->find(runtime, op, request.functionals[i], &functional));
    const TuningRow* row =
        catalog->find_tuning(runtime, op, *functional, device.compute_units, request.tuning_sizes);
    const size_t first = row ? row->plan_index : 0;
    for (size_t k = 0; k < functional->plans.size(); ++k) {
      Plan& plan = functional->plans[Functional::candidate(k, first)];
      const Refusal refusal =
          prepare(plan, request.slots, call.plan, catalog->is_cuda(), &prepared);
      if (refusal.refused()) {
        refusals.add(*functional, plan, refusal);
        continue;
      }
      if (Status status = make_ready(runtime, *catalog, device, plan, request.slots, mode, &blocks);
          !status.ok()) {
        refusals.add(*functional, plan, std::move(status));
        continue;
      }
      if (mode == Mode::kPreload)
        return {};
      AOT_TRY(allocate(device, plan, prepared, call, request.slots));
      return launch_steps(runtime, device, plan, prepared, request.slots, call.stream, &blocks);
    }
  }
  return refusals.sentence(op, request, catalog->arch(), call.plan);
}

} // namespace aot
