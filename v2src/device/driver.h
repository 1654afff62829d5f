// What the runtime needs of a GPU driver. One implementation a vendor; both may be in use at once.
#ifndef AOTATTN_DEVICE_DRIVER_H
#define AOTATTN_DEVICE_DRIVER_H

#include "../status.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace aot {

class Driver;

struct Device {
  Driver* driver = nullptr;
  int32_t ordinal = 0;
  int32_t compute_units = 0;
  std::string arch;        // names the kernel store
  void* context = nullptr; // CUDA: the primary context
};

// A TMA descriptor to be made. Sizes and strides are in the order of the tensor's axes, outermost
// first.
struct TensorMap {
  uint64_t address;
  uint32_t rank;
  uint32_t element; // CUtensorMapDataType
  uint32_t swizzle; // CUtensorMapSwizzle
  const uint64_t* size;
  const uint64_t* stride; // in elements
  const uint32_t* box;
};
inline constexpr size_t kTensorMapBytes = 128;

struct FunctionFacts {
  const char* symbol;
  uint32_t shared_bytes; // dynamic
  uint32_t cluster;
  const std::vector<uint32_t>* parameter_bytes; // of each parameter, in order
};

struct Launch {
  void* function;
  uint32_t grid[3];
  uint32_t threads;
  uint32_t shared_bytes;
  uint32_t cluster;
  void* stream;
  void** parameters; // each parameter's place in the block
  void* block;
  size_t block_bytes;
};

// All but `find_device` want the device to be current: see DeviceScope.
class Driver {
public:
  virtual ~Driver() = default;

  virtual Status find_device(int32_t ordinal, Device* device) = 0;

  // Makes the device current on this thread; `leave` gets what `enter` left in `before`.
  virtual Status enter(const Device& device, uint64_t* before) = 0;
  virtual void leave(const Device& device, uint64_t before) = 0;
  // Lets this thread load while a stream is being captured; gives the mode to restore by a second
  // call.
  virtual void exchange_capture_mode(int* mode) = 0;

  virtual Status load(const void* image, void** module) = 0;
  virtual Status find_function(void* module, const FunctionFacts& facts, void** function) = 0;
  virtual Status encode(const TensorMap& map, void* descriptor) = 0;
  virtual Status clear(void* address, size_t bytes, void* stream) = 0;
  virtual Status launch(const Launch& launch) = 0;
};

inline constexpr int kRelaxedCapture = 2; // the same value in CUDA and HIP

Status open_cuda(std::unique_ptr<Driver>* driver);
Status open_hip(std::unique_ptr<Driver>* driver);

// The device is current while this lives; what was current before is so again afterwards.
class DeviceScope {
public:
  explicit DeviceScope(const Device& device) : device_(device) {}
  ~DeviceScope() {
    if (entered_)
      device_.driver->leave(device_, before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  Status enter() {
    AOT_TRY(device_.driver->enter(device_, &before_));
    entered_ = true;
    return {};
  }

private:
  const Device& device_;
  uint64_t before_ = 0;
  bool entered_ = false;
};

// Loading is legal while this lives, also where this thread captures a stream.
class LoadingScope {
public:
  explicit LoadingScope(Driver* driver) : driver_(driver) {
    driver_->exchange_capture_mode(&mode_);
  }
  ~LoadingScope() { driver_->exchange_capture_mode(&mode_); }
  LoadingScope(const LoadingScope&) = delete;
  LoadingScope& operator=(const LoadingScope&) = delete;

private:
  Driver* driver_;
  int mode_ = kRelaxedCapture;
};

} // namespace aot

#endif
