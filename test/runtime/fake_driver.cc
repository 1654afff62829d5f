// A CUDA driver and a HIP runtime for tests: devices from the environment, memory is host memory,
// launches are recorded.
//
// FAKE_CUDA_DEVICES and FAKE_HIP_DEVICES list "arch/compute units", e.g. "sm_90/132,sm_90/114".
// An image is text, a function a line: its symbol and the bytes of each parameter, "attn 8 8 4
// 128".
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kInvalidValue = 1, kNotInitialised = 3, kInvalidImage = 200, kInvalidContext = 201;
constexpr int kInvalidHandle = 400, kNotFound = 500, kCapturing = 900;
constexpr int kRelaxed = 2;

struct Device {
  int platform, ordinal;
  std::string arch;
  int compute_units;
};

struct Function;
struct Module {
  const Device* device;
  pid_t pid;
  std::deque<Function> functions;
};
struct Function {
  Module* module;
  std::string symbol;
  std::vector<uint32_t> parameters;
  int max_shared = 49152;
};

struct Record {
  char what[16]; // "load", "launch", "clear"
  char symbol[64];
  int32_t platform, device;
  uint32_t grid[3], block[3], shared_bytes, cluster;
  uint64_t stream, address, bytes;
  uint8_t arguments[4096];
};

std::mutex g_mutex;
std::deque<Record> g_records;
std::atomic<int> g_num_thrown{0};
std::map<std::string, std::pair<int, int>> g_failures; // name -> code, how many times
std::atomic<bool> g_any_failure{false}, g_capturing{false}, g_recording{true};
std::atomic<bool> g_hold{false}, g_held{false};
std::atomic<int> g_version{13000};
pid_t g_initialised = 0;

thread_local std::vector<const Device*> t_contexts;
thread_local int t_hip_device = 0, t_hip_error = 0, t_capture_mode = 0;

std::vector<Device> devices_from(const char* variable, int platform) {
  std::vector<Device> devices;
  const char* value = std::getenv(variable);
  std::stringstream list(value ? value : "");
  for (std::string item; std::getline(list, item, ',');) {
    const size_t slash = item.find('/');
    devices.push_back({platform, int(devices.size()), item.substr(0, slash),
                       std::atoi(item.c_str() + slash + 1)});
  }
  return devices;
}

const std::vector<Device>& cuda_devices() {
  static const std::vector<Device> devices = devices_from("FAKE_CUDA_DEVICES", 0);
  return devices;
}
const std::vector<Device>& hip_devices() {
  static const std::vector<Device> devices = devices_from("FAKE_HIP_DEVICES", 1);
  return devices;
}

// The code that a call of this name was told to fail with, or 0.
int failure(const char* name) {
  if (!g_any_failure)
    return 0;
  const std::lock_guard lock(g_mutex);
  const auto found = g_failures.find(name);
  if (found == g_failures.end() || found->second.second == 0)
    return 0;
  found->second.second -= 1;
  return found->second.first;
}

void keep(Record record) {
  const std::lock_guard lock(g_mutex);
  g_records.push_back(record);
}

Record start(const char* what, const Device& device) {
  Record record = {};
  std::strncpy(record.what, what, sizeof record.what - 1);
  record.platform = device.platform;
  record.device = device.ordinal;
  return record;
}

int load(const Device* device, const char* image, void** module) {
  if (!device)
    return kInvalidContext;
  while (g_hold)
    g_held = true;
  if (g_capturing && t_capture_mode != kRelaxed)
    return kCapturing;
  if (!std::isalpha(static_cast<unsigned char>(image[0])))
    return kInvalidImage;
  auto* fresh = new Module{device, getpid(), {}};
  std::stringstream lines(image);
  for (std::string line; std::getline(lines, line);) {
    std::stringstream words(line);
    Function function = {fresh, "", {}};
    words >> function.symbol;
    for (uint32_t bytes; words >> bytes;)
      function.parameters.push_back(bytes);
    fresh->functions.push_back(function);
  }
  keep(start("load", *device));
  *module = fresh;
  return 0;
}

