// A CUDA device of host memory for PyTorch's CPU wheel, as much as attention calls need, and what
// stands there for PyTorch's own attention: of each kind an operator and the kernel below it, which
// fills out with 7.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/transpose.h>
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

using FakeGuard = c10::impl::FakeGuardImpl<kCUDA>;
C10_REGISTER_GUARD_IMPL(CUDA, FakeGuard);

int64_t operator_calls = 0;
int64_t kernel_calls = 0;
bool with_bias = false; // whether a kernel was given one
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

using MaybeTensor = std::optional<Tensor>;
using MaybeScale = std::optional<double>;
using EfficientResults = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Results = // of flash and of cuDNN attention
    std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Tensor lse_of(const Tensor& q) {
  return at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
}

Tensor out_of(const Tensor& q, const Tensor& v) {
  return at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options()).fill_(7);
}

Results flash_results(const Tensor& q, const Tensor& k, const Tensor& v, double, bool, bool,
                      MaybeScale) {
  const auto u64 = q.options().dtype(at::kUInt64);
  return {out_of(q, v),
          lse_of(q),
          {},
          {},
          q.size(2),
          k.size(2),
          at::empty({2}, u64),
          at::empty({}, u64),
          at::empty({0}, q.options())};
}

EfficientResults efficient_results(const Tensor& q, const Tensor&, const Tensor& v,
                                   const MaybeTensor&, bool, double, bool, MaybeScale) {
  const auto i64 = q.options().dtype(at::kLong);
  return {out_of(q, v), lse_of(q), at::empty({}, i64), at::empty({}, i64)};
}

Results cudnn_results(const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor&,
                      bool compute_lse, double, bool, bool, MaybeScale) {
  const auto i64 = q.options().dtype(at::kLong);
  return {out_of(q, v),
          compute_lse ? lse_of(q) : Tensor(),
          {},
          {},
          q.size(2),
          k.size(2),
          at::empty({}, i64),
          at::empty({}, i64),
          {}};
}

// PyTorch's operator: its results, counted.
template <auto results> struct CountedOperator;
template <typename Result, typename... Arguments, Result (*results)(Arguments...)>
struct CountedOperator<results> {
  static Result call(Arguments... arguments) {
    ++operator_calls;
    return results(arguments...);
  }
};

// The order that PyTorch prefers on Hopper, of what sdpa_kernel allows.
int64_t choose(const Tensor&, const Tensor&, const Tensor&, const MaybeTensor&, double, bool,
               MaybeScale, bool) {
  const at::Context& context = at::globalContext();
  const auto backend = context.userEnabledCuDNNSDP()          ? at::SDPBackend::cudnn_attention
                       : context.userEnabledFlashSDP()        ? at::SDPBackend::flash_attention
                       : context.userEnabledMemEfficientSDP() ? at::SDPBackend::efficient_attention
                                                              : at::SDPBackend::math;
  return static_cast<int64_t>(backend);
}

const Tensor& tensor_of(AtenTensorHandle handle) { return *reinterpret_cast<Tensor*>(handle); }
AtenTensorHandle handle_of(const Tensor& tensor) {
  return reinterpret_cast<AtenTensorHandle>(new Tensor(tensor));
}
MaybeTensor bias_of(AtenTensorHandle* bias) {
  with_bias = bias != nullptr;
  return bias ? MaybeTensor(tensor_of(*bias)) : std::nullopt;
}
MaybeScale scale_of(double* scale) { return scale ? MaybeScale(*scale) : std::nullopt; }

void put(const Tensor& result, AtenTensorHandle* place) { *place = handle_of(result); }
void put(const c10::SymInt& result, int64_t* place) { *place = result.expect_int(); }

