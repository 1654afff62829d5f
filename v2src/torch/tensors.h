// Tensors of PyTorch as its C shims show them.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace aotattn::binding {

struct DeleteTensor {
  void operator()(AtenTensorHandle tensor) const noexcept {
    aoti_torch_delete_tensor_object(tensor);
  }
};
using OwnedTensor = std::unique_ptr<AtenTensorOpaque, DeleteTensor>;

struct Device {
  int32_t type;
  int32_t index;
  bool operator==(const Device&) const = default;
};

// A tensor's facts. `size` and `stride` belong to the tensor.
struct TensorFacts {
  int64_t rank;
  const int64_t* size;
  const int64_t* stride;
  int32_t dtype; // as torch numbers it
  Device device;
};

// False where torch cannot say (a tensor without strides).
bool read(AtenTensorHandle tensor, TensorFacts* facts);

// Uninitialised memory of torch's allocator; null if there is none.
OwnedTensor empty_strided(int64_t rank, const int64_t* size, const int64_t* stride, int32_t dtype,
                          Device device);
OwnedTensor empty_contiguous(int64_t rank, const int64_t* size, int32_t dtype, Device device);

// As aten::empty_like: `like`'s strides if it is dense, else dense in the same order of dimensions.
OwnedTensor empty_like(AtenTensorHandle like, const TensorFacts& facts);

// Dense, of another size, its dimensions from outermost to innermost in the order of `like`'s.
OwnedTensor empty_in_order_of(const TensorFacts& like, const int64_t* size);

} // namespace aotattn::binding
