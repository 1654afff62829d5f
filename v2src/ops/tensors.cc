#include "tensors.h"

namespace aot {
namespace {

struct Dtype {
  const char* name;
  int64_t bytes;
};

// Null for a number that is no aot_dtype.
const Dtype* find_dtype(int32_t dtype) {
  static constexpr Dtype kDtypes[] = {{"f32", 4}, {"f16", 2}, {"bf16", 2}};
  return dtype >= AOT_F32 && dtype <= AOT_BF16 ? &kDtypes[dtype - AOT_F32] : nullptr;
}

constexpr int64_t kMaxBytes = int64_t{1}
                              << 60; // that a tensor spans; byte offsets stay far from 2^63

} // namespace

void add_tensor_names(std::span<const TensorArgument> arguments, std::span<const char* const> axes,
                      Vocabulary* vocabulary) {
  for (const TensorArgument& argument : arguments) {
    const std::string name = argument.name;
    vocabulary->add(name + ".ptr", Type::kPointer);
    vocabulary->add(name + ".bytes", Type::kI64);
    for (int axis = 0; axis < argument.rank; ++axis) {
      vocabulary->add(format("%s.size.%d", argument.name, axis), Type::kI64);
      vocabulary->add(format("%s.stride.%d", argument.name, axis), Type::kI64);
    }
  }
  for (const char* axis : axes)
    vocabulary->add(axis, Type::kI64);
}

Status TensorReader::read_dtype(const TensorArgument& argument, int32_t dtype) {
  const Dtype* known = find_dtype(dtype);
  if (!known)
    return fail(AOT_BAD_ARGUMENT, "%s: %s.dtype = %d; allowed are 1 (f32), 2 (f16), 3 (bf16)", op_,
                argument.name, dtype);
  element_bytes_ = known->bytes;
  if (argument.dtype == DtypeRule::kF32) {
    if (dtype != AOT_F32)
      return fail(AOT_BAD_ARGUMENT, "%s: %s is %s; it must be f32", op_, argument.name,
                  known->name);
    return {};
  }
  if (dtype_ == 0) {
    dtype_ = dtype;
    dtype_of_ = argument.name;
  }
  if (dtype != dtype_)
    return fail(AOT_BAD_ARGUMENT, "%s: %s is %s, %s is %s; they must be of one dtype", op_,
                argument.name, known->name, dtype_of_, find_dtype(dtype_)->name);
  return {};
}

Status TensorReader::read_axis(const TensorArgument& argument, const aot_tensor& tensor,
                               size_t axis) {
  const int64_t size = tensor.size[axis], stride = tensor.stride[axis];
  const size_t which = argument.axes[axis];
  if (size < 0)
    return fail(AOT_BAD_ARGUMENT, "%s: %s.size[%zu] = %lld is negative", op_, argument.name, axis,
                static_cast<long long>(size));
  if (!size_of_[which]) {
    sizes_[which] = size;
    size_of_[which] = argument.name;
  }
  if (size != sizes_[which])
    return fail(AOT_BAD_ARGUMENT, "%s: %s = %lld in %s, but %lld in %s", op_, axes_[which],
                static_cast<long long>(size), argument.name, static_cast<long long>(sizes_[which]),
                size_of_[which]);
  if (stride < 0)
    return fail(AOT_BAD_ARGUMENT, "%s: %s.stride[%zu] = %lld is negative", op_, argument.name, axis,
                static_cast<long long>(stride));
  const bool last = axis + 1 == argument.rank;
  if (last && stride != 1 && size > 1)
    return fail(AOT_BAD_ARGUMENT, "%s: %s.stride[%zu] = %lld; the last stride must be 1", op_,
                argument.name, axis, static_cast<long long>(stride));
  slots_[next_ + size_slot(axis)] = static_cast<Slot>(size);
  // the stride of an axis without a second element is never used: 0 suits every kernel
  slots_[next_ + stride_slot(axis)] = last ? 1 : size > 1 ? static_cast<Slot>(stride) : 0;
  return {};
}

Status TensorReader::check_overlap(const TensorArgument& argument, const aot_tensor& tensor) const {
  for (size_t axis = 0; axis < argument.rank; ++axis)
    if (tensor.stride[axis] == 0 && tensor.size[axis] > 1)
      return fail(AOT_BAD_ARGUMENT,
                  "%s: %s.stride[%zu] = 0 over %lld elements; an output may not overlap itself",
                  op_, argument.name, axis, static_cast<long long>(tensor.size[axis]));
  return {};
}

Status TensorReader::read_data(const TensorArgument& argument, const aot_tensor& tensor,
                               bool empty) {
  int64_t elements = 1; // from the first to the last
  bool fits = true;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    int64_t reach = 0;
    const auto stride =
        static_cast<int64_t>(slots_[next_ + stride_slot(static_cast<size_t>(axis))]);
    fits &= empty || !__builtin_mul_overflow(tensor.size[axis] - 1, stride, &reach);
    fits &= !__builtin_add_overflow(elements, reach, &elements);
  }
  if (!fits || elements > kMaxBytes / element_bytes_)
    return fail(AOT_UNSUPPORTED, "%s: %s spans 2^60 bytes or more", op_, argument.name);
  const auto address = reinterpret_cast<uintptr_t>(tensor.data);
  if (with_data_ && !empty && !address)
    return fail(AOT_BAD_ARGUMENT, "%s: %s.data is null", op_, argument.name);
  if (address % static_cast<uintptr_t>(element_bytes_) != 0)
    return fail(AOT_BAD_ARGUMENT, "%s: %s.data = %p is no multiple of its element's %lld bytes",
                op_, argument.name, tensor.data, static_cast<long long>(element_bytes_));
  slots_[next_ + kPointerSlot] = address;
  slots_[next_ + kBytesSlot] = empty ? 0 : static_cast<Slot>(elements * element_bytes_);
  return {};
}

Status TensorReader::read(const TensorArgument& argument, const aot_tensor& tensor) {
  AOT_TRY(read_dtype(argument, tensor.dtype));
  if (tensor.rank != argument.rank)
    return fail(AOT_BAD_ARGUMENT, "%s: %s.rank = %d; it must be %d", op_, argument.name,
                tensor.rank, argument.rank);
  bool empty = false;
  for (size_t axis = 0; axis < argument.rank; ++axis) {
    AOT_TRY(read_axis(argument, tensor, axis));
    empty |= tensor.size[axis] == 0;
  }
  if (argument.output && !empty)
    AOT_TRY(check_overlap(argument, tensor));
  AOT_TRY(read_data(argument, tensor, empty));
  next_ += tensor_slots(argument.rank);
  return {};
}

void TensorReader::skip(const TensorArgument& argument) {
  const size_t count = tensor_slots(argument.rank);
  std::memset(slots_ + next_, 0, count * sizeof(Slot));
  next_ += count;
}

} // namespace aot