int find(void* module, const char* symbol, void** function) {
  for (Function& f : static_cast<Module*>(module)->functions)
    if (f.symbol == symbol) {
      *function = &f;
      return 0;
    }
  return kNotFound;
}

int clear(const Device* device, uint64_t address, size_t bytes, uint64_t stream) {
  if (!device)
    return kInvalidContext;
  std::memset(reinterpret_cast<void*>(address), 0, bytes);
  Record record = start("clear", *device);
  record.address = address;
  record.bytes = bytes;
  record.stream = stream;
  keep(record);
  return 0;
}

struct CUlaunchAttribute {
  uint32_t id, pad, cluster[3];
  char rest[52];
};
struct CUlaunchConfig {
  uint32_t grid[3], block[3], shared_bytes;
  void* stream;
  CUlaunchAttribute* attributes;
  uint32_t num_attributes;
};

int check_launch(const Device* device, const Function* function) {
  if (!device)
    return kInvalidContext;
  if (function->module->device != device)
    return kInvalidHandle;
  return function->module->pid == getpid() ? 0 : kNotInitialised;
}

Record start_launch(const Function& function) {
  Record record = start("launch", *function.module->device);
  std::strncpy(record.symbol, function.symbol.c_str(), sizeof record.symbol - 1);
  return record;
}

const Device* cuda_current() { return t_contexts.empty() ? nullptr : t_contexts.back(); }
const Device* hip_current() {
  return t_hip_device < int(hip_devices().size()) ? &hip_devices()[size_t(t_hip_device)] : nullptr;
}
int hip(int code) {
  if (code != 0)
    t_hip_error = code;
  return code;
}

} // namespace

#define FAIL_IF_TOLD(name)                                                                         \
  if (const int code = failure(name))                                                              \
  return code

// ---- the CUDA driver
// ------------------------------------------------------------------------------------------------

