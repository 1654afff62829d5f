// The CUDA driver. Prototypes and values as in cuda.h, which a build does not need.
#include "../knobs.h"
#include "driver.h"
#include "library.h"

#include <cstring>

namespace aot {
namespace {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = uint64_t;
using CUcontext = void*;
using CUmodule = void*;
using CUfunction = void*;
using CUstream = void*;

constexpr CUresult kSuccess = 0;
constexpr CUresult kInvalidValue = 1;
constexpr int kComputeUnits = 16; // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
constexpr int kMajor = 75;        // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kMinor = 76;
constexpr int kMaxDynamicShared = 8;             // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr uint32_t kSharedWithoutAsking = 49152; // what a function may use before that is set
constexpr uint32_t kClusterDimension = 4;        // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
constexpr int kPromotion128 = 2;                 // CU_TENSOR_MAP_L2_PROMOTION_L2_128B

struct CUlaunchAttribute {
  uint32_t id;
  uint32_t pad;
  union {
    struct {
      uint32_t x, y, z;
    } cluster;
    char pad[64];
  } value;
};
static_assert(sizeof(CUlaunchAttribute) == 72);

struct CUlaunchConfig {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  CUstream stream;
  CUlaunchAttribute* attributes;
  uint32_t num_attributes;
};
static_assert(sizeof(CUlaunchConfig) == 56);

struct Functions {
  CUresult (*cuInit)(unsigned);
  CUresult (*cuDriverGetVersion)(int*);
  CUresult (*cuDeviceGetCount)(int*);
  CUresult (*cuDeviceGet)(CUdevice*, int);
  CUresult (*cuDeviceGetAttribute)(int*, int, CUdevice);
  CUresult (*cuDevicePrimaryCtxRetain)(CUcontext*, CUdevice);
  CUresult (*cuCtxGetCurrent)(CUcontext*);
  CUresult (*cuCtxPushCurrent)(CUcontext);
  CUresult (*cuCtxPopCurrent)(CUcontext*);
  CUresult (*cuThreadExchangeStreamCaptureMode)(int*);
  CUresult (*cuModuleLoadData)(CUmodule*, const void*);
  CUresult (*cuModuleGetFunction)(CUfunction*, CUmodule, const char*);
  CUresult (*cuFuncSetAttribute)(CUfunction, int, int);
  CUresult (*cuMemsetD8Async)(CUdeviceptr, unsigned char, size_t, CUstream);
  CUresult (*cuLaunchKernelEx)(const CUlaunchConfig*, CUfunction, void**, void**);
  CUresult (*cuGetErrorName)(CUresult, const char**);
  // what older drivers lack; null then
  CUresult (*cuFuncLoad)(CUfunction);
  CUresult (*cuFuncGetParamInfo)(CUfunction, size_t, size_t*, size_t*);
  CUresult (*cuTensorMapEncodeTiled)(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*,
                                     const uint32_t*, const uint32_t*, int, int, int, int);
};

Status find_functions(const Library& library, Functions* f) {
  AOT_TRY(library.require("cuInit", &f->cuInit));
  AOT_TRY(library.require("cuDriverGetVersion", &f->cuDriverGetVersion));
  AOT_TRY(library.require("cuDeviceGetCount", &f->cuDeviceGetCount));
  AOT_TRY(library.require("cuDeviceGet", &f->cuDeviceGet));
  AOT_TRY(library.require("cuDeviceGetAttribute", &f->cuDeviceGetAttribute));
  AOT_TRY(library.require("cuDevicePrimaryCtxRetain", &f->cuDevicePrimaryCtxRetain));
  AOT_TRY(library.require("cuCtxGetCurrent", &f->cuCtxGetCurrent));
  AOT_TRY(library.require("cuCtxPushCurrent_v2", &f->cuCtxPushCurrent));
  AOT_TRY(library.require("cuCtxPopCurrent_v2", &f->cuCtxPopCurrent));
  AOT_TRY(
      library.require("cuThreadExchangeStreamCaptureMode", &f->cuThreadExchangeStreamCaptureMode));
  AOT_TRY(library.require("cuModuleLoadData", &f->cuModuleLoadData));
  AOT_TRY(library.require("cuModuleGetFunction", &f->cuModuleGetFunction));
  AOT_TRY(library.require("cuFuncSetAttribute", &f->cuFuncSetAttribute));
  AOT_TRY(library.require("cuMemsetD8Async", &f->cuMemsetD8Async));
  AOT_TRY(library.require("cuLaunchKernelEx", &f->cuLaunchKernelEx));
  AOT_TRY(library.require("cuGetErrorName", &f->cuGetErrorName));
  library.request("cuFuncLoad", &f->cuFuncLoad);
  library.request("cuFuncGetParamInfo", &f->cuFuncGetParamInfo);
  library.request("cuTensorMapEncodeTiled", &f->cuTensorMapEncodeTiled);
  return {};
}

uint32_t element_bytes(uint32_t element) { // CUtensorMapDataType
  static constexpr uint8_t kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return element < sizeof kBytes ? kBytes[element] : 0;
}

class CudaDriver : public Driver {
public:
  Status open() {
    AOT_TRY(library_.open(knobs::cuda_library(), {"libcuda.so.1"}));
    AOT_TRY(find_functions(library_, &f_));
    if (const CUresult result = f_.cuInit(0); result != kSuccess)
      return fail(AOT_NO_DEVICE, "CUDA: cuInit failed with %s", name(result).c_str());
    return check("cuDriverGetVersion", f_.cuDriverGetVersion(&version_));
  }

