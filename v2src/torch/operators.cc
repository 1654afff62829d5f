#include "operators.h"

#include "late.h"

#include <atomic>
#include <cstdlib>

namespace aotattn::binding {
namespace {

std::atomic<aot_platform> cuda_platform{AOT_CUDA};

bool on_hip() { return platform() == AOT_HIP; }

OwnedTensor scalar(int32_t dtype, Device device) {
  return empty_contiguous(0, nullptr, dtype, device);
}

OwnedTensor make_lse(int64_t rank, const int64_t* size, Device device) {
  return empty_contiguous(rank, size, aoti_torch_dtype_float32(), device);
}

void make_seed_and_offset(Device device, Results* results) {
  results->seed = scalar(aoti_torch_dtype_int64(), device);
  results->offset = scalar(aoti_torch_dtype_int64(), device);
}

const char* declines_f32(const AttentionProblem& problem) {
  return problem.params.q.dtype == AOT_F32 ? "q, k and v must be float16 or bfloat16" : nullptr;
}

// A shim writes the tensor that it gives to this, and `owner` has it.
struct Into {
  OwnedTensor& owner;
  AtenTensorHandle handle = nullptr;
  operator AtenTensorHandle*() { return &handle; }
  ~Into() { owner.reset(handle); }
};

// Pointers as the shims take an optional argument. The arguments outlive them.
struct Optionals {
  explicit Optionals(const Arguments& a)
      : bias_value(a.attn_bias), scale_value(a.scale.value_or(0)),
        bias(a.attn_bias ? &bias_value : nullptr), scale(a.scale ? &scale_value : nullptr) {}
  AtenTensorHandle bias_value;
  double scale_value;
  AtenTensorHandle* bias;
  double* scale;
};

const char* flash_declines(const Arguments& a, const AttentionProblem& problem) {
  const aot_attn_fwd_params& params = problem.params;
  if (params.v.size[3] != params.q.size[3])
    return "head_dim of v must be that of q, whose shape the result has";
  // PyTorch says +inf for the lse of a row without keys, and its backward counts on that;
  // aot_attn_fwd says -inf.
  if (a.is_causal && params.q.size[2] > params.k.size[2])
    return "is_causal with seqlen_q > seqlen_k, where rows see no key";
  return declines_f32(problem);
}

void make_flash_results(const Arguments& a, const AttentionProblem& problem, Results* results) {
  constexpr int64_t none = 0, two = 2;
  const TensorFacts& q = problem.q;
  results->out = empty_like(a.q, q);
  results->lse = make_lse(3, q.size, q.device);
  results->debug_mask = empty_contiguous(1, &none, q.dtype, q.device);
  if (on_hip())
    return make_seed_and_offset(q.device, results);
  results->seed = empty_contiguous(1, &two, aoti_torch_dtype_uint64(), q.device);
  results->offset = scalar(aoti_torch_dtype_uint64(), q.device);
}

bool flash_falls_back(const Arguments& a, Results* r, AOTITorchError* error) {
  const auto flash = torch_kernels().flash;
  const Optionals optional(a);
  if (flash)
    *error = flash(a.q, a.k, a.v, a.dropout_p, a.is_causal, a.return_debug_mask, optional.scale,
                   Into{r->out}, Into{r->lse}, Into{r->cum_seq_q}, Into{r->cum_seq_k}, &r->max_q,
                   &r->max_k, Into{r->seed}, Into{r->offset}, Into{r->debug_mask});
  return flash;
}

// On an H200 PyTorch's kernel, with its three tf32 products for one of f32, takes 3.0 ms where ours
// takes 23.2 ms (head_dim 128, 16 heads, 4096 tokens). AMD's matrix units have f32.
const char* efficient_declines(const Arguments&, const AttentionProblem& problem) {
  return on_hip() ? nullptr : declines_f32(problem);
}

// out lies as [batch, seqlen_q, heads_q, head_dim_v]. PyTorch's own seed and offset are on the CPU
// except in a graph capture; ours are where the meta kernel's are.
void make_efficient_results(const Arguments& a, const AttentionProblem& problem, Results* results) {
  constexpr int64_t kLseMultiple = 32;
  const TensorFacts& q = problem.q;
  const int64_t batch = q.size[0], heads = q.size[1], rows = q.size[2];
  const int64_t head_dim_v = problem.params.v.size[3];
  const int64_t out_size[] = {batch, heads, rows, head_dim_v};
  const int64_t out_stride[] = {rows * heads * head_dim_v, head_dim_v, heads * head_dim_v, 1};
  const int64_t padded = on_hip() ? rows : (rows + kLseMultiple - 1) / kLseMultiple * kLseMultiple;
  const int64_t lse_size[] = {batch, heads, a.compute_lse ? padded : 0};
  results->out = empty_strided(4, out_size, out_stride, q.dtype, q.device);
  results->lse = make_lse(3, lse_size, q.device);
  make_seed_and_offset(q.device, results);
}

bool efficient_falls_back(const Arguments& a, Results* r, AOTITorchError* error) {
  const auto efficient = torch_kernels().efficient;
  const Optionals optional(a);
  if (efficient)
    *error = efficient(a.q, a.k, a.v, optional.bias, a.compute_lse, a.dropout_p, a.is_causal,
                       optional.scale, Into{r->out}, Into{r->lse}, Into{r->seed}, Into{r->offset});
  return efficient;
}

const char* cudnn_declines(const Arguments& a, const AttentionProblem& problem) {
  // With this, PyTorch's backward takes the lse to lie as [batch, seqlen_q, heads_q], other than
  // its meta kernel says.
  static const bool ragged = std::getenv("TORCH_CUDNN_SDPA_AVOID_RECOMPILE") != nullptr;
  if (ragged && a.compute_lse)
    return "compute_log_sumexp while TORCH_CUDNN_SDPA_AVOID_RECOMPILE is set";
  return declines_f32(problem);
}

// The meta kernel promises an lse also where it is not asked for.
void make_cudnn_results(const Arguments& a, const AttentionProblem& problem, Results* results) {
  const TensorFacts& q = problem.q;
  const int64_t out_size[] = {q.size[0], q.size[1], q.size[2], problem.params.v.size[3]};
  const int64_t lse_size[] = {q.size[0], q.size[1], q.size[2], 1};
  results->out = out_size[3] == q.size[3] ? empty_like(a.q, q) : empty_in_order_of(q, out_size);
  results->lse = make_lse(4, lse_size, q.device);
  results->debug_mask = undefined_tensor();
  make_seed_and_offset(q.device, results);
}

bool cudnn_falls_back(const Arguments& a, Results* r, AOTITorchError* error) {
  const auto cudnn = torch_kernels().cudnn;
  const Optionals optional(a);
  if (cudnn)
    *error = cudnn(a.q, a.k, a.v, optional.bias, a.compute_lse, a.dropout_p, a.is_causal,
                   a.return_debug_mask, optional.scale, Into{r->out}, Into{r->lse},
                   Into{r->cum_seq_q}, Into{r->cum_seq_k}, &r->max_q, &r->max_k, Into{r->seed},
                   Into{r->offset}, Into{r->debug_mask});
  return cudnn;
}

const char* cpu_declines(const Arguments&, const AttentionProblem& problem) {
  return problem.params.v.size[3] != problem.params.q.size[3] ? "head_dim of v must be that of q"
                                                              : nullptr;
}

// lse lies as [batch, seqlen_q, heads_q].
void make_cpu_results(const Arguments& a, const AttentionProblem& problem, Results* results) {
  const TensorFacts& q = problem.q;
  const int64_t lse_stride[] = {q.size[2] * q.size[1], 1, q.size[1]};
  results->out = empty_like(a.q, q);
  results->lse = empty_strided(3, q.size, lse_stride, aoti_torch_dtype_float32(), q.device);
  results->lse_rows = make_lse(3, q.size, q.device);
}

bool cpu_falls_back(const Arguments& a, Results* r, AOTITorchError* error) {
  const auto cpu = torch_kernels().cpu;
  const Optionals optional(a);
  if (cpu)
    *error = cpu(a.q, a.k, a.v, a.dropout_p, a.is_causal, optional.bias, optional.scale,
                 Into{r->out}, Into{r->lse});
  return cpu;
}

} // namespace

// F.scaled_dot_product_attention's is_causal is aligned top-left: it comes to flash attention with
// equal lengths only.
const Operator kFlashAttention = {
    .name = "_scaled_dot_product_flash_attention",
    .backend = 1,
    .has_bias = false,
    .has_debug_mask = true,
    .on_cpu = false,
    .alignment = AOT_BOTTOM_RIGHT,
    .declines = flash_declines,
    .make_results = make_flash_results,
    .fall_back = flash_falls_back,
};
const Operator kEfficientAttention = {
    .name = "_scaled_dot_product_efficient_attention",
    .backend = 2,
    .has_bias = true,
    .has_debug_mask = false,
    .on_cpu = false,
    .alignment = AOT_TOP_LEFT,
    .declines = efficient_declines,
    .make_results = make_efficient_results,
    .fall_back = efficient_falls_back,
};
const Operator kCudnnAttention = {
    .name = "_scaled_dot_product_cudnn_attention",
    .backend = 3,
    .has_bias = true,
    .has_debug_mask = true,
    .on_cpu = false,
    .alignment = AOT_TOP_LEFT,
    .declines = cudnn_declines,
    .make_results = make_cudnn_results,
    .fall_back = cudnn_falls_back,
};
const Operator kCpuAttention = {
    .name = "_scaled_dot_product_flash_attention_for_cpu",
    .backend = 1,
    .has_bias = false,
    .has_debug_mask = false,
    .on_cpu = true,
    .alignment = AOT_TOP_LEFT,
    .declines = cpu_declines,
    .make_results = make_cpu_results,
    .fall_back = cpu_falls_back,
};

OwnedTensor undefined_tensor() {
  AtenTensorHandle tensor = nullptr;
  aoti_torch_new_uninitialized_tensor(&tensor);
  return OwnedTensor(tensor);
}

void set_platform(aot_platform value) { cuda_platform.store(value, std::memory_order_relaxed); }
aot_platform platform() { return cuda_platform.load(std::memory_order_relaxed); }

} // namespace aotattn::binding
