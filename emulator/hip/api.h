// Shared by the HIP entry points. Types are spelled as plain C: no HIP header is needed, and the
// layouts are those of the HIP ABI that its public header describes.
#pragma once

#include <cstddef>
#include <memory>

#include "core/launch.h"

#define HIP_API extern "C" __attribute__((visibility("default")))

namespace emu::hip {

// Status codes and their names, one row a code; the numbers are HIP's.
// clang-format off
#define HIP_ERRORS(X)                                                                             \
  X(hipSuccess, 0, "no error")                                                                    \
  X(hipErrorInvalidValue, 1, "invalid argument")                                                  \
  X(hipErrorOutOfMemory, 2, "out of memory")                                                      \
  X(hipErrorInvalidConfiguration, 9, "invalid configuration argument")                            \
  X(hipErrorInvalidDevicePointer, 17, "invalid device pointer")                                   \
  X(hipErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                      \
  X(hipErrorNoDevice, 100, "no ROCm-capable device is detected")                                  \
  X(hipErrorInvalidDevice, 101, "invalid device ordinal")                                         \
  X(hipErrorInvalidImage, 200, "device kernel image is invalid")                                  \
  X(hipErrorInvalidContext, 201, "invalid device context")                                        \
  X(hipErrorNoBinaryForGpu, 209, "no kernel image is available for execution on the device")      \
  X(hipErrorInvalidKernelFile, 218, "invalid kernel file")                                        \
  X(hipErrorFileNotFound, 301, "file not found")                                                  \
  X(hipErrorInvalidHandle, 400, "invalid resource handle")                                        \
  X(hipErrorNotFound, 500, "named symbol not found")                                              \
  X(hipErrorNotReady, 600, "device not ready")                                                    \
  X(hipErrorIllegalAddress, 700, "an illegal memory access was encountered")                      \
  X(hipErrorHostMemoryAlreadyRegistered, 712, "part or all of the requested memory range is already mapped") \
  X(hipErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region") \
  X(hipErrorLaunchFailure, 719, "unspecified launch failure")                                     \
  X(hipErrorNotSupported, 801, "operation not supported")                                         \
  X(hipErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")    \
  X(hipErrorUnknown, 999, "unknown error")
// clang-format on

enum Error : int {
#define ENUM(name, code, text) name = code,
  HIP_ERRORS(ENUM)
#undef ENUM
};

// Remembers a failure for hipGetLastError and returns it.
int finish(int error);

// Runs the body of an entry point; nothing that it throws gets out.
template <class Body> int entry(Body body) {
  try {
    return finish(body());
  } catch (const std::bad_alloc&) {
    return finish(hipErrorOutOfMemory);
  } catch (...) {
    return finish(hipErrorUnknown);
  }
}

// What the emulated device reports: one row a property, used by properties and attributes.
struct DeviceFacts {
  static constexpr char kName[] = "Emulated gfx950";
  static constexpr char kArch[] = "gfx950:sramecc+:xnack-";
  static constexpr int kWaveSize = 64, kMaxThreads = 1024;
  static constexpr int kThreadsPerUnit = 2048, kRegistersPerBlock = 131072;
  static constexpr int kClockKilohertz = 2400000, kMemoryClockKilohertz = 2000000;
  static constexpr int kMemoryBusBits = 8192, kL2Bytes = 4 << 20;
  static constexpr int kMajor = 9, kMinor = 5;
  static constexpr int kVersion = 70000000;
};

struct Module {
  std::unique_ptr<CodeObject> object;
  std::vector<std::unique_ptr<struct Function>> functions;
};
struct Function {
  const Kernel* kernel = nullptr;
  Module* module = nullptr;
};

} // namespace emu::hip
