// What this process may or may not have: functions that a CPU-only or an older PyTorch lacks. They
// are looked up at first use, so that one binary loads everywhere.
#pragma once

#include "tensors.h"

#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cuda.h>

namespace aotattn::binding {

// The current stream of a CUDA or ROCm device. False where this PyTorch has no such devices.
bool current_stream(int32_t device_index, void** stream);

// Whether gradients may be asked of this tensor; true where that cannot be known.
bool may_require_grad(AtenTensorHandle tensor);

// PyTorch's own kernels for the operators, as they are below the dispatcher: so they are reachable
// while we stand in their place there. PyTorch keeps them compatible for AOTInductor's compiled
// models (torchgen/aoti/fallback_ops.py). Those on CUDA and ROCm are null where PyTorch has no such
// devices.
struct TorchKernels {
  decltype(&aoti_torch_cuda__scaled_dot_product_flash_attention) flash;
  decltype(&aoti_torch_cuda__scaled_dot_product_efficient_attention) efficient;
  decltype(&aoti_torch_cuda__scaled_dot_product_cudnn_attention) cudnn;
  decltype(&aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu) cpu;
};
const TorchKernels& torch_kernels();

// The message of the error that a shim has just returned on this thread.
const char* last_torch_error();

} // namespace aotattn::binding