// What a kernel below an operator gives.
template <typename ResultTuple, typename... Places>
AOTITorchError give(const ResultTuple& results, Places... places) {
  ++kernel_calls;
  if (kernel_error)
    return AOTI_TORCH_FAILURE;
  std::apply([&](const auto&... result) { (put(result, places), ...); }, results);
  return AOTI_TORCH_SUCCESS;
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty_strided", empty_strided);
  m.impl("empty.memory_format", empty);
  m.impl("copy_", copy_);
  m.impl("fill_.Scalar", fill_);
  m.impl("view", view);
  m.impl("as_strided", as_strided);
  m.impl("_scaled_dot_product_flash_attention", CountedOperator<flash_results>::call);
  m.impl("_scaled_dot_product_efficient_attention", CountedOperator<efficient_results>::call);
  m.impl("_scaled_dot_product_cudnn_attention", CountedOperator<cudnn_results>::call);
  m.impl("_fused_sdp_choice", choose);
}

} // namespace

// The names that PyTorch's CUDA build has.
EXPORT AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device, void** stream) {
  *stream = reinterpret_cast<void*>(static_cast<intptr_t>(1000 + device));
  return AOTI_TORCH_SUCCESS;
}

EXPORT AOTITorchError aoti_torch_cuda__scaled_dot_product_flash_attention(
    AtenTensorHandle q, AtenTensorHandle k, AtenTensorHandle v, double dropout_p, int32_t is_causal,
    int32_t return_debug_mask, double* scale, AtenTensorHandle* out, AtenTensorHandle* lse,
    AtenTensorHandle* cum_seq_q, AtenTensorHandle* cum_seq_k, int64_t* max_q, int64_t* max_k,
    AtenTensorHandle* rng_state, AtenTensorHandle* unused, AtenTensorHandle* debug_mask) {
  return give(flash_results(tensor_of(q), tensor_of(k), tensor_of(v), dropout_p, is_causal,
                            return_debug_mask, scale_of(scale)),
              out, lse, cum_seq_q, cum_seq_k, max_q, max_k, rng_state, unused, debug_mask);
}

EXPORT AOTITorchError aoti_torch_cuda__scaled_dot_product_efficient_attention(
    AtenTensorHandle q, AtenTensorHandle k, AtenTensorHandle v, AtenTensorHandle* bias,
    int32_t compute_lse, double dropout_p, int32_t is_causal, double* scale, AtenTensorHandle* out,
    AtenTensorHandle* lse, AtenTensorHandle* seed, AtenTensorHandle* offset) {
  return give(efficient_results(tensor_of(q), tensor_of(k), tensor_of(v), bias_of(bias),
                                compute_lse, dropout_p, is_causal, scale_of(scale)),
              out, lse, seed, offset);
}

EXPORT AOTITorchError aoti_torch_cuda__scaled_dot_product_cudnn_attention(
    AtenTensorHandle q, AtenTensorHandle k, AtenTensorHandle v, AtenTensorHandle* bias,
    int32_t compute_lse, double dropout_p, int32_t is_causal, int32_t return_debug_mask,
    double* scale, AtenTensorHandle* out, AtenTensorHandle* lse, AtenTensorHandle* cum_seq_q,
    AtenTensorHandle* cum_seq_k, int64_t* max_q, int64_t* max_k, AtenTensorHandle* seed,
    AtenTensorHandle* offset, AtenTensorHandle* debug_mask) {
  return give(cudnn_results(tensor_of(q), tensor_of(k), tensor_of(v), bias_of(bias), compute_lse,
                            dropout_p, is_causal, return_debug_mask, scale_of(scale)),
              out, lse, cum_seq_q, cum_seq_k, max_q, max_k, seed, offset, debug_mask);
}

EXPORT const char* torch_exception_get_what_without_backtrace() {
  return kernel_error ? kernel_error : "no error";
}

EXPORT void fake_start() { at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(choose); }
EXPORT void fake_fail(const char* error) { kernel_error = error; }
EXPORT int64_t fake_operator_calls() { return operator_calls; }
EXPORT int64_t fake_kernel_calls() { return kernel_calls; }
EXPORT bool fake_with_bias() { return with_bias; }
