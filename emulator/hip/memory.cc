// Allocation, copies and fills. Device memory is host memory; every call ends its work at once.
#include <algorithm>
#include <cstring>

#include "hip/api.h"

using namespace emu;
using namespace emu::hip;

namespace {

int allocate(void** pointer, size_t bytes, bool track) {
  if (!pointer)
    return hipErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0)
    return hipSuccess;
  *pointer = device_memory().allocate(bytes, track && knobs().check_uninitialised);
  return *pointer ? hipSuccess : hipErrorOutOfMemory;
}

int release(void* pointer) {
  return !pointer || device_memory().release(pointer) ? hipSuccess : hipErrorInvalidValue;
}

// An end of a copy that must be device memory lies inside one allocation.
bool is_device(const void* pointer, size_t bytes) {
  Allocation found;
  return device_memory().find(pointer, &found) &&
         found.contains(reinterpret_cast<u64>(pointer), bytes);
}

enum Direction { host_to_host, host_to_device, device_to_host, device_to_device, any_direction };

int copy(void* to, const void* from, size_t bytes, int direction) {
  if (bytes == 0)
    return hipSuccess;
  if (!to || !from)
    return hipErrorInvalidValue;
  if (direction < 0 || direction > any_direction)
    return hipErrorInvalidMemcpyDirection;
  bool to_device = direction == host_to_device || direction == device_to_device;
  bool from_device = direction == device_to_host || direction == device_to_device;
  if ((to_device && !is_device(to, bytes)) || (from_device && !is_device(from, bytes)))
    return hipErrorInvalidValue;
  std::memmove(to, from, bytes);
  device_memory().copy_written(to, from, bytes);
  return hipSuccess;
}

template <class T> int fill(void* to, T value, size_t count) {
  if (count == 0)
    return hipSuccess;
  if (!to || !is_device(to, count * sizeof(T)))
    return hipErrorInvalidValue;
  if constexpr (sizeof(T) == 1)
    std::memset(to, static_cast<int>(value), count);
  else
    for (size_t k = 0; k < count; ++k)
      std::memcpy(static_cast<u8*>(to) + k * sizeof(T), &value, sizeof(T));
  device_memory().mark_written(to, count * sizeof(T));
  return hipSuccess;
}

} // namespace

HIP_API int hipMalloc(void** pointer, size_t bytes) {
  return entry([&] { return allocate(pointer, bytes, true); });
}
HIP_API int hipMallocAsync(void** pointer, size_t bytes, void*) {
  return entry([&] { return allocate(pointer, bytes, true); });
}
HIP_API int hipMallocManaged(void** pointer, size_t bytes, unsigned) {
  return entry([&] { return allocate(pointer, bytes, false); });
}
HIP_API int hipHostMalloc(void** pointer, size_t bytes, unsigned) {
  return entry([&] { return allocate(pointer, bytes, false); });
}
HIP_API int hipFree(void* pointer) {
  return entry([&] { return release(pointer); });
}
HIP_API int hipFreeAsync(void* pointer, void*) {
  return entry([&] { return release(pointer); });
}
HIP_API int hipHostFree(void* pointer) {
  return entry([&] { return release(pointer); });
}

HIP_API int hipHostRegister(void* pointer, size_t bytes, unsigned) {
  return entry([&] {
    if (!pointer || !bytes)
      return hipErrorInvalidValue;
    return device_memory().add_host(pointer, bytes) ? hipSuccess
                                                    : hipErrorHostMemoryAlreadyRegistered;
  });
}
HIP_API int hipHostUnregister(void* pointer) {
  return entry([&] {
    return device_memory().remove_host(pointer) ? hipSuccess : hipErrorHostMemoryNotRegistered;
  });
}
HIP_API int hipHostGetDevicePointer(void** device, void* host, unsigned) {
  return entry([&] {
    if (!device || !host)
      return hipErrorInvalidValue;
    *device = host;
    return hipSuccess;
  });
}

HIP_API int hipMemGetInfo(size_t* free_bytes, size_t* total) {
  return entry([&] {
    if (!free_bytes || !total)
      return hipErrorInvalidValue;
    *total = kDeviceMemoryBytes;
    *free_bytes = kDeviceMemoryBytes - std::min(kDeviceMemoryBytes, device_memory().bytes_in_use());
    return hipSuccess;
  });
}

