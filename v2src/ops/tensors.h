// The tensor arguments of an operator: their part of the vocabulary, their checks, their slots.
#ifndef AOTATTN_OPS_TENSORS_H
#define AOTATTN_OPS_TENSORS_H

#include "../launch/slots.h"

#include <span>

namespace aot {

enum class DtypeRule : uint8_t { kShared, kF32 }; // the operator's one dtype; or always f32

struct TensorArgument {
  const char* name;
  DtypeRule dtype;
  bool output;
  uint8_t rank;
  uint8_t axes[4]; // which named sizes it has
};

// Adds the names of the tensors, then those of the axes. The first tensor's slots start right after
// "null".
void add_tensor_names(std::span<const TensorArgument> arguments, std::span<const char* const> axes,
                      Vocabulary* vocabulary);

// Checks tensors one by one, each against the sizes and the dtype of those before.
class TensorReader {
public:
  TensorReader(const char* op, std::span<const char* const> axes, bool with_data, Slot* slots)
      : op_(op), axes_(axes), with_data_(with_data), slots_(slots) {}

  // Checks the tensor and fills its slots, which are the next.
  Status read(const TensorArgument& argument, const aot_tensor& tensor);
  // Zeroes the slots of an absent one.
  void skip(const TensorArgument& argument);

  int64_t size(size_t axis) const { return sizes_[axis]; }
  int32_t dtype() const { return dtype_; }

private:
  static constexpr size_t kMaxAxes = 16;

  Status read_dtype(const TensorArgument& argument, int32_t dtype);
  Status read_axis(const TensorArgument& argument, const aot_tensor& tensor, size_t axis);
  Status check_overlap(const TensorArgument& argument, const aot_tensor& tensor) const;
  Status read_data(const TensorArgument& argument, const aot_tensor& tensor, bool empty);

  const char* op_;
  std::span<const char* const> axes_;
  bool with_data_;
  Slot* slots_;
  size_t next_ = kNullSlot + 1;
  int32_t dtype_ = 0; // the shared one, 0 before the first tensor
  const char* dtype_of_ = nullptr;
  int64_t element_bytes_ = 0; // of the tensor at hand
  int64_t sizes_[kMaxAxes] = {};
  const char* size_of_[kMaxAxes] = {}; // the tensor that the size was read from
};

} // namespace aot

#endif
