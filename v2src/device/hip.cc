// The HIP runtime (ROCm 6 and later). Prototypes and values as in hip_runtime_api.h, which a build
// does not need.
#include "../knobs.h"
#include "driver.h"
#include "library.h"

#include <cstddef>
#include <cstring>

namespace aot {
namespace {

using hipError_t = int;
using hipModule_t = void*;
using hipFunction_t = void*;
using hipStream_t = void*;

constexpr hipError_t kSuccess = 0;

// HIP_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE, _END
void* const kBufferPointer = reinterpret_cast<void*>(1);
void* const kBufferSize = reinterpret_cast<void*>(2);
void* const kEnd = reinterpret_cast<void*>(3);

struct hipDeviceProp_tR0600 { // what is read of it
  char before_count[388];
  int multiProcessorCount;
  char before_name[768];
  char gcnArchName[256];
  char after_name[56];
};
static_assert(offsetof(hipDeviceProp_tR0600, multiProcessorCount) == 388);
static_assert(offsetof(hipDeviceProp_tR0600, gcnArchName) == 1160);
static_assert(sizeof(hipDeviceProp_tR0600) == 1472);

struct Functions {
  hipError_t (*hipInit)(unsigned);
  hipError_t (*hipGetDeviceCount)(int*);
  hipError_t (*hipGetDevicePropertiesR0600)(hipDeviceProp_tR0600*, int);
  hipError_t (*hipGetDevice)(int*);
  hipError_t (*hipSetDevice)(int);
  hipError_t (*hipThreadExchangeStreamCaptureMode)(int*);
  hipError_t (*hipModuleLoadData)(hipModule_t*, const void*);
  hipError_t (*hipModuleGetFunction)(hipFunction_t*, hipModule_t, const char*);
  hipError_t (*hipMemsetAsync)(void*, int, size_t, hipStream_t);
  hipError_t (*hipModuleLaunchKernel)(hipFunction_t, unsigned, unsigned, unsigned, unsigned,
                                      unsigned, unsigned, unsigned, hipStream_t, void**, void**);
  hipError_t (*hipGetLastError)();
  const char* (*hipGetErrorName)(hipError_t);
};

Status find_functions(const Library& library, Functions* f) {
  AOT_TRY(library.require("hipInit", &f->hipInit));
  AOT_TRY(library.require("hipGetDeviceCount", &f->hipGetDeviceCount));
  AOT_TRY(library.require("hipGetDevicePropertiesR0600", &f->hipGetDevicePropertiesR0600));
  AOT_TRY(library.require("hipGetDevice", &f->hipGetDevice));
  AOT_TRY(library.require("hipSetDevice", &f->hipSetDevice));
  AOT_TRY(library.require("hipThreadExchangeStreamCaptureMode",
                          &f->hipThreadExchangeStreamCaptureMode));
  AOT_TRY(library.require("hipModuleLoadData", &f->hipModuleLoadData));
  AOT_TRY(library.require("hipModuleGetFunction", &f->hipModuleGetFunction));
  AOT_TRY(library.require("hipMemsetAsync", &f->hipMemsetAsync));
  AOT_TRY(library.require("hipModuleLaunchKernel", &f->hipModuleLaunchKernel));
  AOT_TRY(library.require("hipGetLastError", &f->hipGetLastError));
  AOT_TRY(library.require("hipGetErrorName", &f->hipGetErrorName));
  return {};
}

class HipDriver : public Driver {
public:
  Status open() {
    AOT_TRY(library_.open(knobs::hip_library(),
                          {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"}));
    AOT_TRY(find_functions(library_, &f_));
    if (const hipError_t result = f_.hipInit(0); result != kSuccess) {
      f_.hipGetLastError();
      return fail(AOT_NO_DEVICE, "HIP: hipInit failed with %s", name(result).c_str());
    }
    return {};
  }

  Status find_device(int32_t ordinal, Device* device) override {
    int count = 0;
    AOT_TRY(check("hipGetDeviceCount", f_.hipGetDeviceCount(&count)));
    if (ordinal >= count)
      return fail(AOT_NO_DEVICE, "device = %d; the HIP runtime has %d", ordinal, count);
    auto properties = std::make_unique<hipDeviceProp_tR0600>();
    AOT_TRY(
        check("hipGetDeviceProperties", f_.hipGetDevicePropertiesR0600(properties.get(), ordinal)));
    const char* arch = properties->gcnArchName; // "gfx950:sramecc+:xnack-"
    const size_t length = strnlen(arch, sizeof properties->gcnArchName);
    device->driver = this;
    device->ordinal = ordinal;
    device->compute_units = properties->multiProcessorCount;
    device->arch = std::string(arch, length);
    device->arch.resize(std::min(length, device->arch.find(':')));
    return {};
  }

  Status enter(const Device& device, uint64_t* before) override {
    int current = 0;
    AOT_TRY(check("hipGetDevice", f_.hipGetDevice(&current)));
    *before = static_cast<uint64_t>(current);
    if (current != device.ordinal)
      AOT_TRY(check("hipSetDevice", f_.hipSetDevice(device.ordinal)));
    return {};
  }

  void leave(const Device& device, uint64_t before) override {
    if (static_cast<int>(before) != device.ordinal)
      f_.hipSetDevice(static_cast<int>(before));
  }

  void exchange_capture_mode(int* mode) override { f_.hipThreadExchangeStreamCaptureMode(mode); }

  Status load(const void* image, void** module) override {
    return check("hipModuleLoadData", f_.hipModuleLoadData(module, image));
  }

  Status find_function(void* module, const FunctionFacts& facts, void** function) override {
    if (facts.cluster > 1)
      return fail(AOT_BAD_STORE, "%s wants clusters of %u workgroups, which HIP does not have",
                  facts.symbol, facts.cluster);
    return check("hipModuleGetFunction", f_.hipModuleGetFunction(function, module, facts.symbol));
  }

  Status encode(const TensorMap&, void*) override {
    return fail(AOT_UNSUPPORTED, "HIP has no TMA descriptors");
  }

  Status clear(void* address, size_t bytes, void* stream) override {
    return check("hipMemsetAsync", f_.hipMemsetAsync(address, 0, bytes, stream));
  }

  Status launch(const Launch& launch) override {
    size_t bytes = launch.block_bytes;
    void* extra[] = {kBufferPointer, launch.block, kBufferSize, &bytes, kEnd};
    return check("hipModuleLaunchKernel",
                 f_.hipModuleLaunchKernel(launch.function, launch.grid[0], launch.grid[1],
                                          launch.grid[2], launch.threads, 1, 1, launch.shared_bytes,
                                          launch.stream, nullptr, extra));
  }

private:
  std::string name(hipError_t result) const {
    const char* text = f_.hipGetErrorName(result);
    return format("%s (%d)", text ? text : "an unknown error", result);
  }

  // Takes the error back from the runtime, so that no later call of the program trips over it.
  Status check(const char* what, hipError_t result) const {
    if (result == kSuccess) [[likely]]
      return {};
    f_.hipGetLastError();
    return fail(AOT_DEVICE_ERROR, "HIP: %s failed with %s", what, name(result).c_str());
  }

  Library library_;
  Functions f_ = {};
};

} // namespace

Status open_hip(std::unique_ptr<Driver>* driver) {
  auto hip = std::make_unique<HipDriver>();
  AOT_TRY(hip->open());
  *driver = std::move(hip);
  return {};
}

} // namespace aot