EXPORT int cuInit(unsigned) {
  FAIL_IF_TOLD("cuInit");
  g_initialised = getpid();
  return cuda_devices().empty() ? 100 : 0; // CUDA_ERROR_NO_DEVICE
}
EXPORT int cuDriverGetVersion(int* version) {
  *version = g_version;
  return 0;
}
EXPORT int cuDeviceGetCount(int* count) {
  FAIL_IF_TOLD("cuDeviceGetCount");
  if (g_initialised != getpid())
    return kNotInitialised;
  *count = int(cuda_devices().size());
  return 0;
}
EXPORT int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const Device& d = cuda_devices()[size_t(device)];
  const int capability = std::atoi(d.arch.c_str() + 3);
  *value = attribute == 16   ? d.compute_units
           : attribute == 75 ? capability / 10
           : attribute == 76 ? capability % 10
                             : -1;
  return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(const void** context, int device) {
  FAIL_IF_TOLD("cuDevicePrimaryCtxRetain");
  *context = &cuda_devices()[size_t(device)];
  return 0;
}
EXPORT int cuCtxGetCurrent(const void** context) {
  *context = cuda_current();
  return 0;
}
EXPORT int cuCtxPushCurrent_v2(const void* context) {
  FAIL_IF_TOLD("cuCtxPushCurrent");
  t_contexts.push_back(static_cast<const Device*>(context));
  return 0;
}
EXPORT int cuCtxPopCurrent_v2(const void** context) {
  *context = t_contexts.back();
  t_contexts.pop_back();
  return 0;
}
EXPORT int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, t_capture_mode);
  return 0;
}
EXPORT int cuModuleLoadData(void** module, const void* image) {
  FAIL_IF_TOLD("cuModuleLoadData");
  return load(cuda_current(), static_cast<const char*>(image), module);
}
EXPORT int cuModuleGetFunction(void** function, void* module, const char* symbol) {
  FAIL_IF_TOLD("cuModuleGetFunction");
  return find(module, symbol, function);
}
EXPORT int cuFuncLoad(void*) { return 0; }
EXPORT int cuFuncSetAttribute(void* function, int attribute, int value) {
  FAIL_IF_TOLD("cuFuncSetAttribute");
  if (attribute != 8 || value > 232448)
    return kInvalidValue;
  static_cast<Function*>(function)->max_shared = value;
  return 0;
}
EXPORT int cuFuncGetParamInfo(void* function, size_t index, size_t* offset, size_t* bytes) {
  const auto& parameters = static_cast<Function*>(function)->parameters;
  if (index >= parameters.size())
    return kInvalidValue;
  *offset = 0; // nobody reads it
  *bytes = parameters[index];
  return 0;
}
// Words of a descriptor: address, rank with bit 21 set, 4 sizes, 3 strides, 4 boxes, element,
// swizzle.
EXPORT int cuTensorMapEncodeTiled(void* map, int element, uint32_t rank, void* address,
                                  const uint64_t* size, const uint64_t* stride, const uint32_t* box,
                                  const uint32_t*, int, int swizzle, int, int) {
  FAIL_IF_TOLD("cuTensorMapEncodeTiled");
  uint64_t words[16] = {reinterpret_cast<uint64_t>(address), rank | uint64_t{1} << 21};
  if (words[0] % 16)
    return kInvalidValue;
  for (uint32_t i = 0; i < rank; ++i) {
    if (size[i] == 0 || (i + 1 < rank && stride[i] % 16))
      return kInvalidValue;
    words[2 + i] = size[i];
    words[9 + i] = box[i];
    if (i + 1 < rank)
      words[6 + i] = stride[i];
  }
  words[13] = uint64_t(element);
  words[14] = uint64_t(swizzle);
  std::memcpy(map, words, sizeof words);
  return 0;
}
EXPORT int cuMemsetD8Async(uint64_t address, unsigned char, size_t bytes, void* stream) {
  FAIL_IF_TOLD("cuMemsetD8Async");
  return clear(cuda_current(), address, bytes, reinterpret_cast<uint64_t>(stream));
}
EXPORT int cuLaunchKernelEx(const CUlaunchConfig* config, void* handle, void** parameters, void**) {
  FAIL_IF_TOLD("cuLaunchKernelEx");
  if (!g_recording)
    return 0;
  const auto& function = *static_cast<Function*>(handle);
  if (const int code = check_launch(cuda_current(), &function))
    return code;
  if (int(config->shared_bytes) > function.max_shared)
    return kInvalidValue;
  Record record = start_launch(function);
  std::copy_n(config->grid, 3, record.grid);
  std::copy_n(config->block, 3, record.block);
  record.shared_bytes = config->shared_bytes;
  record.stream = reinterpret_cast<uint64_t>(config->stream);
  record.cluster = config->num_attributes && config->attributes[0].id == 4
                       ? config->attributes[0].cluster[0]
                       : 1;
  for (size_t i = 0; i < function.parameters.size(); ++i) { // as a compiler would lay them out
    const uint32_t bytes = function.parameters[i], align = bytes == 128 ? 64 : bytes;
    record.bytes = (record.bytes + align - 1) / align * align;
    if (bytes == 128 && reinterpret_cast<uintptr_t>(parameters[i]) % 64)
      return kInvalidValue;
    std::memcpy(record.arguments + record.bytes, parameters[i], bytes);
    record.bytes += bytes;
  }
  keep(record);
  return 0;
}
EXPORT int cuGetErrorName(int code, const char** name) {
  *name = code == kInvalidImage ? "CUDA_ERROR_INVALID_IMAGE" : "CUDA_ERROR_OF_THE_FAKE";
  return 0;
}

// ---- the HIP runtime
// ------------------------------------------------------------------------------------------------

