// Streams and events. Work is done when the call that asks for it returns, so both only need to
// exist; events remember when they were recorded.
#include <chrono>
#include <mutex>
#include <set>

#include "hip/api.h"

using namespace emu;
using namespace emu::hip;

namespace {

struct Stream {
  unsigned flags = 0;
  int priority = 0;
};
struct Event {
  std::chrono::steady_clock::time_point time{};
  bool recorded = false;
};

std::mutex mutex;
template <class T> std::set<T*>& known() {
  static auto* alive = new std::set<T*>;
  return *alive;
}

template <class T> T* make() {
  T* made = new T;
  std::lock_guard lock(mutex);
  known<T>().insert(made);
  return made;
}

template <class T> bool is_known(void* handle) {
  std::lock_guard lock(mutex);
  return known<T>().count(static_cast<T*>(handle)) != 0;
}

template <class T> int destroy(void* handle) {
  std::lock_guard lock(mutex);
  if (!known<T>().erase(static_cast<T*>(handle)))
    return hipErrorInvalidHandle;
  delete static_cast<T*>(handle);
  return hipSuccess;
}

// Null, 1 and 2 are the default streams.
bool is_stream(void* stream) {
  return reinterpret_cast<uintptr_t>(stream) <= 2 || is_known<Stream>(stream);
}

int check_stream(void* stream) {
  return entry([&] { return is_stream(stream) ? hipSuccess : hipErrorInvalidHandle; });
}

int make_stream(void** stream, unsigned flags, int priority) {
  return entry([&] {
    if (!stream)
      return hipErrorInvalidValue;
    auto* made = make<Stream>();
    made->flags = flags;
    made->priority = priority;
    *stream = made;
    return hipSuccess;
  });
}

} // namespace

HIP_API int hipStreamCreate(void** stream) { return make_stream(stream, 0, 0); }
HIP_API int hipStreamCreateWithFlags(void** stream, unsigned flags) {
  return make_stream(stream, flags, 0);
}
HIP_API int hipStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  return make_stream(stream, flags, priority);
}
HIP_API int hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least)
    *least = 0;
  if (greatest)
    *greatest = 0;
  return hipSuccess;
}
HIP_API int hipStreamDestroy(void* stream) {
  return entry([&] { return destroy<Stream>(stream); });
}
HIP_API int hipStreamSynchronize(void* stream) { return check_stream(stream); }
HIP_API int hipStreamQuery(void* stream) { return check_stream(stream); }

HIP_API int hipStreamGetDevice(void* stream, int* device) {
  return entry([&] {
    if (!device)
      return hipErrorInvalidValue;
    *device = 0;
    return is_stream(stream) ? hipSuccess : hipErrorInvalidHandle;
  });
}
HIP_API int hipStreamGetFlags(void* stream, unsigned* flags) {
  return entry([&] {
    if (!flags)
      return hipErrorInvalidValue;
    *flags = is_known<Stream>(stream) ? static_cast<Stream*>(stream)->flags : 0;
    return is_stream(stream) ? hipSuccess : hipErrorInvalidHandle;
  });
}
HIP_API int hipStreamGetPriority(void* stream, int* priority) {
  return entry([&] {
    if (!priority)
      return hipErrorInvalidValue;
    *priority = is_known<Stream>(stream) ? static_cast<Stream*>(stream)->priority : 0;
    return is_stream(stream) ? hipSuccess : hipErrorInvalidHandle;
  });
}
HIP_API int hipStreamWaitEvent(void* stream, void* event, unsigned) {
  return entry([&] {
    return is_stream(stream) && is_known<Event>(event) ? hipSuccess : hipErrorInvalidHandle;
  });
}
HIP_API int hipLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  return entry([&] {
    if (!function)
      return hipErrorInvalidValue;
    if (!is_stream(stream))
      return hipErrorInvalidHandle;
    function(data);
    return hipSuccess;
  });
}

// Graph capture does not exist here: nothing ever captures, and starting one is refused.
HIP_API int hipStreamIsCapturing(void* stream, int* status) {
  return entry([&] {
    if (!status)
      return hipErrorInvalidValue;
    *status = 0;
    return is_stream(stream) ? hipSuccess : hipErrorInvalidHandle;
  });
}
HIP_API int hipStreamGetCaptureInfo(void* stream, int* status, unsigned long long* id) {
  if (id)
    *id = 0;
  return hipStreamIsCapturing(stream, status);
}
HIP_API int hipStreamBeginCapture(void*, int) { return finish(hipErrorStreamCaptureUnsupported); }
HIP_API int hipStreamEndCapture(void*, void** graph) {
  if (graph)
    *graph = nullptr;
  return finish(hipErrorStreamCaptureUnsupported);
}
HIP_API int hipThreadExchangeStreamCaptureMode(int* mode) {
  return entry([&] {
    thread_local int current = 0;
    if (!mode)
      return hipErrorInvalidValue;
    std::swap(*mode, current);
    return hipSuccess;
  });
}

HIP_API int hipEventCreateWithFlags(void** event, unsigned) {
  return entry([&] {
    if (!event)
      return hipErrorInvalidValue;
    *event = make<Event>();
    return hipSuccess;
  });
}
HIP_API int hipEventCreate(void** event) { return hipEventCreateWithFlags(event, 0); }
HIP_API int hipEventDestroy(void* event) {
  return entry([&] { return destroy<Event>(event); });
}
HIP_API int hipEventRecord(void* event, void* stream) {
  return entry([&] {
    if (!is_known<Event>(event) || !is_stream(stream))
      return hipErrorInvalidHandle;
    auto* known_event = static_cast<Event*>(event);
    known_event->time = std::chrono::steady_clock::now();
    known_event->recorded = true;
    return hipSuccess;
  });
}
HIP_API int hipEventSynchronize(void* event) {
  return entry([&] { return is_known<Event>(event) ? hipSuccess : hipErrorInvalidHandle; });
}
HIP_API int hipEventQuery(void* event) { return hipEventSynchronize(event); }
// Host time: how long the emulation took, no figure of a GPU.
HIP_API int hipEventElapsedTime(float* milliseconds, void* start, void* stop) {
  return entry([&] {
    if (!milliseconds)
      return hipErrorInvalidValue;
    if (!is_known<Event>(start) || !is_known<Event>(stop))
      return hipErrorInvalidHandle;
    auto *first = static_cast<Event*>(start), *last = static_cast<Event*>(stop);
    if (!first->recorded || !last->recorded)
      return hipErrorInvalidHandle;
    *milliseconds = std::chrono::duration<float, std::milli>(last->time - first->time).count();
    return hipSuccess;
  });
}
