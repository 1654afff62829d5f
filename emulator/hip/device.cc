// Initialisation, the one device, its properties and attributes, contexts.
#include <algorithm>
#include <cstring>
#include <dlfcn.h>

#include "hip/api.h"

using namespace emu;
using namespace emu::hip;

namespace {

using Facts = DeviceFacts;

// hipDeviceProp_t as HIP 6 and later lay it out (symbol suffix R0600): size and offsets in bytes.
constexpr size_t kPropertyBytes = 1472;
struct IntProperty {
  size_t offset;
  int value;
};
constexpr IntProperty kIntProperties[] = {
    {304, Facts::kRegistersPerBlock}, // regsPerBlock
    {308, Facts::kWaveSize},          // warpSize
    {320, Facts::kMaxThreads},        // maxThreadsPerBlock
    {324, Facts::kMaxThreads},        // maxThreadsDim[3]
    {328, Facts::kMaxThreads},
    {332, Facts::kMaxThreads},
    {336, 2147483647}, // maxGridSize[3]
    {340, 65536},
    {344, 65536},
    {348, Facts::kClockKilohertz}, // clockRate
    {360, Facts::kMajor},
    {364, Facts::kMinor},
    {388, kComputeUnits},                // multiProcessorCount
    {400, 1},                            // canMapHostMemory
    {576, 1},                            // concurrentKernels
    {608, Facts::kMemoryClockKilohertz}, // memoryClockRate
    {612, Facts::kMemoryBusBits},        // memoryBusWidth
    {616, Facts::kL2Bytes},              // l2CacheSize
    {624, Facts::kThreadsPerUnit},       // maxThreadsPerMultiProcessor
    {648, Facts::kRegistersPerBlock},    // regsPerMultiprocessor
    {652, 1},                            // managedMemory
    {712, kMaxGroups},                   // maxBlocksPerMultiProcessor
};
struct LongProperty {
  size_t offset;
  u64 value;
};
constexpr LongProperty kLongProperties[] = {
    {288, kDeviceMemoryBytes}, // totalGlobalMem
    {296, kMaxLdsBytes},       // sharedMemPerBlock
    {312, 2147483647},         // memPitch
    {352, 2147483647},         // totalConstMem
    {640, kMaxLdsBytes},       // sharedMemPerMultiprocessor
    {696, kMaxLdsBytes},       // sharedMemPerBlockOptin
    {1416, kMaxLdsBytes},      // maxSharedMemoryPerMultiProcessor
};

struct Attribute {
  int id, value;
};
constexpr Attribute kAttributes[] = {
    {5, Facts::kClockKilohertz},
    {10, 0}, // cooperative launch
    {19, Facts::kL2Bytes},
    {23, Facts::kMajor},
    {26, Facts::kMaxThreads},
    {27, Facts::kMaxThreads},
    {28, Facts::kMaxThreads},
    {29, 2147483647},
    {30, 65536},
    {31, 65536},
    {56, Facts::kMaxThreads},
    {57, Facts::kThreadsPerUnit},
    {59, Facts::kMemoryBusBits},
    {60, Facts::kMemoryClockKilohertz},
    {61, Facts::kMinor},
    {63, kComputeUnits},
    {71, Facts::kRegistersPerBlock},
    {74, static_cast<int>(kMaxLdsBytes)},
    {75, static_cast<int>(kMaxLdsBytes)},
    {87, Facts::kWaveSize},
    {10002, static_cast<int>(kMaxLdsBytes)},
};

int one_device(int device) { return device == 0 ? hipSuccess : hipErrorInvalidDevice; }

int context_token;

} // namespace

HIP_API int hipInit(unsigned flags) {
  return entry([&] { return flags == 0 ? hipSuccess : hipErrorInvalidValue; });
}

HIP_API int hipGetDeviceCount(int* count) {
  return entry([&] {
    if (!count)
      return hipErrorInvalidValue;
    *count = 1;
    return hipSuccess;
  });
}

HIP_API int hipSetDevice(int device) {
  return entry([&] { return one_device(device); });
}

HIP_API int hipGetDevice(int* device) {
  return entry([&] {
    if (!device)
      return hipErrorInvalidValue;
    *device = 0;
    return hipSuccess;
  });
}

HIP_API int hipDeviceGet(int* device, int ordinal) {
  return entry([&] {
    if (!device)
      return static_cast<int>(hipErrorInvalidValue);
    *device = 0;
    return one_device(ordinal);
  });
}

HIP_API int hipGetDevicePropertiesR0600(void* properties, int device) {
  return entry([&] {
    if (!properties)
      return static_cast<int>(hipErrorInvalidValue);
    if (device != 0)
      return static_cast<int>(hipErrorInvalidDevice);
    char* at = static_cast<char*>(properties);
    std::memset(at, 0, kPropertyBytes);
    std::memcpy(at, Facts::kName, sizeof Facts::kName);
    std::memcpy(at + 1160, Facts::kArch, sizeof Facts::kArch);
    for (const IntProperty& p : kIntProperties)
      std::memcpy(at + p.offset, &p.value, sizeof p.value);
    for (const LongProperty& p : kLongProperties)
      std::memcpy(at + p.offset, &p.value, sizeof p.value);
    return static_cast<int>(hipSuccess);
  });
}

