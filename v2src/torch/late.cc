#include "late.h"

#include <dlfcn.h>

namespace aotattn::binding {
namespace {

// Python loads torch's libraries without RTLD_GLOBAL, so those that we do not link must be asked by
// name.
template <typename Function> Function find(const char* name) {
  void* address = dlsym(RTLD_DEFAULT, name);
  for (const char* library : {"libtorch_cuda.so", "libtorch_hip.so"}) {
    if (address)
      break;
    if (void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD)) {
      address = dlsym(handle, name);
      dlclose(handle);
    }
  }
  return reinterpret_cast<Function>(address);
}

// The stable ABI sets requires_grad but has no getter (2.10 to 2.13). libc10 exports one that takes
// the TensorImpl, and an AtenTensorHandle is an at::Tensor*, which holds nothing but the pointer to
// its TensorImpl. Both facts are older than the stable ABI but not promised by it, so they are
// tried on a tensor whose answer is known.
using RequiresGradFn = bool (*)(const void* tensor_impl);

bool ask(RequiresGradFn requires_grad, AtenTensorHandle tensor) {
  return requires_grad(*reinterpret_cast<void* const*>(tensor));
}

RequiresGradFn find_requires_grad() {
  const auto requires_grad = find<RequiresGradFn>("_ZNK3c1010TensorImpl13requires_gradEv");
  const OwnedTensor probe = empty_contiguous(0, nullptr, aoti_torch_dtype_float32(),
                                             Device{aoti_torch_device_type_cpu(), 0});
  if (!requires_grad || !probe || ask(requires_grad, probe.get()))
    return nullptr;
  if (torch_set_requires_grad(probe.get(), true) || !ask(requires_grad, probe.get()))
    return nullptr;
  return requires_grad;
}

} // namespace

bool current_stream(int32_t device_index, void** stream) {
  static const auto get =
      find<AOTITorchError (*)(int32_t, void**)>("aoti_torch_get_current_cuda_stream");
  return get && get(device_index, stream) == AOTI_TORCH_SUCCESS;
}

bool may_require_grad(AtenTensorHandle tensor) {
  static const RequiresGradFn requires_grad = find_requires_grad();
  return !requires_grad || ask(requires_grad, tensor);
}

const TorchKernels& torch_kernels() {
  static const TorchKernels kernels = {
      find<decltype(TorchKernels::flash)>("aoti_torch_cuda__scaled_dot_product_flash_attention"),
      find<decltype(TorchKernels::efficient)>(
          "aoti_torch_cuda__scaled_dot_product_efficient_attention"),
      find<decltype(TorchKernels::cudnn)>("aoti_torch_cuda__scaled_dot_product_cudnn_attention"),
      find<decltype(TorchKernels::cpu)>(
          "aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu"),
  };
  return kernels;
}

const char* last_torch_error() {
  static const auto what = find<const char* (*)()>("torch_exception_get_what_without_backtrace");
  return what ? what()
              : "PyTorch's attention failed; PyTorch before 2.13 prints the error to stderr";
}

} // namespace aotattn::binding
