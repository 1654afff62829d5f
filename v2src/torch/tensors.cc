#include "tensors.h"

#include <torch/csrc/stable/stableivalue_conversions.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace aotattn::binding {
namespace {

constexpr int64_t kMaxRank = 4;

// Whether the elements fill a block of memory without gaps or overlap. Dimensions of size 1 do not
// count.
bool is_dense(const TensorFacts& facts) {
  int64_t expected =
      1; // the next stride; it grows with each dimension found, so none is found twice
  for (int64_t left = facts.rank - std::count(facts.size, facts.size + facts.rank, 1); left > 0;
       --left) {
    int64_t d = 0;
    while (d < facts.rank && (facts.size[d] == 1 || facts.stride[d] != expected))
      ++d;
    if (d == facts.rank)
      return false;
    expected *= facts.size[d];
  }
  return true;
}

} // namespace

bool read(AtenTensorHandle tensor, TensorFacts* facts) {
  int64_t *size = nullptr, *stride = nullptr;
  if (aoti_torch_get_dim(tensor, &facts->rank) || aoti_torch_get_sizes(tensor, &size) ||
      aoti_torch_get_strides(tensor, &stride) || aoti_torch_get_dtype(tensor, &facts->dtype) ||
      aoti_torch_get_device_type(tensor, &facts->device.type) ||
      aoti_torch_get_device_index(tensor, &facts->device.index))
    return false;
  facts->size = size;
  facts->stride = stride;
  return true;
}

OwnedTensor empty_strided(int64_t rank, const int64_t* size, const int64_t* stride, int32_t dtype,
                          Device device) {
  AtenTensorHandle tensor = nullptr;
  if (aoti_torch_empty_strided(rank, size, stride, dtype, device.type, device.index, &tensor))
    return nullptr;
  return OwnedTensor(tensor);
}

OwnedTensor empty_contiguous(int64_t rank, const int64_t* size, int32_t dtype, Device device) {
  std::array<int64_t, kMaxRank> stride{};
  int64_t step = 1;
  for (int64_t d = rank - 1; d >= 0; --d) {
    stride[d] = step;
    step *= std::max<int64_t>(size[d], 1);
  }
  return empty_strided(rank, size, stride.data(), dtype, device);
}

OwnedTensor empty_like(AtenTensorHandle like, const TensorFacts& facts) {
  if (is_dense(facts))
    return empty_strided(facts.rank, facts.size, facts.stride, facts.dtype, facts.device);
  // How strides follow from a tensor with gaps is torch's to say; that costs a dispatch by name.
  AtenTensorHandle self = nullptr;
  if (aoti_torch_new_tensor_handle(like, &self))
    return nullptr;
  const auto none = ::torch::stable::detail::from(std::nullopt);
  std::array<StableIValue, 6> stack = {
      ::torch::stable::detail::from(self), none, none, none, none, none};
  if (torch_call_dispatcher("aten::empty_like", "", stack.data(), TORCH_ABI_VERSION))
    return nullptr;
  return OwnedTensor(::torch::stable::detail::to<AtenTensorHandle>(stack[0]));
}

OwnedTensor empty_in_order_of(const TensorFacts& like, const int64_t* size) {
  std::array<int64_t, kMaxRank> order{}, stride{};
  const auto end = order.begin() + like.rank;
  std::iota(order.begin(), end, 0);
  std::stable_sort(order.begin(), end,
                   [&](int64_t a, int64_t b) { return like.stride[a] > like.stride[b]; });
  int64_t step = 1;
  for (int64_t i = like.rank - 1; i >= 0; --i) {
    stride[order[i]] = step;
    step *= size[order[i]];
  }
  return empty_strided(like.rank, size, stride.data(), like.dtype, like.device);
}

} // namespace aotattn::binding
