// From the arguments of PyTorch's attention operators to those of the C ABI.
#pragma once

#include "aotattn/aotattn.h"
#include "tensors.h"

#include <optional>

namespace aotattn::binding {

// q [batch, heads_q, seqlen_q, head_dim], k and v with heads_k and seqlen_k, v with head_dim_v.
struct AttentionInputs {
  AtenTensorHandle q, k, v;
  std::optional<double> scale; // default 1 / sqrt(head_dim)
  bool is_causal;
  aot_alignment alignment; // what is_causal means where seqlen_q != seqlen_k
};

// What one call of attn_fwd needs to know besides memory for its results.
struct AttentionProblem {
  aot_attn_fwd_params params; // all but out and lse
  TensorFacts q;
};

// Fills `problem`. Null, or why attn_fwd cannot serve it; what the kernels take is not asked here.
// Tensors need no data.
const char* describe(const AttentionInputs& inputs, AttentionProblem* problem);

// Sets the pointers of q, k and v. False if torch has none to give.
bool point_to_inputs(const AttentionInputs& inputs, aot_attn_fwd_params* params);

// The view of `tensor` (rank up to 4) for a result, which is written.
bool view_result(AtenTensorHandle tensor, int32_t dtype, aot_tensor* view);

// The element type in the C ABI, 0 if it has none.
int32_t aot_dtype_of(int32_t torch_dtype);

} // namespace aotattn::binding