  Status find_device(int32_t ordinal, Device* device) override {
    int count = 0;
    AOT_TRY(check("cuDeviceGetCount", f_.cuDeviceGetCount(&count)));
    if (ordinal >= count)
      return fail(AOT_NO_DEVICE, "device = %d; the CUDA driver has %d", ordinal, count);
    CUdevice handle = 0;
    int major = 0, minor = 0;
    AOT_TRY(check("cuDeviceGet", f_.cuDeviceGet(&handle, ordinal)));
    AOT_TRY(attribute(&major, kMajor, handle));
    AOT_TRY(attribute(&minor, kMinor, handle));
    AOT_TRY(attribute(&device->compute_units, kComputeUnits, handle));
    AOT_TRY(
        check("cuDevicePrimaryCtxRetain", f_.cuDevicePrimaryCtxRetain(&device->context, handle)));
    device->driver = this;
    device->ordinal = ordinal;
    device->arch = format("sm_%d%d", major, minor);
    return {};
  }

  Status enter(const Device& device, uint64_t* before) override {
    CUcontext current = nullptr;
    AOT_TRY(check("cuCtxGetCurrent", f_.cuCtxGetCurrent(&current)));
    *before = current != device.context; // whether to pop
    if (*before)
      AOT_TRY(check("cuCtxPushCurrent", f_.cuCtxPushCurrent(device.context)));
    return {};
  }

  void leave(const Device&, uint64_t before) override {
    CUcontext popped = nullptr;
    if (before)
      f_.cuCtxPopCurrent(&popped);
  }

  void exchange_capture_mode(int* mode) override { f_.cuThreadExchangeStreamCaptureMode(mode); }

  Status load(const void* image, void** module) override {
    return check("cuModuleLoadData", f_.cuModuleLoadData(module, image));
  }

  Status find_function(void* module, const FunctionFacts& facts, void** function) override {
    CUfunction found = nullptr;
    AOT_TRY(check("cuModuleGetFunction", f_.cuModuleGetFunction(&found, module, facts.symbol)));
    if (f_.cuFuncLoad) // else the first launch would load it, which a capture does not allow
      AOT_TRY(check("cuFuncLoad", f_.cuFuncLoad(found)));
    AOT_TRY(check_parameters(found, facts));
    if (facts.shared_bytes > kSharedWithoutAsking)
      AOT_TRY(check("cuFuncSetAttribute",
                    f_.cuFuncSetAttribute(found, kMaxDynamicShared, int(facts.shared_bytes))));
    *function = found;
    return {};
  }

