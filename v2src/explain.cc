#include "explain.h"
#include "json.h"
#include "launch/choose.h"
#include "launch/runtime.h"

namespace aot {
namespace {

struct Candidate {
  const Functional* functional;
  const Plan* plan;
  const TuningRow* row; // null: in the default order
  std::string refused;  // why; "" if it fits
};

std::string row_text(const TuningRow& row) {
  return format("compute_units=%lld,seqlen_q=%lld,seqlen_k=%lld,batch_heads=%lld",
                static_cast<long long>(row.compute_units), static_cast<long long>(row.sizes[0]),
                static_cast<long long>(row.sizes[1]), static_cast<long long>(row.sizes[2]));
}

// "measured on NVIDIA H200, revision abc: 12.5 us, runner-up triton/... 13 us; nearest row ..., for
// ..."
std::string provenance(const TuningRow* row, const Plan* chosen, const Request& request,
                       int64_t compute_units) {
  if (!row)
    return "default order";
  std::string text = row->provenance;
  if (!row->device.empty())
    text += " on " + row->device;
  if (!row->revision.empty())
    text += ", revision " + row->revision;
  if (!row->time.empty())
    text += ": " + row->time + " us";
  if (!row->runner_up.empty())
    text += ", runner-up " + row->runner_up + " " + row->runner_up_time + " us";
  TuningRow asked = {};
  asked.compute_units = compute_units;
  asked.sizes = request.tuning_sizes;
  const bool exact = row_text(asked) == row_text(*row);
  text += (exact ? "; row " : "; nearest row ") + row_text(*row);
  if (!exact)
    text += ", for " + row_text(asked);
  if (chosen && chosen->text != row->plan)
    return "default order; the tuned plan " + row->plan + " (" + text + ") refuses the problem";
  return text;
}

std::string hex(const uint8_t* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += format("%02x", bytes[i]);
  return text;
}

void write_steps(const Plan& plan, const Prepared& prepared, Request& request, Json* json) {
  for (const Workspace& workspace : plan.workspaces)
    request.slots[workspace.slot] = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = *plan.steps[i];
    alignas(64) uint8_t block[kMaxArgumentBytes];
    static_cast<void>(
        step.recipe.start(request.slots, nullptr, block)); // cannot fail without a driver
    step.recipe.pack(request.slots, block);
    json->open('{').key("kernel").value(step.kernel).key("backend").value(plan.backend);
    json->key("config").value(plan.config).key("symbol").value(step.symbol).key("grid").open('[');
    for (const uint32_t count : prepared.grid[i])
      json->value(int64_t{count});
    json->close(']').key("threads").value(int64_t{step.threads});
    json->key("shared_bytes").value(int64_t{step.shared_bytes});
    json->key("cluster").value(int64_t{step.cluster});
    json->key("arguments").value(hex(block, step.recipe.block_bytes())).close('}');
  }
}

// Looks at every plan of a functional; the first that fits is `chosen`.
Status look_at(Runtime& runtime, Catalog& catalog, const Operator& op, const Request& request,
               uint32_t number, int64_t compute_units, const char* wanted,
               std::vector<Candidate>* candidates, int* chosen, Prepared* prepared) {
  Functional* functional = nullptr;
  AOT_TRY(catalog.find(runtime, op, number, &functional));
  const TuningRow* row =
      catalog.find_tuning(runtime, op, *functional, compute_units, request.tuning_sizes);
  for (size_t k = 0; k < functional->plans.size(); ++k) {
    const Plan& plan = functional->plans[Functional::candidate(k, row ? row->plan_index : 0)];
    Prepared mine;
    const Refusal refusal = prepare(plan, request.slots, wanted, catalog.is_cuda(), &mine);
    if (!refusal.refused() && *chosen < 0) {
      *chosen = static_cast<int>(candidates->size());
      *prepared = mine;
    }
    candidates->push_back({functional, &plan, row, reason(refusal, plan, op.vocabulary)});
  }
  return {};
}

void write_candidates(const std::vector<Candidate>& candidates, Json* json) {
  json->key("candidates").open('[');
  for (const Candidate& c : candidates) {
    json->open('{').key("features").value(c.functional->features).key("plan").value(c.plan->text);
    json->key("refused");
    c.refused.empty() ? json->null() : json->value(c.refused);
    json->close('}');
  }
  json->close(']');
}

std::string no_plan(const Operator& op, const Request& request, const std::string& arch,
                    const std::vector<Candidate>& candidates) {
  const std::string features = op.features_text(request.functionals[0]);
  if (candidates.empty())
    return format("no kernel for %s %s on %s; its store has none for these features",
                  op.name.c_str(), features.c_str(), arch.c_str());
  return format("no plan takes %s %s on %s; %s of %s: %s", op.name.c_str(), features.c_str(),
                arch.c_str(), candidates[0].plan->text.c_str(),
                candidates[0].functional->features.c_str(), candidates[0].refused.c_str());
}

} // namespace

Status explain(const Operator& op, const void* params, const std::string& arch,
               int32_t compute_units, const char* wanted, std::string* text) {
  Request request;
  Catalog* catalog = nullptr;
  Runtime& runtime = Runtime::get();
  const Status read = op.read(params, false, &request);
  if (!read.ok() && read.code() != AOT_UNSUPPORTED)
    return fail(read.code(), "%s", read.message().c_str());
  AOT_TRY(runtime.find_catalog(arch, &catalog));
  const int64_t units = compute_units > 0 ? compute_units : catalog->compute_units();
  if (units < 1)
    return fail(AOT_BAD_STORE, "the store for %s does not say its compute_units; name them",
                arch.c_str());
  request.slots[op.compute_units_slot] = static_cast<Slot>(units);

  std::vector<Candidate> candidates;
  Prepared prepared;
  int chosen = -1;
  for (size_t i = 0; read.ok() && i < request.num_functionals && chosen < 0; ++i)
    AOT_TRY(look_at(runtime, *catalog, op, request, request.functionals[i], units, wanted,
                    &candidates, &chosen, &prepared));

  const Candidate* winner = chosen < 0 ? nullptr : &candidates[static_cast<size_t>(chosen)];
  const bool supported = read.ok() && (winner || request.nothing_to_do);
  std::string why = !read.ok()              ? read.message()
                    : request.nothing_to_do ? "nothing to compute"
                    : winner                ? ""
                                            : no_plan(op, request, arch, candidates);
  Json json;
  json.open('{').key("op").value(op.name).key("arch").value(arch);
  json.key("compute_units").value(units);
  json.key("status").value(supported ? "ok" : "unsupported").key("reason").value(why);
  json.key("features").value(winner ? winner->functional->features : "");
  json.key("plan").open('[');
  if (winner)
    write_steps(*winner->plan, prepared, request, &json);
  json.close(']').key("provenance");
  json.value(winner ? provenance(winner->row, winner->plan, request, units) : "");
  write_candidates(candidates, &json);
  *text = json.close('}').text();
  return {};
}

} // namespace aot
