#include "problem.h"

#include <algorithm>
#include <cmath>

namespace aotattn::binding {
namespace {

void view(const TensorFacts& facts, int32_t dtype, aot_tensor* out) {
  out->dtype = dtype;
  out->rank = static_cast<int32_t>(facts.rank);
  std::copy_n(facts.size, facts.rank, out->size);
  std::copy_n(facts.stride, facts.rank, out->stride);
}

bool point_to_input(AtenTensorHandle tensor, aot_tensor* view) {
  const void* data = nullptr; // the const getter leaves copy-on-write storage shared
  if (torch_get_const_data_ptr(tensor, &data))
    return false;
  view->data = const_cast<void*>(data);
  return true;
}

} // namespace

int32_t aot_dtype_of(int32_t torch_dtype) {
  static const int32_t f16 = aoti_torch_dtype_float16();
  static const int32_t bf16 = aoti_torch_dtype_bfloat16();
  static const int32_t f32 = aoti_torch_dtype_float32();
  if (torch_dtype == bf16)
    return AOT_BF16;
  if (torch_dtype == f16)
    return AOT_F16;
  return torch_dtype == f32 ? AOT_F32 : 0;
}

const char* describe(const AttentionInputs& inputs, AttentionProblem* problem) {
  TensorFacts &q = problem->q, k, v;
  if (!read(inputs.q, &q) || !read(inputs.k, &k) || !read(inputs.v, &v))
    return "a tensor without strides";
  if (q.rank != 4 || k.rank != 4 || v.rank != 4)
    return "q, k and v must have 4 dimensions";
  if (k.device != q.device || v.device != q.device)
    return "q, k and v must be on one device";
  const int32_t dtype = aot_dtype_of(q.dtype);
  if (dtype == 0 || k.dtype != q.dtype || v.dtype != q.dtype)
    return "q, k and v must have one dtype: float16, bfloat16 or float32";
  if (q.size[0] == 0 || q.size[1] == 0 || q.size[2] == 0 || q.size[3] == 0 || k.size[2] == 0 ||
      v.size[3] == 0)
    return "a size is 0";

  aot_attn_fwd_params& params = problem->params;
  params = {};
  params.struct_size = sizeof params;
  params.mask = inputs.is_causal ? AOT_MASK_CAUSAL : AOT_MASK_NONE;
  params.alignment = inputs.alignment;
  params.sm_scale = static_cast<float>(
      inputs.scale ? *inputs.scale : 1.0 / std::sqrt(static_cast<double>(q.size[3])));
  view(q, dtype, &params.q);
  view(k, dtype, &params.k);
  view(v, dtype, &params.v);
  return nullptr;
}

bool point_to_inputs(const AttentionInputs& inputs, aot_attn_fwd_params* params) {
  return point_to_input(inputs.q, &params->q) && point_to_input(inputs.k, &params->k) &&
         point_to_input(inputs.v, &params->v);
}

bool view_result(AtenTensorHandle tensor, int32_t dtype, aot_tensor* out) {
  TensorFacts facts;
  if (!read(tensor, &facts) || torch_get_mutable_data_ptr(tensor, &out->data))
    return false;
  view(facts, dtype, out);
  return true;
}

} // namespace aotattn::binding