EXPORT int hipInit(unsigned) { return hip(failure("hipInit")); }
EXPORT int hipGetDeviceCount(int* count) {
  *count = int(hip_devices().size());
  return hip(failure("hipGetDeviceCount"));
}
EXPORT int hipGetDevicePropertiesR0600(char* properties, int ordinal) {
  const Device& device = hip_devices()[size_t(ordinal)];
  std::memset(properties, 0, 1472);
  std::memcpy(properties + 388, &device.compute_units, sizeof(int));
  std::strncpy(properties + 1160, device.arch.c_str(), 255);
  return 0;
}
EXPORT int hipGetDevice(int* device) {
  *device = t_hip_device;
  return 0;
}
EXPORT int hipSetDevice(int device) {
  if (const int code = failure("hipSetDevice"))
    return hip(code);
  t_hip_device = device;
  return 0;
}
EXPORT int hipThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, t_capture_mode);
  return 0;
}
EXPORT int hipModuleLoadData(void** module, const void* image) {
  if (const int code = failure("hipModuleLoadData"))
    return hip(code);
  return hip(load(hip_current(), static_cast<const char*>(image), module));
}
EXPORT int hipModuleGetFunction(void** function, void* module, const char* symbol) {
  return hip(find(module, symbol, function));
}
EXPORT int hipMemsetAsync(void* address, int, size_t bytes, void* stream) {
  return hip(clear(hip_current(), reinterpret_cast<uint64_t>(address), bytes,
                   reinterpret_cast<uint64_t>(stream)));
}
EXPORT int hipModuleLaunchKernel(void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared_bytes, void* stream,
                                 void** parameters, void** extra) {
  if (const int code = failure("hipModuleLaunchKernel"))
    return hip(code);
  const auto& function = *static_cast<Function*>(handle);
  if (const int code = check_launch(hip_current(), &function))
    return hip(code);
  const auto tag = [&](int i) { return reinterpret_cast<uintptr_t>(extra[i]); };
  if (parameters || tag(0) != 1 || tag(2) != 2 || tag(4) != 3)
    return hip(kInvalidValue);
  Record record = start_launch(function);
  const uint32_t grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  std::copy_n(grid, 3, record.grid);
  std::copy_n(block, 3, record.block);
  record.shared_bytes = shared_bytes;
  record.cluster = 1;
  record.stream = reinterpret_cast<uint64_t>(stream);
  record.bytes = *static_cast<size_t*>(extra[3]);
  std::memcpy(record.arguments, extra[1], record.bytes);
  keep(record);
  return 0;
}
EXPORT int hipGetLastError() { return std::exchange(t_hip_error, 0); }
EXPORT const char* hipGetErrorName(int) { return "hipErrorOfTheFake"; }

// ---- for the tests
// ------------------------------------------------------------------------------------------------

EXPORT size_t fake_num_records() {
  const std::lock_guard lock(g_mutex);
  return g_records.size();
}
EXPORT void fake_record(size_t index, Record* record) {
  const std::lock_guard lock(g_mutex);
  *record = g_records[index];
}
// The next `times` calls of that name fail with `code`.
// A log callback that throws.
EXPORT void fake_throwing_log(void*, int, const char* message) {
  ++g_num_thrown;
  throw std::runtime_error(message);
}
EXPORT int fake_num_thrown() { return g_num_thrown; }

EXPORT void fake_fail(const char* name, int code, int times) {
  const std::lock_guard lock(g_mutex);
  g_failures[name] = {code, times};
  g_any_failure = true;
}
EXPORT void fake_capture(int capturing) { g_capturing = capturing != 0; }
// Loading waits while this holds; the child of a fork has a state of its own.
EXPORT void fake_hold(int hold) { g_hold = hold != 0; }
EXPORT int fake_held() { return g_held; }
// Without it a CUDA launch does nothing at all, for timing.
EXPORT void fake_record_launches(int recording) { g_recording = recording != 0; }
EXPORT void fake_set_version(int version) { g_version = version; }
EXPORT int fake_pending_hip_error() { return t_hip_error; }
EXPORT int fake_capture_mode() { return t_capture_mode; }
EXPORT int fake_cuda_depth() { return int(t_contexts.size()); }

// Nanoseconds that a call takes: median over `repeats` of the mean over 1000 calls. Negative if a
// call fails.
EXPORT double fake_time(int (*call)(const void*, const void*), const void* a, const void* b,
                        int repeats) {
  std::vector<double> times;
  for (int r = 0; r < repeats; ++r) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 1000; ++i)
      if (call(a, b) != 0)
        return -1;
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    times.push_back(taken.count() / 1000);
  }
  std::ranges::nth_element(times, times.begin() + repeats / 2);
  return times[size_t(repeats) / 2];
}
