#include "flash.h"

#include "declines.h"
#include "late.h"
#include "problem.h"

#include <torch/csrc/stable/stableivalue_conversions.h>

#include <array>
#include <atomic>
#include <stdexcept>

namespace aotattn::binding {
namespace {

namespace stable = ::torch::stable::detail;

constexpr uint64_t kNumArguments = 7, kNumResults = 9;

std::atomic<aot_platform> platform{AOT_CUDA};

struct FlashResults {
  OwnedTensor out, lse;
  OwnedTensor cum_seq_q, cum_seq_k; // undefined tensors
  int64_t max_q, max_k;
  OwnedTensor rng_state, unused, debug_mask;
};

// The arguments on the stack, whose references end with this.
struct OwnedArguments {
  explicit OwnedArguments(StableIValue* stack)
      : q(stable::to<AtenTensorHandle>(stack[0])), k(stable::to<AtenTensorHandle>(stack[1])),
        v(stable::to<AtenTensorHandle>(stack[2])),
        values{q.get(),
               k.get(),
               v.get(),
               stable::to<double>(stack[3]),
               stable::to<bool>(stack[4]),
               stable::to<bool>(stack[5]),
               stable::to<std::optional<double>>(stack[6])} {}
  OwnedTensor q, k, v;
  FlashArguments values;
};

void put_results(FlashResults results, StableIValue* stack) {
  stack[0] = stable::from(results.out.release());
  stack[1] = stable::from(results.lse.release());
  stack[2] = stable::from(results.cum_seq_q.release());
  stack[3] = stable::from(results.cum_seq_k.release());
  stack[4] = stable::from(results.max_q);
  stack[5] = stable::from(results.max_k);
  stack[6] = stable::from(results.rng_state.release());
  stack[7] = stable::from(results.unused.release());
  stack[8] = stable::from(results.debug_mask.release());
}

OwnedTensor undefined_tensor() {
  AtenTensorHandle tensor = nullptr;
  aoti_torch_new_uninitialized_tensor(&tensor);
  return OwnedTensor(tensor);
}

// The two tensors that say which random numbers dropout took: none, but they must be there and have
// this form.
bool make_rng_state(Device device, FlashResults* results) {
  static const int32_t i64 = aoti_torch_dtype_int64(), u64 = aoti_torch_dtype_uint64();
  constexpr int64_t two = 2;
  const bool hip = platform.load(std::memory_order_relaxed) == AOT_HIP;
  results->rng_state =
      hip ? empty_contiguous(0, nullptr, i64, device) : empty_contiguous(1, &two, u64, device);
  results->unused = empty_contiguous(0, nullptr, hip ? i64 : u64, device);
  return results->rng_state && results->unused;
}

// Memory for all results, in the forms that PyTorch's meta kernel promises to torch.compile.
bool make_results(AtenTensorHandle q, AttentionProblem* problem, FlashResults* results) {
  static const int32_t f32 = aoti_torch_dtype_float32();
  constexpr int64_t none = 0;
  const TensorFacts& facts = problem->q;
  results->out = empty_like(q, facts);
  results->lse = empty_contiguous(3, facts.size, f32, facts.device);
  results->cum_seq_q = undefined_tensor();
  results->cum_seq_k = undefined_tensor();
  results->max_q = facts.size[2];
  results->max_k = problem->params.k.size[2];
  results->debug_mask = empty_contiguous(1, &none, facts.dtype, facts.device);
  return results->out && results->lse && results->cum_seq_q && results->cum_seq_k &&
         results->debug_mask && make_rng_state(facts.device, results) &&
         view_result(results->out.get(), problem->params.q.dtype, &problem->params.out) &&
         view_result(results->lse.get(), AOT_F32, &problem->params.lse);
}

// Memory for aot_attn_fwd. Giving it back when the call has returned is safe although the device
// has not run yet: torch hands it to later work on the same stream only.
struct Workspace {
  Device device;
  OwnedTensor memory;
};

void* allocate(void* context, size_t bytes) {
  auto* workspace = static_cast<Workspace*>(context);
  const auto size = static_cast<int64_t>(bytes);
  void* data = nullptr;
  workspace->memory = empty_contiguous(1, &size, aoti_torch_dtype_uint8(), workspace->device);
  if (!workspace->memory || torch_get_mutable_data_ptr(workspace->memory.get(), &data))
    return nullptr;
  return data;
}

aot_call make_call(Workspace* workspace, void* stream) {
  aot_call call{};
  call.struct_size = sizeof call;
  call.platform = platform.load(std::memory_order_relaxed);
  call.device = workspace->device.index;
  call.stream = stream;
  call.allocate = allocate;
  call.allocate_context = workspace;
  return call;
}

AttentionInputs inputs_of(const FlashArguments& a) {
  // PyTorch's flash kernels align causal masks bottom-right, unlike F.scaled_dot_product_attention,
  // which does not come here with is_causal unless the lengths are equal.
  return {a.q, a.k, a.v, a.scale, a.is_causal, AOT_BOTTOM_RIGHT};
}

// Null and the problem, or why this operator leaves the call to PyTorch.
const char* decline(const FlashArguments& a, AttentionProblem* problem) {
  static const int32_t cuda = aoti_torch_device_type_cuda();
  if (a.dropout_p > 0)
    return "dropout_p > 0";
  if (a.return_debug_mask)
    return "return_debug_mask";
  if (aoti_torch_grad_mode_is_enabled() &&
      (may_require_grad(a.q) || may_require_grad(a.k) || may_require_grad(a.v)))
    return "q, k or v requires grad";
  if (const char* reason = describe(inputs_of(a), problem))
    return reason;
  if (problem->q.device.type != cuda)
    return "q, k and v must be on a GPU";
  if (problem->params.q.dtype == AOT_F32)
    return "q, k and v must be float16 or bfloat16";
  // PyTorch says +inf for the lse of a row without keys, and its backward counts on that;
  // aot_attn_fwd says -inf.
  if (a.is_causal && problem->params.q.size[2] > problem->params.k.size[2])
    return "is_causal with seqlen_q > seqlen_k, where rows see no key";
  return nullptr;
}

// Null and the results, or why there are none.
const char* serve(const FlashArguments& a, FlashResults* results) {
  AttentionProblem problem;
  if (const char* reason = decline(a, &problem))
    return reason;
  void* stream = nullptr;
  if (!current_stream(problem.q.device.index, &stream))
    return "PyTorch gives no current stream";
  if (!point_to_inputs(inputs_of(a), &problem.params) || !make_results(a.q, &problem, results))
    return "PyTorch gives no memory";
  Workspace workspace{problem.q.device, nullptr};
  const aot_call call = make_call(&workspace, stream);
  return aot_attn_fwd(&problem.params, &call) == AOT_OK ? nullptr : aot_last_error();
}

// The same call by PyTorch's own kernel. Throws what that throws, as far as the shims tell it.
void fall_back(const FlashArguments& a, FlashResults* results) {
  const FlashAttentionFn flash = torch_flash_attention();
  if (!flash)
    throw std::runtime_error("aotattn declined an attention call and this build of PyTorch has no "
                             "CUDA or ROCm kernel to fall back to");
  double scale = a.scale.value_or(0);
  std::array<AtenTensorHandle, 7> tensors{};
  if (flash(a.q, a.k, a.v, a.dropout_p, a.is_causal, a.return_debug_mask,
            a.scale ? &scale : nullptr, &tensors[0], &tensors[1], &tensors[2], &tensors[3],
            &results->max_q, &results->max_k, &tensors[4], &tensors[5], &tensors[6]))
    throw std::runtime_error(last_torch_error());
  results->out.reset(tensors[0]);
  results->lse.reset(tensors[1]);
  results->cum_seq_q.reset(tensors[2]);
  results->cum_seq_k.reset(tensors[3]);
  results->rng_state.reset(tensors[4]);
  results->unused.reset(tensors[5]);
  results->debug_mask.reset(tensors[6]);
}

} // namespace

void flash_attention(StableIValue* stack, uint64_t num_arguments, uint64_t num_results) {
  if (num_arguments != kNumArguments || num_results != kNumResults)
    throw std::runtime_error("aotattn does not know this PyTorch's form of "
                             "aten::_scaled_dot_product_flash_attention");
  const OwnedArguments arguments(stack);
  FlashResults results{};
  if (const char* reason = serve(arguments.values, &results)) {
    count_declined(reason);
    fall_back(arguments.values, &results);
  } else {
    count_served();
  }
  put_results(std::move(results), stack);
}

std::string why_not_flash_attention(const FlashArguments& arguments) {
  AttentionProblem problem;
  if (const char* reason = decline(arguments, &problem))
    return reason;
  Workspace workspace{problem.q.device, nullptr};
  const aot_call call = make_call(&workspace, nullptr);
  // A preload has no memory to look at; the results would have these forms.
  problem.params.out = problem.params.q;
  problem.params.lse = aot_tensor{};
  return aot_preload("attn_fwd", &problem.params, &call) == AOT_OK ? "" : aot_last_error();
}

void set_platform(aot_platform value) { platform.store(value, std::memory_order_relaxed); }

} // namespace aotattn::binding