  Status encode(const TensorMap& map, void* descriptor) override {
    if (!f_.cuTensorMapEncodeTiled)
      return fail(AOT_UNSUPPORTED, "this CUDA driver makes no TMA descriptors");
    constexpr uint32_t kMaxRank = 5;
    uint64_t size[kMaxRank], stride[kMaxRank];
    uint32_t box[kMaxRank], step[kMaxRank];
    const uint32_t bytes = element_bytes(map.element);
    uint64_t span = bytes;
    for (uint32_t i = 0; i < map.rank; ++i) { // the driver wants the innermost axis first
      const uint32_t axis = map.rank - 1 - i;
      size[i] = map.size[axis];
      stride[i] = map.stride[axis] * bytes;
      box[i] = map.box[axis];
      step[i] = 1;
      span += (size[i] - 1) * stride[i];
    }
    AOT_TRY(check("cuTensorMapEncodeTiled",
                  f_.cuTensorMapEncodeTiled(descriptor, int(map.element), map.rank,
                                            reinterpret_cast<void*>(map.address), size, stride + 1,
                                            box, step, 0, int(map.swizzle), kPromotion128, 0)));
    if (version_ <= 13010 && span < 131072) // Triton's launcher does the same: a driver's mistake
      static_cast<uint64_t*>(descriptor)[1] &= ~(uint64_t{1} << 21);
    return {};
  }

  Status clear(void* address, size_t bytes, void* stream) override {
    return check("cuMemsetD8Async",
                 f_.cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(address), 0, bytes, stream));
  }

  Status launch(const Launch& launch) override {
    CUlaunchAttribute cluster = {};
    cluster.id = kClusterDimension;
    cluster.value.cluster = {launch.cluster, 1, 1};
    const CUlaunchConfig config = {{launch.grid[0], launch.grid[1], launch.grid[2]},
                                   {launch.threads, 1, 1},
                                   launch.shared_bytes,
                                   launch.stream,
                                   &cluster,
                                   launch.cluster > 1 ? 1u : 0u};
    return check("cuLaunchKernelEx",
                 f_.cuLaunchKernelEx(&config, launch.function, launch.parameters, nullptr));
  }

private:
  std::string name(CUresult result) const {
    const char* text = nullptr;
    f_.cuGetErrorName(result, &text);
    return format("%s (%d)", text ? text : "an unknown error", result);
  }

  Status check(const char* what, CUresult result) const {
    if (result == kSuccess) [[likely]]
      return {};
    return fail(AOT_DEVICE_ERROR, "CUDA: %s failed with %s", what, name(result).c_str());
  }

  Status attribute(int* value, int which, CUdevice device) const {
    return check("cuDeviceGetAttribute", f_.cuDeviceGetAttribute(value, which, device));
  }

  // The image must take the parameters that its recipe packs.
  Status check_parameters(CUfunction function, const FunctionFacts& facts) const {
    if (!f_.cuFuncGetParamInfo)
      return {};
    const std::vector<uint32_t>& expected = *facts.parameter_bytes;
    for (size_t i = 0; i <= expected.size(); ++i) {
      size_t offset = 0, bytes = 0;
      const CUresult result = f_.cuFuncGetParamInfo(function, i, &offset, &bytes);
      if (i == expected.size() && result == kInvalidValue)
        return {};
      if (i < expected.size() && result == kInvalidValue)
        return fail(AOT_BAD_STORE, "%s takes %zu parameters, its recipe has %zu", facts.symbol, i,
                    expected.size());
      AOT_TRY(check("cuFuncGetParamInfo", result));
      if (i < expected.size() && bytes != expected[i])
        return fail(AOT_BAD_STORE, "%s takes %zu bytes as parameter %zu, its recipe has %u",
                    facts.symbol, bytes, i, expected[i]);
    }
    return fail(AOT_BAD_STORE, "%s takes more than the %zu parameters of its recipe", facts.symbol,
                expected.size());
  }

  Library library_;
  Functions f_ = {};
  int version_ = 0;
};

} // namespace

Status open_cuda(std::unique_ptr<Driver>* driver) {
  auto cuda = std::make_unique<CudaDriver>();
  AOT_TRY(cuda->open());
  *driver = std::move(cuda);
  return {};
}

} // namespace aot
