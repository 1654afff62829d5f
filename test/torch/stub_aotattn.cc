// A libaotattn for tests of the binding: attn_fwd by the plain formula, on memory of the host.
// head_dim 24 is unsupported.
#include "aotattn/aotattn.h"

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace {

constexpr int64_t kUnsupportedHeadDim = 24;
aot_call last_call;
aot_attn_fwd_params last_params;
void* last_workspace;

float load(const aot_tensor& t, int64_t offset) {
  if (t.dtype == AOT_F32)
    return static_cast<const float*>(t.data)[offset];
  if (t.dtype == AOT_F16)
    return static_cast<const c10::Half*>(t.data)[offset];
  return static_cast<const c10::BFloat16*>(t.data)[offset];
}

void store(const aot_tensor& t, int64_t offset, float value) {
  if (t.dtype == AOT_F32)
    static_cast<float*>(t.data)[offset] = value;
  else if (t.dtype == AOT_F16)
    static_cast<c10::Half*>(t.data)[offset] = value;
  else
    static_cast<c10::BFloat16*>(t.data)[offset] = value;
}

int64_t at(const aot_tensor& t, int64_t batch, int64_t head, int64_t row) {
  return batch * t.stride[0] + head * t.stride[1] + row * t.stride[2];
}

void attend(const aot_attn_fwd_params& p, int64_t batch, int64_t head, int64_t row) {
  const int64_t seqlen_q = p.q.size[2], seqlen_k = p.k.size[2], head_dim = p.q.size[3];
  const int64_t head_dim_v = p.v.size[3];
  const int64_t head_k = head / (p.q.size[1] / p.k.size[1]);
  const int64_t shift = p.alignment == AOT_BOTTOM_RIGHT ? seqlen_k - seqlen_q : 0;
  const int64_t last = p.mask == AOT_MASK_CAUSAL ? std::min(row + shift + 1, seqlen_k) : seqlen_k;
  std::vector<double> scores(last), sum(head_dim_v);
  double highest = -std::numeric_limits<double>::infinity(), total = 0;
  for (int64_t key = 0; key < last; ++key) {
    double dot = 0;
    for (int64_t d = 0; d < head_dim; ++d)
      dot += double(load(p.q, at(p.q, batch, head, row) + d)) *
             double(load(p.k, at(p.k, batch, head_k, key) + d));
    highest = std::max(highest, scores[key] = dot * double(p.sm_scale));
  }
  for (int64_t key = 0; key < last; ++key) {
    const double weight = std::exp(scores[key] - highest);
    total += weight;
    for (int64_t d = 0; d < head_dim_v; ++d)
      sum[d] += weight * double(load(p.v, at(p.v, batch, head_k, key) + d));
  }
  for (int64_t d = 0; d < head_dim_v; ++d)
    store(p.out, at(p.out, batch, head, row) + d, float(sum[d] / total));
  if (p.lse.data)
    static_cast<float*>(p.lse.data)[at(p.lse, batch, head, row)] = float(highest + std::log(total));
}

} // namespace

extern "C" {

aot_status aot_attn_fwd(const aot_attn_fwd_params* params, const aot_call* call) {
  if (params->q.size[3] == kUnsupportedHeadDim)
    return AOT_UNSUPPORTED;
  last_call = *call;
  last_params = *params;
  last_workspace = call->allocate(call->allocate_context, 4096);
  if (!last_workspace)
    return AOT_NO_MEMORY;
  if (params->q.size[3] != 8) // 8: an empty kernel, for measuring what a call costs
    for (int64_t batch = 0; batch < params->q.size[0]; ++batch)
      for (int64_t head = 0; head < params->q.size[1]; ++head)
        for (int64_t row = 0; row < params->q.size[2]; ++row)
          attend(*params, batch, head, row);
  return AOT_OK;
}

aot_status aot_preload(const char*, const void* params, const aot_call*) {
  const auto* p = static_cast<const aot_attn_fwd_params*>(params);
  return p->q.size[3] == kUnsupportedHeadDim ? AOT_UNSUPPORTED : AOT_OK;
}

const char* aot_last_error() { return "attn_fwd: the stub takes no head_dim = 24"; }

// What aotattn.runtime declares but the binding does not call.
aot_status aot_explain(const char*, const void*, const char*, int32_t, const char*, char*, size_t,
                       size_t*) {
  return AOT_INTERNAL;
}
aot_status aot_set_tuning_db(const char*) { return AOT_OK; }
aot_status aot_device_info(int32_t, int32_t, char*, size_t, int32_t*) { return AOT_INTERNAL; }
const char* aot_status_name(aot_status) { return "status"; }
const char* aot_version() { return "stub"; }
const char* aot_build_info() { return "{}"; }
uint64_t aot_launch_count() { return 0; }
void aot_set_log(aot_log_fn, void*) {}

AOT_API int64_t stub_stream() { return reinterpret_cast<int64_t>(last_call.stream); }
AOT_API int32_t stub_platform() { return last_call.platform; }
AOT_API int32_t stub_device() { return last_call.device; }
AOT_API int32_t stub_alignment() { return last_params.alignment; }
AOT_API void* stub_workspace() { return last_workspace; }
AOT_API float stub_scale() { return last_params.sm_scale; }
}
