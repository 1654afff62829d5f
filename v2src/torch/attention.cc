#include "attention.h"

#include "declines.h"
#include "emulated.h"
#include "late.h"

#include <torch/csrc/inductor/aoti_torch/generated/c_shim_aten.h>
#include <torch/csrc/stable/stableivalue_conversions.h>

#include <limits>
#include <stdexcept>

namespace aotattn::binding {
namespace {

namespace stable = ::torch::stable::detail;

OwnedTensor take_optional(StableIValue value) {
  return OwnedTensor(stable::to<std::optional<AtenTensorHandle>>(value).value_or(nullptr));
}

// The arguments on the stack, whose references end with this.
struct OwnedArguments {
  OwnedArguments(const Operator& op, const StableIValue* stack)
      : q(stable::to<AtenTensorHandle>(stack[0])), k(stable::to<AtenTensorHandle>(stack[1])),
        v(stable::to<AtenTensorHandle>(stack[2])) {
    const StableIValue* next = stack + 3;
    if (op.has_bias) {
      bias = take_optional(*next++);
      values.compute_lse = stable::to<bool>(*next++);
    }
    values.dropout_p = stable::to<double>(*next++);
    values.is_causal = stable::to<bool>(*next++);
    if (op.has_debug_mask)
      values.return_debug_mask = stable::to<bool>(*next++);
    if (op.on_cpu)
      bias = take_optional(*next++);
    values.scale = stable::to<std::optional<double>>(*next++);
    values.q = q.get();
    values.k = k.get();
    values.v = v.get();
    values.attn_bias = bias.get();
  }
  OwnedTensor q, k, v, bias;
  Arguments values{};
};

uint64_t num_arguments_of(const Operator& op) {
  return 6 + (op.has_bias ? 2 : 0) + (op.has_debug_mask ? 1 : 0) + (op.on_cpu ? 1 : 0);
}
uint64_t num_results_of(const Operator& op) {
  return 2 + (op.has_debug_mask ? 5 : 0) + (op.on_cpu ? 0 : 2);
}

void put_results(const Operator& op, Results results, StableIValue* next) {
  *next++ = stable::from(results.out.release());
  *next++ = stable::from(results.lse.release());
  if (op.has_debug_mask) {
    *next++ = stable::from(results.cum_seq_q.release());
    *next++ = stable::from(results.cum_seq_k.release());
    *next++ = stable::from(results.max_q);
    *next++ = stable::from(results.max_k);
  }
  if (!op.on_cpu) {
    *next++ = stable::from(results.seed.release());
    *next++ = stable::from(results.offset.release());
  }
  if (op.has_debug_mask)
    *next++ = stable::from(results.debug_mask.release());
}

// lse as aot_attn_fwd takes it: absent if it has no rows, else [batch, heads_q, seqlen_q] of a
// tensor that may be longer. PyTorch's backward counts on +inf beyond seqlen_q.
bool view_lse(AtenTensorHandle tensor, int64_t seqlen_q, aot_tensor* lse) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (!view_result(tensor, AOT_F32, lse))
    return false;
  const int64_t rows = lse->size[2];
  lse->rank = 3;
  lse->size[2] = seqlen_q;
  if (rows == 0)
    *lse = {};
  return rows <= seqlen_q || !aoti_torch_aten_fill__Scalar(tensor, infinity);
}

// Memory for all results.
bool make_results(const Operator& op, const Arguments& a, AttentionProblem* problem,
                  Results* results) {
  aot_attn_fwd_params& params = problem->params;
  op.make_results(a, *problem, results);
  if (op.has_debug_mask) {
    results->cum_seq_q = undefined_tensor();
    results->cum_seq_k = undefined_tensor();
    results->max_q = params.q.size[2];
    results->max_k = params.k.size[2];
    if (!results->cum_seq_q || !results->cum_seq_k || !results->debug_mask)
      return false;
  }
  if (op.on_cpu ? !results->lse_rows : !results->seed || !results->offset)
    return false;
  const OwnedTensor& lse = op.on_cpu ? results->lse_rows : results->lse;
  return results->out && results->lse &&
         view_result(results->out.get(), params.q.dtype, &params.out) &&
         view_lse(lse.get(), params.q.size[2], &params.lse);
}

// Memory for aot_attn_fwd. Giving it back when the call has returned is safe although the device
// has not run yet: torch hands it to later work on the same stream only.
struct Workspace {
  Device device;
  Lent* lent = nullptr; // if the device is emulated
  OwnedTensor memory = nullptr;
};

void* allocate(void* context, size_t bytes) {
  auto* workspace = static_cast<Workspace*>(context);
  const auto size = static_cast<int64_t>(bytes);
  void* data = nullptr;
  workspace->memory = empty_contiguous(1, &size, aoti_torch_dtype_uint8(), workspace->device);
  if (!workspace->memory || torch_get_mutable_data_ptr(workspace->memory.get(), &data))
    return nullptr;
  if (workspace->lent && !workspace->lent->add(data, bytes))
    return nullptr;
  return data;
}

aot_call make_call(const Operator& op, Workspace* workspace, void* stream) {
  aot_call call{};
  call.struct_size = sizeof call;
  call.platform = op.on_cpu ? AOT_HIP : platform();
  call.device = op.on_cpu ? 0 : workspace->device.index;
  call.stream = stream;
  call.allocate = allocate;
  call.allocate_context = workspace;
  return call;
}

AttentionInputs inputs_of(const Operator& op, const Arguments& a) {
  return {a.q, a.k, a.v, a.scale, a.is_causal, op.alignment};
}

// Null and the problem, or why this operator leaves the call to PyTorch.
const char* decline(const Operator& op, const Arguments& a, AttentionProblem* problem) {
  static const int32_t cpu = aoti_torch_device_type_cpu(), cuda = aoti_torch_device_type_cuda();
  if (a.attn_bias)
    return "attn_mask";
  if (a.dropout_p > 0)
    return "dropout_p > 0";
  if (a.return_debug_mask)
    return "return_debug_mask";
  if (aoti_torch_grad_mode_is_enabled() &&
      (may_require_grad(a.q) || may_require_grad(a.k) || may_require_grad(a.v)))
    return "q, k or v requires grad";
  if (const char* reason = describe(inputs_of(op, a), problem))
    return reason;
  if (problem->q.device.type != (op.on_cpu ? cpu : cuda))
    return op.on_cpu ? "q, k and v must be on the CPU" : "q, k and v must be on a GPU";
  return op.declines(a, *problem);
}

const char* run(const AttentionProblem& problem, const aot_call& call) {
  return aot_attn_fwd(&problem.params, &call) == AOT_OK ? nullptr : aot_last_error();
}

const char* run_on_gpu(const Operator& op, const AttentionProblem& problem) {
  void* stream = nullptr;
  if (!current_stream(problem.q.device.index, &stream))
    return "PyTorch gives no current stream";
  Workspace workspace{problem.q.device};
  return run(problem, make_call(op, &workspace, stream));
}

const char* run_emulated(const Operator& op, const AttentionProblem& problem) {
  Workspace workspace{problem.q.device};
  const aot_call call = make_call(op, &workspace, nullptr);
  // Loading may log, and a log may wait for Python's lock: not while others wait for ours.
  if (aot_preload("attn_fwd", &problem.params, &call) != AOT_OK)
    return aot_last_error();
  Lent lent;
  workspace.lent = &lent;
  if (!lent.add(problem.params))
    return "the emulated device cannot reach the memory of the tensors";
  if (const char* reason = run(problem, call))
    return reason;
  return lent.synchronize() ? nullptr : "the emulated device failed";
}

// Null and the results, or why there are none.
const char* serve(const Operator& op, const Arguments& a, Results* results) {
  AttentionProblem problem;
  if (const char* reason = decline(op, a, &problem))
    return reason;
  if (!point_to_inputs(inputs_of(op, a), &problem.params) ||
      !make_results(op, a, &problem, results))
    return "PyTorch gives no memory";
  if (const char* reason = (op.on_cpu ? run_emulated : run_on_gpu)(op, problem))
    return reason;
  if (results->lse_rows && aoti_torch_copy_(results->lse.get(), results->lse_rows.get(), false))
    return "PyTorch cannot copy lse";
  return nullptr;
}

// The same call by PyTorch's own kernel. Throws what that throws, as far as the shims tell it.
void fall_back(const Operator& op, const Arguments& a, Results* results) {
  AOTITorchError error = AOTI_TORCH_SUCCESS;
  *results = {};
  if (!op.fall_back(a, results, &error))
    throw std::runtime_error("aotattn declined an attention call and this build of PyTorch has no "
                             "kernel to fall back to");
  if (error)
    throw std::runtime_error(last_torch_error());
}

} // namespace

void attention(const Operator& op, StableIValue* stack, uint64_t num_arguments,
               uint64_t num_results) {
  if (num_arguments != num_arguments_of(op) || num_results != num_results_of(op))
    throw std::runtime_error(std::string("aotattn does not know this PyTorch's form of aten::") +
                             op.name);
  const OwnedArguments arguments(op, stack);
  Results results{};
  if (const char* reason = serve(op, arguments.values, &results)) {
    count_declined(reason);
    fall_back(op, arguments.values, &results);
  } else {
    count_served();
  }
  put_results(op, std::move(results), stack);
}

std::string why_not(const Operator& op, const Arguments& arguments) {
  AttentionProblem problem;
  if (const char* reason = decline(op, arguments, &problem))
    return reason;
  Workspace workspace{problem.q.device};
  const aot_call call = make_call(op, &workspace, nullptr);
  // A preload has no memory to look at; the results would have these sizes.
  problem.params.out = problem.params.q;
  problem.params.out.size[3] = problem.params.v.size[3];
  problem.params.lse = aot_tensor{};
  return aot_preload("attn_fwd", &problem.params, &call) == AOT_OK ? "" : aot_last_error();
}

} // namespace aotattn::binding
