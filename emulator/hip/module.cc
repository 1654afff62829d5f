// Modules, functions and launches.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>

#include "hip/api.h"

using namespace emu;
using namespace emu::hip;

namespace {

// Handles that are alive, so that a stale one is an error and no crash.
std::mutex handles_mutex;
std::set<void*>& handles() {
  static auto* alive = new std::set<void*>; // outlives every module that a program forgets
  return *alive;
}

bool alive(void* handle) {
  std::lock_guard lock(handles_mutex);
  return handles().count(handle) != 0;
}

void report(const std::string& text) {
  set_last_report(text);
  if (knobs().print_reports)
    std::fprintf(stderr, "gfx950 emulator: %s\n", text.c_str());
}

int load(void** module, const u8* data, size_t size) {
  std::string error;
  auto object = CodeObject::load(data, size, &error);
  if (!object) {
    report(error);
    return error.find("for gfx950") != std::string::npos ? hipErrorNoBinaryForGpu
                                                         : hipErrorInvalidImage;
  }
  auto* made = new Module;
  made->object = std::move(object);
  std::lock_guard lock(handles_mutex);
  handles().insert(made);
  *module = made;
  return hipSuccess;
}

int load_pointer(void** module, const void* image) {
  if (!module || !image)
    return hipErrorInvalidValue;
  *module = nullptr;
  std::vector<u8> bytes = copy_image(image);
  if (bytes.empty()) {
    report("no complete code object or bundle at this address");
    return hipErrorInvalidImage;
  }
  return load(module, bytes.data(), bytes.size());
}

// The argument block from an array of pointers; sizes and offsets come from the metadata.
bool gather(const Kernel& kernel, void** parameters, std::vector<u8>* block) {
  block->assign(kernel.kernarg_bytes, 0);
  size_t next = 0;
  for (const KernelArgument& a : kernel.arguments) {
    if (a.kind.starts_with("hidden_"))
      continue;
    if (!parameters || !parameters[next] || a.offset > block->size() ||
        a.size > block->size() - a.offset)
      return false;
    std::memcpy(block->data() + a.offset, parameters[next++], a.size);
  }
  return true;
}

bool read_extra(void** extra, std::vector<u8>* block) {
  const void* buffer = nullptr;
  size_t size = 0;
  for (int k = 0; k < 16; k += 2) {
    auto key = reinterpret_cast<uintptr_t>(extra[k]);
    if (key == 3) { // end
      if (!buffer && size)
        return false;
      if (size > (1u << 20))
        return false;
      const u8* bytes = static_cast<const u8*>(buffer);
      block->assign(bytes, bytes + size);
      return true;
    }
    if (!extra[k + 1])
      return false;
    if (key == 1)
      buffer = extra[k + 1];
    else if (key == 2)
      size = *static_cast<size_t*>(extra[k + 1]);
    else
      return false;
  }
  return false;
}

int error_of(Fault::Kind kind) {
  switch (kind) {
  case Fault::bounds:
    return hipErrorIllegalAddress;
  case Fault::invalid_launch:
    return hipErrorInvalidValue;
  default:
    return hipErrorLaunchFailure;
  }
}

int launch(void* handle, const LaunchShape& shape, void** parameters, void** extra) {
  if (!handle || !alive(handle))
    return hipErrorInvalidHandle;
  auto* function = static_cast<Function*>(handle);
  std::vector<u8> block;
  if (extra ? !read_extra(extra, &block) : !gather(*function->kernel, parameters, &block))
    return hipErrorInvalidValue;
  LaunchResult result = run_launch(*function->kernel, shape, block);
  if (result.ok)
    return hipSuccess;
  report(result.report);
  return error_of(result.kind);
}

} // namespace

HIP_API int hipModuleLoadData(void** module, const void* image) {
  return entry([&] { return load_pointer(module, image); });
}
HIP_API int hipModuleLoadDataEx(void** module, const void* image, unsigned, void*, void**) {
  return entry([&] { return load_pointer(module, image); });
}
HIP_API int hipModuleLoad(void** module, const char* path) {
  return entry([&] {
    if (!module || !path)
      return static_cast<int>(hipErrorInvalidValue);
    *module = nullptr;
    std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path, "rb"), std::fclose);
    if (!file)
      return static_cast<int>(hipErrorFileNotFound);
    std::vector<u8> bytes;
    u8 chunk[65536];
    for (size_t n; (n = std::fread(chunk, 1, sizeof chunk, file.get())) > 0;)
      bytes.insert(bytes.end(), chunk, chunk + n);
    return load(module, bytes.data(), bytes.size());
  });
}

HIP_API int hipModuleUnload(void* module) {
  return entry([&] {
    if (!module || !alive(module))
      return hipErrorInvalidHandle;
    auto* known = static_cast<Module*>(module);
    std::lock_guard lock(handles_mutex);
    for (const auto& function : known->functions) {
      forget_launch(*function->kernel);
      handles().erase(function.get());
    }
    handles().erase(known);
    delete known;
    return hipSuccess;
  });
}