HIP_API int hipMemcpy(void* to, const void* from, size_t bytes, int kind) {
  return entry([&] { return copy(to, from, bytes, kind); });
}
HIP_API int hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void*) {
  return entry([&] { return copy(to, from, bytes, kind); });
}
HIP_API int hipMemcpyWithStream(void* to, const void* from, size_t bytes, int kind, void*) {
  return entry([&] { return copy(to, from, bytes, kind); });
}
HIP_API int hipMemcpyHtoD(void* to, const void* from, size_t bytes) {
  return entry([&] { return copy(to, from, bytes, host_to_device); });
}
HIP_API int hipMemcpyHtoDAsync(void* to, const void* from, size_t bytes, void*) {
  return entry([&] { return copy(to, from, bytes, host_to_device); });
}
HIP_API int hipMemcpyDtoH(void* to, void* from, size_t bytes) {
  return entry([&] { return copy(to, from, bytes, device_to_host); });
}
HIP_API int hipMemcpyDtoHAsync(void* to, void* from, size_t bytes, void*) {
  return entry([&] { return copy(to, from, bytes, device_to_host); });
}
HIP_API int hipMemcpyDtoD(void* to, void* from, size_t bytes) {
  return entry([&] { return copy(to, from, bytes, device_to_device); });
}
HIP_API int hipMemcpyDtoDAsync(void* to, void* from, size_t bytes, void*) {
  return entry([&] { return copy(to, from, bytes, device_to_device); });
}

HIP_API int hipMemset(void* to, int value, size_t bytes) {
  return entry([&] { return fill(to, static_cast<u8>(value), bytes); });
}
HIP_API int hipMemsetAsync(void* to, int value, size_t bytes, void*) {
  return entry([&] { return fill(to, static_cast<u8>(value), bytes); });
}
HIP_API int hipMemsetD8(void* to, unsigned char value, size_t count) {
  return entry([&] { return fill(to, value, count); });
}
HIP_API int hipMemsetD8Async(void* to, unsigned char value, size_t count, void*) {
  return entry([&] { return fill(to, value, count); });
}
HIP_API int hipMemsetD16(void* to, unsigned short value, size_t count) {
  return entry([&] { return fill(to, value, count); });
}
HIP_API int hipMemsetD16Async(void* to, unsigned short value, size_t count, void*) {
  return entry([&] { return fill(to, value, count); });
}
HIP_API int hipMemsetD32(void* to, int value, size_t count) {
  return entry([&] { return fill(to, value, count); });
}
HIP_API int hipMemsetD32Async(void* to, int value, size_t count, void*) {
  return entry([&] { return fill(to, value, count); });
}

namespace {
struct PointerAttributes { // hipPointerAttribute_t
  int type;                // 0 unregistered, 1 host, 2 device
  int device;
  void* device_pointer;
  void* host_pointer;
  int is_managed;
  unsigned flags;
};
} // namespace

HIP_API int hipPointerGetAttributes(void* attributes, const void* pointer) {
  return entry([&] {
    if (!attributes || !pointer)
      return hipErrorInvalidValue;
    auto* out = static_cast<PointerAttributes*>(attributes);
    Allocation found;
    *out = {};
    if (!device_memory().find(pointer, &found))
      return hipErrorInvalidValue;
    out->type = found.owned ? 2 : 1;
    out->device_pointer = const_cast<void*>(pointer);
    out->host_pointer = found.owned ? nullptr : const_cast<void*>(pointer);
    return hipSuccess;
  });
}

// Attributes of the driver interface: 2 memory type, 3 device pointer, 9 device ordinal,
// 11 start of the range, 12 its size.
HIP_API int hipPointerGetAttribute(void* data, int attribute, void* pointer) {
  return entry([&] {
    Allocation found;
    if (!data || !pointer || !device_memory().find(pointer, &found))
      return hipErrorInvalidValue;
    if (attribute == 2)
      *static_cast<int*>(data) = found.owned ? 2 : 1;
    else if (attribute == 3)
      *static_cast<void**>(data) = pointer;
    else if (attribute == 9)
      *static_cast<int*>(data) = 0;
    else if (attribute == 11)
      *static_cast<void**>(data) = reinterpret_cast<void*>(found.base);
    else if (attribute == 12)
      *static_cast<size_t*>(data) = found.size;
    else
      return hipErrorInvalidValue;
    return hipSuccess;
  });
}

HIP_API int hipMemGetAddressRange(void** base, size_t* bytes, void* pointer) {
  return entry([&] {
    Allocation found;
    if (!device_memory().find(pointer, &found))
      return hipErrorNotFound;
    if (base)
      *base = reinterpret_cast<void*>(found.base);
    if (bytes)
      *bytes = found.size;
    return hipSuccess;
  });
}
