// aten::_scaled_dot_product_flash_attention on CUDA (ROCm uses the same key).
#pragma once

#include "aotattn/aotattn.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <optional>
#include <string>

namespace aotattn::binding {

// The operator's arguments; tensors are borrowed.
struct FlashArguments {
  AtenTensorHandle q, k, v;
  double dropout_p;
  bool is_causal;
  bool return_debug_mask;
  std::optional<double> scale;
};

// The kernel for the dispatcher, on a stack of 7 arguments and 9 results.
void flash_attention(StableIValue* stack, uint64_t num_arguments, uint64_t num_results);

// Why the kernel would decline this call, "" if it would serve it. Loads what it would launch.
std::string why_not_flash_attention(const FlashArguments& arguments);

// The platform of this PyTorch's CUDA key, once, before the first call.
void set_platform(aot_platform platform);

} // namespace aotattn::binding
