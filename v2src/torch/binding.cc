// What Python calls through ctypes. Nothing is registered when the library is loaded.
#include "attention.h"
#include "declines.h"
#include "emulated.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/stableivalue_conversions.h>

#include <exception>
#include <memory>
#include <string>

namespace aotattn::binding {
namespace {

using torch::stable::Tensor;
using torch::stable::detail::StableLibrary;

thread_local std::string last_error;

template <const Operator& op>
void kernel(StableIValue* stack, uint64_t num_arguments, uint64_t num_results) {
  attention(op, stack, num_arguments, num_results);
}

// The operators that are taken over, at PyTorch's CUDA key or at its CPU key.
struct Override {
  const Operator* op;
  void (*kernel)(StableIValue*, uint64_t, uint64_t);
};
constexpr Override kOverrides[] = {
    {&kFlashAttention, kernel<kFlashAttention>},
    {&kEfficientAttention, kernel<kEfficientAttention>},
    {&kCudnnAttention, kernel<kCudnnAttention>},
    {&kCpuAttention, kernel<kCpuAttention>},
};

bool is_on_cpu(const Tensor& tensor) {
  int32_t type = 0;
  return !aoti_torch_get_device_type(tensor.get(), &type) && type == aoti_torch_device_type_cpu();
}

std::string why_not_backend(int64_t backend, Tensor q, Tensor k, Tensor v, double dropout_p,
                            bool is_causal, std::optional<double> scale) {
  const bool emulated = emulator_is_open() && is_on_cpu(q);
  for (const Override& override : kOverrides)
    if (override.op->backend == backend && override.op->on_cpu == emulated)
      return why_not(*override.op, {.q = q.get(),
                                    .k = k.get(),
                                    .v = v.get(),
                                    .dropout_p = dropout_p,
                                    .is_causal = is_causal,
                                    .scale = scale});
  return "PyTorch's rules choose neither flash, nor efficient, nor cuDNN attention";
}

// Runs `work`; null, or what it threw.
template <typename Work> const char* error_of(Work work) {
  try {
    work();
    return nullptr;
  } catch (const std::exception& error) {
    last_error = error.what();
    return last_error.c_str();
  }
}

} // namespace
} // namespace aotattn::binding

using namespace aotattn::binding;

#define EXPORT extern "C" __attribute__((visibility("default")))

// Once: defines torch.ops.aotattn. Null, or what went wrong (valid until the thread's next call).
EXPORT const char* aotattn_torch_load(int32_t platform) {
  set_platform(static_cast<aot_platform>(platform));
  return error_of([] {
    // Kept for the process: torch may hold the operators.
    static StableLibrary define(StableLibrary::Kind::DEF, "aotattn", nullptr, __FILE__, __LINE__);
    static StableLibrary implement(StableLibrary::Kind::IMPL, "aotattn",
                                   "CompositeExplicitAutograd", __FILE__, __LINE__);
    define.def("why_not(int backend, Tensor q, Tensor k, Tensor v, float dropout_p, "
               "bool is_causal, float? scale) -> str");
    implement.impl("why_not", TORCH_BOX(&why_not_backend));
  });
}

// Takes over the operators on CUDA; or those on the CPU for an emulated device, if `emulator` names
// its library, which the C library has loaded. `*registration` gives them back. Null, or what went
// wrong.
EXPORT const char* aotattn_torch_register(const char* emulator, void** registration) {
  return error_of([emulator, registration] {
    if (emulator)
      open_emulator(emulator);
    auto library = std::make_unique<StableLibrary>(StableLibrary::Kind::IMPL, "aten",
                                                   emulator ? "CPU" : "CUDA", __FILE__, __LINE__);
    for (const Override& override : kOverrides)
      if (override.op->on_cpu == (emulator != nullptr))
        library->impl(override.op->name, override.kernel);
    *registration = library.release();
  });
}

// PyTorch's own kernels are reached again.
EXPORT void aotattn_torch_unregister(void* registration) {
  delete static_cast<StableLibrary*>(registration);
}

EXPORT void aotattn_torch_counters(uint64_t* num_served, uint64_t* num_declined) {
  *num_served = served();
  *num_declined = declined();
}

EXPORT void aotattn_torch_reasons(ReasonVisitor visit) { visit_reasons(visit); }

EXPORT void aotattn_torch_set_log(DeclineLog log, int32_t wanted) {
  set_decline_log(log, wanted != 0);
}
