// A CUDA device of host memory for PyTorch's CPU wheel, as much as attention calls need, and what
// stands there for PyTorch's own flash attention: an operator, which gives no results, and the
// kernel below it, which fills out with 7.
#include <ATen/EmptyTensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/FakeGuardImpl.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using at::Tensor;
constexpr auto kCUDA = c10::DeviceType::CUDA;
constexpr int64_t kFlashAttention = 1; // at::SDPBackend

using FakeGuard = c10::impl::FakeGuardImpl<kCUDA>;
C10_REGISTER_GUARD_IMPL(CUDA, FakeGuard);

int64_t operator_calls = 0;
int64_t kernel_calls = 0;
const char* kernel_error = nullptr;

struct HostMemory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = std::malloc(bytes + 1);
    return {data, data, &std::free, FakeGuard().getDevice()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
} memory;

const c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);

Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                     std::optional<at::ScalarType> dtype, std::optional<c10::Layout>,
                     std::optional<c10::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(*device);
  return at::detail::empty_strided_generic(size, stride, &memory, kKeys,
                                           dtype.value_or(at::kFloat));
}

Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<c10::Layout>,
             std::optional<c10::Device> device, std::optional<bool>,
             std::optional<c10::MemoryFormat> format) {
  const c10::DeviceGuard guard(*device);
  return at::detail::empty_generic(size, &memory, kKeys, dtype.value_or(at::kFloat), format);
}

Tensor on_host(const Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       tensor.options().device(at::kCPU));
}

Tensor& copy_(Tensor& self, const Tensor& from, bool) {
  on_host(self).copy_(on_host(from));
  return self;
}

Tensor& fill_(Tensor& self, const at::Scalar& value) {
  on_host(self).fill_(value);
  return self;
}

Tensor view(const Tensor& self, c10::IntArrayRef size) { return at::native::view(self, size); }

Tensor as_strided(const Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride,
                  std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

using FlashResults =
    std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

FlashResults flash_results(const Tensor& q, const Tensor& k) {
  const auto u64 = q.options().dtype(at::kUInt64);
  return {at::empty_like(q).fill_(7),
          at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat)),
          {},
          {},
          q.size(2),
          k.size(2),
          at::empty({2}, u64),
          at::empty({}, u64),
          at::empty({0}, q.options())};
}

FlashResults flash_operator(const Tensor& q, const Tensor& k, const Tensor&, double, bool, bool,
                            std::optional<double>) {
  ++operator_calls;
  return flash_results(q, k);
}

int64_t choose_flash(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&,
                     double, bool, std::optional<double>, bool) {
  return kFlashAttention;
}

const Tensor& tensor_of(AtenTensorHandle handle) { return *reinterpret_cast<Tensor*>(handle); }
AtenTensorHandle handle_of(const Tensor& tensor) {
  return reinterpret_cast<AtenTensorHandle>(new Tensor(tensor));
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty_strided", empty_strided);
  m.impl("empty.memory_format", empty);
  m.impl("copy_", copy_);
  m.impl("fill_.Scalar", fill_);
  m.impl("view", view);
  m.impl("as_strided", as_strided);
  m.impl("_scaled_dot_product_flash_attention", flash_operator);
}

} // namespace

// The names that PyTorch's CUDA build has.
EXPORT AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device, void** stream) {
  *stream = reinterpret_cast<void*>(static_cast<intptr_t>(1000 + device));
  return AOTI_TORCH_SUCCESS;
}

EXPORT AOTITorchError aoti_torch_cuda__scaled_dot_product_flash_attention(
    AtenTensorHandle q, AtenTensorHandle k, AtenTensorHandle, double, int32_t, int32_t, double*,
    AtenTensorHandle* out, AtenTensorHandle* lse, AtenTensorHandle* cum_seq_q,
    AtenTensorHandle* cum_seq_k, int64_t* max_q, int64_t* max_k, AtenTensorHandle* rng_state,
    AtenTensorHandle* unused, AtenTensorHandle* debug_mask) {
  ++kernel_calls;
  if (kernel_error)
    return AOTI_TORCH_FAILURE;
  const FlashResults results = flash_results(tensor_of(q), tensor_of(k));
  *out = handle_of(std::get<0>(results));
  *lse = handle_of(std::get<1>(results));
  *cum_seq_q = handle_of({});
  *cum_seq_k = handle_of({});
  *max_q = std::get<4>(results).expect_int();
  *max_k = std::get<5>(results).expect_int();
  *rng_state = handle_of(std::get<6>(results));
  *unused = handle_of(std::get<7>(results));
  *debug_mask = handle_of(std::get<8>(results));
  return AOTI_TORCH_SUCCESS;
}

EXPORT const char* torch_exception_get_what_without_backtrace() {
  return kernel_error ? kernel_error : "no error";
}

EXPORT void fake_start() { at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(choose_flash); }
EXPORT void fake_fail(const char* error) { kernel_error = error; }
EXPORT int64_t fake_operator_calls() { return operator_calls; }
EXPORT int64_t fake_kernel_calls() { return kernel_calls; }
