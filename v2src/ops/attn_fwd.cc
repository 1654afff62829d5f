#include "attn_fwd.h"
#include "tensors.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

namespace aot {
namespace {

enum Axis : uint8_t { kBatch, kHeadsQ, kHeadsK, kSeqlenQ, kSeqlenK, kHeadDim, kHeadDimV, kNumAxes };
constexpr const char* kAxisNames[] = {"batch",    "heads_q",  "heads_k",   "seqlen_q",
                                      "seqlen_k", "head_dim", "head_dim_v"};
static_assert(std::size(kAxisNames) == kNumAxes);

constexpr TensorArgument kQ = {
    "q", DtypeRule::kShared, false, 4, {kBatch, kHeadsQ, kSeqlenQ, kHeadDim}};
constexpr TensorArgument kK = {
    "k", DtypeRule::kShared, false, 4, {kBatch, kHeadsK, kSeqlenK, kHeadDim}};
constexpr TensorArgument kV = {
    "v", DtypeRule::kShared, false, 4, {kBatch, kHeadsK, kSeqlenK, kHeadDimV}};
constexpr TensorArgument kOut = {
    "out", DtypeRule::kShared, true, 4, {kBatch, kHeadsQ, kSeqlenQ, kHeadDimV}};
constexpr TensorArgument kLse = {"lse", DtypeRule::kF32, true, 3, {kBatch, kHeadsQ, kSeqlenQ}};
constexpr TensorArgument kTensors[] = {kQ, kK, kV, kOut, kLse};

constexpr size_t first_slot_after_tensors() {
  size_t slot = kNullSlot + 1;
  for (const TensorArgument& tensor : kTensors)
    slot += tensor_slots(tensor.rank);
  return slot;
}
constexpr size_t kFirstAxisSlot = first_slot_after_tensors();

// the slots after those of the axes
#define AOT_ATTN_FWD_SCALARS(X)                                                                    \
  X(sm_scale, Type::kF32)                                                                          \
  X(window_left, Type::kI64)                                                                       \
  X(window_right, Type::kI64)                                                                      \
  X(scale_log2, Type::kF32)                                                                        \
  X(scale_sign, Type::kI64)                                                                        \
  X(bottom_right, Type::kI64)                                                                      \
  X(compute_units, Type::kI64)

enum ScalarSlot : size_t {
  before_scalars = kFirstAxisSlot + kNumAxes - 1,
#define AOT_SLOT(name, type) name,
  AOT_ATTN_FWD_SCALARS(AOT_SLOT)
#undef AOT_SLOT
};
static_assert(compute_units < kMaxSlots); // the last of them

constexpr int64_t kHeadDims[] = {16, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256, 384, 512};
constexpr uint32_t kNumHeadDims = std::size(kHeadDims);
constexpr int64_t kMaxHeadDim = kHeadDims[kNumHeadDims - 1];
// Of seqlen_q + seqlen_k: kernels add a row, a window's bound and their distance in 32 bits, and
// blocks reach past the ends.
constexpr int64_t kMaxSeqlens = (int64_t{1} << 31) - (int64_t{1} << 20);
constexpr int64_t kMaxPrograms = INT32_MAX;

constexpr int32_t kDtypes[] = {AOT_F16, AOT_BF16, AOT_F32}; // in the order of the feature

uint32_t functional(uint32_t dtype, uint32_t head_dim, uint32_t head_dim_v, uint32_t mask,
                    bool padded_head) {
  return (((dtype * kNumHeadDims + head_dim) * kNumHeadDims + head_dim_v) * 3 + mask) * 2 +
         padded_head;
}

uint32_t bucket_of(int64_t head_dim) {
  uint32_t bucket = 0;
  while (kHeadDims[bucket] < head_dim)
    ++bucket;
  return bucket;
}

struct Mask {
  uint32_t kind; // aot_mask
  bool bottom_right;
  int64_t left, right; // the equivalent window, no wider than it need be
};

// The one form of all masks that show the same keys. An unlimited bound is the smallest one that
// hides nothing: the last row sees the first key, the first row sees the last key.
Mask canonical_mask(const aot_attn_fwd_params& p, int64_t seqlen_q, int64_t seqlen_k) {
  const Mask none = {AOT_MASK_NONE, false, seqlen_q - 1, std::max<int64_t>(0, seqlen_k - 1)};
  if (p.mask == AOT_MASK_NONE)
    return none;
  const bool window = p.mask == AOT_MASK_WINDOW;
  const int64_t shift = p.alignment == AOT_BOTTOM_RIGHT ? seqlen_k - seqlen_q : 0;
  const int64_t open_left = std::max<int64_t>(0, seqlen_q - 1 + shift);
  const int64_t open_right = std::max<int64_t>(0, seqlen_k - 1 - shift);
  const auto bound = [](int64_t given, int64_t open) {
    return given < 0 ? open : std::min(given, open);
  };
  const int64_t left = bound(window ? p.window_left : -1, open_left);
  const int64_t right = bound(window ? p.window_right : 0, open_right);
  if (left == open_left && right == open_right)
    return none;
  const uint32_t kind = left == open_left && right == 0 ? AOT_MASK_CAUSAL : AOT_MASK_WINDOW;
  return {kind, shift != 0, left, right};
}

// Where a kernel for the features themselves is not built or refuses, one for more general features
// serves.
void list_functionals(uint32_t dtype, int64_t head_dim, int64_t head_dim_v, uint32_t mask,
                      Request* request) {
  static_assert(2 * (kNumHeadDims + 1) <= Request::kMaxFunctionals); // two masks in all buckets
  const uint32_t own = bucket_of(head_dim), own_v = bucket_of(head_dim_v);
  const bool padded = kHeadDims[own] != head_dim || kHeadDims[own_v] != head_dim_v;
  for (const uint32_t m : {mask, uint32_t{AOT_MASK_WINDOW}}) {
    if (!padded)
      request->try_functional(functional(dtype, own, own_v, m, false));
    request->try_functional(functional(dtype, own, own_v, m, true));
    for (uint32_t both = std::max(own, own_v); both < kNumHeadDims; ++both)
      if (both != own || both != own_v)
        request->try_functional(functional(dtype, both, both, m, true));
    if (mask == AOT_MASK_WINDOW)
      return;
  }
}

Status check_scalars(const aot_attn_fwd_params& p) {
  if (p.mask < AOT_MASK_NONE || p.mask > AOT_MASK_WINDOW)
    return fail(AOT_BAD_ARGUMENT,
                "attn_fwd: mask = %d; allowed are 0 (none), 1 (causal), 2 (window)", p.mask);
  if (p.mask != AOT_MASK_NONE && p.alignment != AOT_TOP_LEFT && p.alignment != AOT_BOTTOM_RIGHT)
    return fail(AOT_BAD_ARGUMENT,
                "attn_fwd: alignment = %d; allowed are 0 (top-left), 1 (bottom-right)",
                p.alignment);
  if (!std::isfinite(p.sm_scale))
    return fail(AOT_BAD_ARGUMENT, "attn_fwd: sm_scale = %g is not finite", double(p.sm_scale));
  return {};
}

Status check_sizes(const TensorReader& sizes) {
  const auto at_least_1 = [&](Axis axis) {
    return sizes.size(axis) >= 1 ? Status()
                                 : fail(AOT_BAD_ARGUMENT, "attn_fwd: %s = 0; it must be at least 1",
                                        kAxisNames[axis]);
  };
  const auto at_most = [&](Axis axis, int64_t most) {
    return sizes.size(axis) <= most
               ? Status()
               : fail(AOT_UNSUPPORTED, "attn_fwd: %s = %lld; the largest %s is %lld",
                      kAxisNames[axis], static_cast<long long>(sizes.size(axis)), kAxisNames[axis],
                      static_cast<long long>(most));
  };
  for (const Axis axis : {kHeadsQ, kHeadsK, kHeadDim})
    AOT_TRY(at_least_1(axis));
  if (sizes.size(kHeadsQ) % sizes.size(kHeadsK) != 0)
    return fail(AOT_BAD_ARGUMENT, "attn_fwd: heads_q = %lld is no multiple of heads_k = %lld",
                static_cast<long long>(sizes.size(kHeadsQ)),
                static_cast<long long>(sizes.size(kHeadsK)));
  AOT_TRY(at_most(kHeadDim, kMaxHeadDim));
  AOT_TRY(at_most(kHeadDimV, kMaxHeadDim));
  AOT_TRY(at_most(kSeqlenQ, kMaxSeqlens));
  AOT_TRY(at_most(kSeqlenK, kMaxSeqlens));
  if (sizes.size(kSeqlenQ) + sizes.size(kSeqlenK) > kMaxSeqlens)
    return fail(AOT_UNSUPPORTED, "attn_fwd: seqlen_q + seqlen_k = %lld; the largest sum is %lld",
                static_cast<long long>(sizes.size(kSeqlenQ) + sizes.size(kSeqlenK)),
                static_cast<long long>(kMaxSeqlens));
  AOT_TRY(at_most(kBatch, kMaxPrograms));
  return at_most(kHeadsQ, kMaxPrograms / std::max<int64_t>(sizes.size(kBatch), 1));
}

Status read_attn_fwd(const void* params, bool with_data, Request* request) {
  aot_attn_fwd_params p;
  AOT_TRY(read_struct("attn_fwd: params", params, &p, sizeof p));
  AOT_TRY(check_scalars(p));
  Slot* slots = request->slots;
  slots[kNullSlot] = 0;
  TensorReader tensors("attn_fwd", kAxisNames, with_data, slots);
  AOT_TRY(tensors.read(kQ, p.q));
  AOT_TRY(tensors.read(kK, p.k));
  AOT_TRY(tensors.read(kV, p.v));
  AOT_TRY(tensors.read(kOut, p.out));
  if (p.lse.data)
    AOT_TRY(tensors.read(kLse, p.lse));
  else
    tensors.skip(kLse);
  AOT_TRY(check_sizes(tensors));

  const int64_t seqlen_q = tensors.size(kSeqlenQ), seqlen_k = tensors.size(kSeqlenK);
  if (tensors.size(kBatch) == 0 || seqlen_q == 0) {
    request->nothing_to_do = true;
    return {};
  }
  if (tensors.size(kHeadDimV) == 0) {
    if (p.lse.data)
      return fail(AOT_UNSUPPORTED, "attn_fwd: head_dim_v = 0 with lse; lse alone is not computed");
    request->nothing_to_do = true;
    return {};
  }
  for (size_t axis = 0; axis < kNumAxes; ++axis)
    slots[kFirstAxisSlot + axis] = static_cast<Slot>(tensors.size(axis));
  const Mask mask = canonical_mask(p, seqlen_q, seqlen_k);
  slots[sm_scale] = slot_of(p.sm_scale);
  slots[scale_log2] = slot_of(static_cast<float>(p.sm_scale * std::numbers::log2e));
  slots[scale_sign] = static_cast<Slot>(int64_t{p.sm_scale > 0} - int64_t{p.sm_scale < 0});
  slots[window_left] = static_cast<Slot>(mask.left);
  slots[window_right] = static_cast<Slot>(mask.right);
  slots[bottom_right] = mask.bottom_right;
  request->tuning_sizes = {seqlen_q, seqlen_k, tensors.size(kBatch) * tensors.size(kHeadsQ)};
  const auto dtype = std::ranges::find(kDtypes, tensors.dtype()) - kDtypes;
  list_functionals(static_cast<uint32_t>(dtype), tensors.size(kHeadDim), tensors.size(kHeadDimV),
                   mask.kind, request);
  return {};
}

Operator make_operator() {
  Operator op;
  op.name = "attn_fwd";
  std::vector<std::string> head_dims;
  for (const int64_t head_dim : kHeadDims)
    head_dims.push_back(std::to_string(head_dim));
  op.features = {{"dtype", {"f16", "bf16", "f32"}},
                 {"head_dim", head_dims},
                 {"head_dim_v", head_dims},
                 {"mask", {"none", "causal", "window"}}, // in the order of aot_mask
                 {"padded_head", {"0", "1"}}};
  add_tensor_names(kTensors, kAxisNames, &op.vocabulary);
#define AOT_ADD(name, type) op.vocabulary.add(#name, type);
  AOT_ATTN_FWD_SCALARS(AOT_ADD)
#undef AOT_ADD
  op.compute_units_slot = compute_units;
  op.read = read_attn_fwd;
  return op;
}

} // namespace

const Operator kAttnFwd = make_operator();

} // namespace aot
