// Error strings and the last error of a thread.
#include "hip/api.h"

namespace emu::hip {
namespace {
thread_local int last_error = hipSuccess;
}

int finish(int error) {
  if (error != hipSuccess)
    last_error = error;
  return error;
}

} // namespace emu::hip

using namespace emu::hip;

HIP_API const char* hipGetErrorName(int error) {
  switch (error) {
#define NAME(name, code, text)                                                                     \
  case code:                                                                                       \
    return #name;
    HIP_ERRORS(NAME)
  default:
    return "hipErrorUnknown";
  }
}

HIP_API const char* hipGetErrorString(int error) {
  switch (error) {
#define TEXT(name, code, text)                                                                     \
  case code:                                                                                       \
    return text;
    HIP_ERRORS(TEXT)
  default:
    return "unknown error";
  }
}

HIP_API int hipDrvGetErrorName(int error, const char** name) {
  if (!name)
    return finish(hipErrorInvalidValue);
  *name = hipGetErrorName(error);
  return hipSuccess;
}

HIP_API int hipDrvGetErrorString(int error, const char** text) {
  if (!text)
    return finish(hipErrorInvalidValue);
  *text = hipGetErrorString(error);
  return hipSuccess;
}

HIP_API int hipGetLastError() {
  int error = last_error;
  last_error = hipSuccess;
  return error;
}

HIP_API int hipExtGetLastError() { return hipGetLastError(); }
HIP_API int hipPeekAtLastError() { return last_error; }
