#include "plan.h"
#include "../text.h"

#include <algorithm>

namespace aot {
namespace {

Status parse_requirements(const std::string& text, const Vocabulary& vocabulary, Plan* plan) {
  for (const std::string_view line : split(text, '\n')) {
    const size_t tab = line.find('\t');
    if (tab == std::string_view::npos)
      return fail(AOT_BAD_STORE, "requirement '%.*s' gives no reason", int(line.size()),
                  line.data());
    Requirement& requirement = plan->requirements.emplace_back();
    requirement.reason = line.substr(tab + 1);
    AOT_TRY(requirement.holds.parse(line.substr(0, tab), vocabulary));
  }
  return {};
}

// Adds the names to the vocabulary.
Status parse_workspaces(const std::string& text, Vocabulary* vocabulary, Plan* plan) {
  for (const std::string_view line : split(text, '\n')) {
    const size_t name_end = line.find(' ');
    const std::string_view flag = line.substr(std::min(name_end, line.size() - 1) + 1, 2);
    if (name_end == std::string_view::npos || (flag != "0 " && flag != "1 "))
      return fail(AOT_BAD_STORE, "workspace '%.*s' is not '<name> <0 or 1> <bytes>'",
                  int(line.size()), line.data());
    Workspace& workspace = plan->workspaces.emplace_back();
    workspace.zeroed = flag[0] == '1';
    AOT_TRY(workspace.bytes.parse(line.substr(name_end + 3), *vocabulary));
    workspace.slot =
        vocabulary->add(format("workspace.%.*s.ptr", int(name_end), line.data()), Type::kPointer);
  }
  if (plan->workspaces.size() > kMaxWorkspaces || vocabulary->size() > kMaxSlots)
    return fail(AOT_BAD_STORE, "a plan with %zu workspaces; at most %zu are allowed",
                plan->workspaces.size(), kMaxWorkspaces);
  std::ranges::stable_partition(plan->workspaces, &Workspace::zeroed);
  return {};
}

Status parse_step(const KernelRow& row, const Vocabulary& vocabulary, Step* step) {
  step->kernel = row.name;
  step->image = row.image;
  step->symbol = row.symbol;
  if (row.threads < 1 || row.threads > 1024 || row.cluster < 1 || row.cluster > 16 ||
      row.shared_bytes < 0 || row.shared_bytes > (1 << 24))
    return fail(AOT_BAD_STORE, "kernel %s: threads = %lld, shared_bytes = %lld, cluster = %lld",
                row.name.c_str(), static_cast<long long>(row.threads),
                static_cast<long long>(row.shared_bytes), static_cast<long long>(row.cluster));
  step->threads = static_cast<uint32_t>(row.threads);
  step->shared_bytes = static_cast<uint32_t>(row.shared_bytes);
  step->cluster = static_cast<uint32_t>(row.cluster);
  AOT_TRY(step->recipe.parse(row.arguments, row.argument_bytes, vocabulary));
  for (size_t axis = 0; axis < 3; ++axis)
    AOT_TRY(step->grid[axis].parse(row.grid[axis], vocabulary));
  return {};
}

Status read_kernels(const Store& store, const std::string& steps, std::vector<KernelRow>* kernels) {
  for (const std::string_view word : split(steps, ' ')) {
    int64_t id = 0;
    if (!parse_number(word, &id))
      return fail(AOT_BAD_STORE, "steps '%s' are no numbers", steps.c_str());
    AOT_TRY(store.kernel(id, &kernels->emplace_back()));
  }
  return {};
}

Status parse_rows(const PlanRow& row, const std::vector<KernelRow>& kernels, Vocabulary vocabulary,
                  Plan* plan) {
  AOT_TRY(parse_requirements(row.requirements, vocabulary, plan));
  AOT_TRY(parse_workspaces(row.workspace, &vocabulary, plan));
  if (kernels.empty() || kernels.size() > kMaxSteps)
    return fail(AOT_BAD_STORE, "a plan of %zu steps; 1 to %zu are allowed", kernels.size(),
                kMaxSteps);
  for (const KernelRow& kernel : kernels)
    AOT_TRY(parse_step(kernel, vocabulary, plan->steps.emplace_back(new Step).get()));
  return {};
}

} // namespace

void make_plan(const Store& store, const PlanRow& row, const Vocabulary& vocabulary, Plan* plan) {
  plan->text = row.backend + "/" + row.kernel + "/" + row.config;
  plan->backend = row.backend;
  plan->kernel = row.kernel;
  plan->config = row.config;
  std::vector<KernelRow> kernels;
  plan->damage = read_kernels(store, row.steps, &kernels);
  if (plan->damage.ok())
    plan->damage = parse_rows(row, kernels, vocabulary, plan);
}

} // namespace aot
