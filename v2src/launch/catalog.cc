#include "catalog.h"
#include "runtime.h"

#include <algorithm>

namespace aot {
namespace {

Published<std::string> g_tuning_database;

} // namespace

void set_tuning_database(const char* path) { g_tuning_database.publish(path ? path : ""); }

Catalog::Catalog(std::string arch) : arch_(std::move(arch)), is_cuda_(arch_.starts_with("sm_")) {
  for (const Operator* op : operators())
    functionals_.push_back(std::make_unique<std::atomic<Functional*>[]>(op->num_functionals()));
}

Status Catalog::read(const Operator& op, uint32_t number,
                     std::unique_ptr<Functional>* result) const {
  auto functional = std::make_unique<Functional>();
  functional->features = op.features_text(number);
  std::vector<PlanRow> rows;
  AOT_TRY(store_.plans(op.name.c_str(), functional->features, &rows));
  for (const PlanRow& row : rows)
    make_plan(store_, row, op.vocabulary, &functional->plans.emplace_back());
  *result = std::move(functional);
  return {};
}

Status Catalog::find(Runtime& runtime, const Operator& op, uint32_t number, Functional** found) {
  std::atomic<Functional*>& place = functionals_[operator_index(op)][number];
  *found = place.load(std::memory_order_acquire);
  if (*found) [[likely]]
    return {};
  Loading loading(runtime);
  *found = place.load(std::memory_order_acquire);
  if (*found)
    return {};
  std::unique_ptr<Functional> functional;
  AOT_TRY(read(op, number, &functional));
  for (const Plan& plan : functional->plans)
    if (!plan.damage.ok())
      loading.notices.add(Level::kWarning,
                          format("%s %s %s: %s: %s", arch_.c_str(), op.name.c_str(),
                                 functional->features.c_str(), plan.text.c_str(),
                                 plan.damage.message().c_str()));
  *found = functional.release();
  place.store(*found, std::memory_order_release);
  return {};
}

TuningTable Catalog::make_table(const Operator& op, const Functional& functional,
                                int64_t compute_units, const std::string* database,
                                Notices* notices) const {
  if (functional.plans.empty())
    return TuningTable({}, compute_units);
  std::vector<TuningRow> rows =
      read_tuning(database ? *database : "", op.name, arch_, functional.features, notices);
  std::erase_if(rows, [&](TuningRow& row) {
    const auto plan = std::ranges::find(functional.plans, row.plan, &Plan::text);
    row.plan_index = static_cast<size_t>(plan - functional.plans.begin());
    return plan == functional.plans.end(); // of another build of the store
  });
  return TuningTable(rows, compute_units);
}

const TuningRow* Catalog::find_tuning(Runtime& runtime, const Operator& op, Functional& functional,
                                      int64_t compute_units, const TuningSizes& sizes) {
  const std::string* database = g_tuning_database.get();
  const auto matches = [&](const Functional::Tuned& tuned) {
    return tuned.database == database && tuned.compute_units == compute_units;
  };
  const Functional::Tuned* tuned = functional.tuned_.find(matches);
  if (!tuned) [[unlikely]] {
    Loading loading(runtime);
    tuned = functional.tuned_.find(matches);
    if (!tuned)
      tuned = functional.tuned_.publish(
          {database, compute_units,
           make_table(op, functional, compute_units, database, &loading.notices)});
  }
  return tuned->table.find(sizes);
}

Status Catalog::load_module(const Device& device, const std::string& image, void** module) {
  void*& mine = modules_[{device.ordinal, image}];
  if (!mine) {
    std::string bytes;
    AOT_TRY(store_.image(image, &bytes));
    AOT_TRY(device.driver->load(bytes.c_str(), &mine));
  }
  *module = mine;
  return {};
}

Status Catalog::load_step(const Device& device, Step& step) {
  void* module = nullptr;
  void* function = nullptr;
  AOT_TRY(load_module(device, step.image, &module));
  const FunctionFacts facts = {step.symbol.c_str(), step.shared_bytes, step.cluster,
                               &step.recipe.parameter_bytes()};
  AOT_TRY(device.driver->find_function(module, facts, &function));
  step.function[device.ordinal].store(function, std::memory_order_release);
  return {};
}

Status Catalog::load(Runtime& runtime, const Device& device, Plan& plan) {
  const auto is_loaded = [&](const std::unique_ptr<Step>& step) {
    return step->function[device.ordinal].load(std::memory_order_acquire) != nullptr;
  };
  if (std::ranges::all_of(plan.steps, is_loaded)) [[likely]]
    return {};
  Loading loading(runtime);
  const LoadingScope capture_goes_on(device.driver);
  for (const std::unique_ptr<Step>& step : plan.steps)
    if (!is_loaded(step))
      if (Status status = load_step(device, *step); !status.ok()) {
        loading.notices.add(Level::kWarning,
                            format("%s device %d: %s does not load: %s", arch_.c_str(),
                                   device.ordinal, plan.text.c_str(), status.message().c_str()));
        return status;
      }
  return {};
}

} // namespace aot