HIP_API int hipModuleGetFunction(void** function, void* module, const char* name) {
  return entry([&] {
    if (!function || !name)
      return static_cast<int>(hipErrorInvalidValue);
    *function = nullptr;
    if (!module || !alive(module))
      return static_cast<int>(hipErrorInvalidHandle);
    auto* known = static_cast<Module*>(module);
    std::string error;
    const Kernel* kernel = known->object->kernel(name, &error);
    if (!kernel) {
      report(error);
      return static_cast<int>(error.starts_with("no kernel") ? hipErrorNotFound
                                                             : hipErrorInvalidKernelFile);
    }
    std::lock_guard lock(handles_mutex);
    for (const auto& made : known->functions)
      if (made->kernel == kernel) {
        *function = made.get();
        return static_cast<int>(hipSuccess);
      }
    known->functions.push_back(std::make_unique<Function>(Function{kernel, known}));
    *function = known->functions.back().get();
    handles().insert(*function);
    return static_cast<int>(hipSuccess);
  });
}

HIP_API int hipModuleGetGlobal(void** pointer, size_t* bytes, void* module, const char* name) {
  return entry([&] {
    if (!name || !module || !alive(module))
      return hipErrorInvalidValue;
    u64 address = 0, size = 0;
    if (!static_cast<Module*>(module)->object->global(name, &address, &size))
      return hipErrorNotFound;
    if (pointer)
      *pointer = reinterpret_cast<void*>(address);
    if (bytes)
      *bytes = size;
    return hipSuccess;
  });
}

HIP_API int hipFuncSetAttribute(const void*, int attribute, int value) {
  return entry([&] {
    // 8: dynamic LDS; the launch checks the sum with the static part
    if (attribute == 8 && (value < 0 || static_cast<u32>(value) > kMaxLdsBytes))
      return hipErrorInvalidValue;
    return hipSuccess;
  });
}
HIP_API int hipFuncSetCacheConfig(const void*, int) { return hipSuccess; }

HIP_API int hipFuncGetAttribute(int* value, int attribute, void* function) {
  return entry([&] {
    if (!value)
      return hipErrorInvalidValue;
    if (!function || !alive(function))
      return hipErrorInvalidHandle;
    const Kernel& kernel = *static_cast<Function*>(function)->kernel;
    const int values[] = {static_cast<int>(std::min(kernel.max_block, 1024u)),
                          static_cast<int>(kernel.lds_bytes),
                          0, // constant bytes
                          static_cast<int>(kernel.scratch_bytes),
                          static_cast<int>(kernel.allocated_vgprs()),
                          0,
                          950,
                          0,
                          static_cast<int>(kMaxLdsBytes - kernel.lds_bytes),
                          0};
    if (attribute < 0 || attribute > 9)
      return hipErrorInvalidValue;
    *value = values[attribute];
    return hipSuccess;
  });
}

HIP_API int hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                  unsigned block_x, unsigned block_y, unsigned block_z,
                                  unsigned lds_bytes, void*, void** parameters, void** extra) {
  return entry([&] {
    return launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, lds_bytes},
                  parameters, extra);
  });
}

HIP_API int hipModuleLaunchCooperativeKernel(void*, unsigned, unsigned, unsigned, unsigned,
                                             unsigned, unsigned, unsigned, void*, void**) {
  return finish(hipErrorNotSupported);
}

namespace {
struct LaunchConfig { // HIP_LAUNCH_CONFIG
  unsigned grid[3], block[3], lds_bytes;
  void* stream;
  void* attributes;
  unsigned num_attributes;
};
} // namespace

HIP_API int hipDrvLaunchKernelEx(const void* config, void* function, void** parameters,
                                 void** extra) {
  return entry([&] {
    if (!config)
      return static_cast<int>(hipErrorInvalidValue);
    auto* c = static_cast<const LaunchConfig*>(config);
    return launch(function,
                  {{c->grid[0], c->grid[1], c->grid[2]},
                   {c->block[0], c->block[1], c->block[2]},
                   c->lds_bytes},
                  parameters, extra);
  });
}

// Grid in work items here, unlike hipModuleLaunchKernel.
HIP_API int hipExtModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y,
                                     unsigned grid_z, unsigned block_x, unsigned block_y,
                                     unsigned block_z, size_t lds_bytes, void*, void** parameters,
                                     void** extra, void*, void*, unsigned) {
  return entry([&] {
    if (!block_x || !block_y || !block_z || grid_x % block_x || grid_y % block_y ||
        grid_z % block_z)
      return static_cast<int>(hipErrorInvalidConfiguration);
    return launch(function,
                  {{grid_x / block_x, grid_y / block_y, grid_z / block_z},
                   {block_x, block_y, block_z},
                   static_cast<u32>(std::min<size_t>(lds_bytes, ~0u))},
                  parameters, extra);
  });
}

HIP_API int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* count, void* function,
                                                               int block, size_t lds_bytes) {
  return entry([&] {
    if (!count || block <= 0)
      return hipErrorInvalidValue;
    if (!function || !alive(function))
      return hipErrorInvalidHandle;
    const Kernel& kernel = *static_cast<Function*>(function)->kernel;
    u64 lds = kernel.lds_bytes + u64{lds_bytes};
    *count = static_cast<int>(occupancy(kernel, static_cast<u32>(block), lds).groups());
    return hipSuccess;
  });
}