HIP_API int hipGetDeviceProperties(void* properties, int device) {
  return hipGetDevicePropertiesR0600(properties, device);
}

HIP_API int hipDeviceGetAttribute(int* value, int attribute, int device) {
  return entry([&] {
    if (!value)
      return static_cast<int>(hipErrorInvalidValue);
    *value = 0; // an attribute that is not listed is absent here
    for (const Attribute& a : kAttributes)
      if (a.id == attribute)
        *value = a.value;
    return one_device(device);
  });
}

HIP_API int hipDeviceGetName(char* name, int length, int device) {
  return entry([&] {
    if (!name || length <= 0)
      return static_cast<int>(hipErrorInvalidValue);
    std::strncpy(name, Facts::kName, static_cast<size_t>(length) - 1);
    name[length - 1] = 0;
    return one_device(device);
  });
}

HIP_API int hipDeviceTotalMem(size_t* bytes, int device) {
  return entry([&] {
    if (!bytes)
      return static_cast<int>(hipErrorInvalidValue);
    *bytes = kDeviceMemoryBytes;
    return one_device(device);
  });
}

HIP_API int hipDeviceComputeCapability(int* major, int* minor, int device) {
  return entry([&] {
    if (!major || !minor)
      return static_cast<int>(hipErrorInvalidValue);
    *major = Facts::kMajor;
    *minor = Facts::kMinor;
    return one_device(device);
  });
}

HIP_API int hipDeviceGetPCIBusId(char* id, int length, int device) {
  return entry([&] {
    if (!id || length < 13)
      return static_cast<int>(hipErrorInvalidValue);
    std::strcpy(id, "0000:00:00.0");
    return one_device(device);
  });
}

HIP_API int hipDeviceGetUuid(void* uuid, int device) {
  return entry([&] {
    if (!uuid)
      return static_cast<int>(hipErrorInvalidValue);
    std::memcpy(uuid, "emulated-gfx950", 16);
    return one_device(device);
  });
}

static int version(int* out) {
  return entry([&] {
    if (!out)
      return hipErrorInvalidValue;
    *out = Facts::kVersion;
    return hipSuccess;
  });
}

HIP_API int hipRuntimeGetVersion(int* out) { return version(out); }
HIP_API int hipDriverGetVersion(int* out) { return version(out); }

HIP_API int hipDeviceSynchronize() { return hipSuccess; } // launches have ended when they return
HIP_API int hipDeviceReset() { return hipSuccess; }
HIP_API int hipSetDeviceFlags(unsigned) { return hipSuccess; }
HIP_API int hipGetDeviceFlags(unsigned* flags) {
  return entry([&] {
    if (!flags)
      return hipErrorInvalidValue;
    *flags = 0;
    return hipSuccess;
  });
}
HIP_API int hipDeviceSetCacheConfig(int) { return hipSuccess; }

HIP_API int hipDeviceCanAccessPeer(int* can, int, int) {
  return entry([&] {
    if (!can)
      return hipErrorInvalidValue;
    *can = 0;
    return hipSuccess;
  });
}

HIP_API int hipDevicePrimaryCtxRetain(void** context, int device) {
  return entry([&] {
    if (!context)
      return static_cast<int>(hipErrorInvalidValue);
    *context = &context_token;
    return one_device(device);
  });
}
HIP_API int hipDevicePrimaryCtxRelease(int device) {
  return entry([&] { return one_device(device); });
}
HIP_API int hipDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  return entry([&] {
    if (flags)
      *flags = 0;
    if (active)
      *active = 1;
    return one_device(device);
  });
}
HIP_API int hipCtxCreate(void** context, unsigned, int device) {
  return hipDevicePrimaryCtxRetain(context, device);
}
HIP_API int hipCtxGetCurrent(void** context) { return hipDevicePrimaryCtxRetain(context, 0); }
HIP_API int hipCtxPopCurrent(void** context) {
  if (context)
    *context = &context_token;
  return hipSuccess;
}
HIP_API int hipCtxSetCurrent(void*) { return hipSuccess; }
HIP_API int hipCtxPushCurrent(void*) { return hipSuccess; }
HIP_API int hipCtxDestroy(void*) { return hipSuccess; }
HIP_API int hipCtxSynchronize() { return hipSuccess; }
HIP_API int hipCtxGetDevice(int* device) { return hipGetDevice(device); }

// Looks a name up in this library alone.
HIP_API int hipGetProcAddress(const char* symbol, void** pointer, int, uint64_t, int* status) {
  return entry([&] {
    if (!symbol || !pointer)
      return hipErrorInvalidValue;
    Dl_info info;
    *pointer = nullptr;
    if (dladdr(reinterpret_cast<void*>(&hipInit), &info)) {
      if (void* self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD)) {
        *pointer = dlsym(self, symbol);
        dlclose(self);
      }
    }
    if (status)
      *status = *pointer ? 0 : 1;
    return *pointer ? hipSuccess : hipErrorNotFound;
  });
}
