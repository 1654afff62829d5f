// Environment variables: the one list, and the one place that reads them. python/aotattn/knobs.py
// has the same rows.
#ifndef AOTATTN_KNOBS_H
#define AOTATTN_KNOBS_H

#include <cstdlib>
#include <string>

namespace aot {

/* function, name, default, meaning */
#define AOT_KNOB_LIST(X)                                                                           \
  X(store_dir, "AOTATTN_STORE_DIR", "",                                                            \
    "directory of kernel stores and tuning.db, in place of the one beside the library")            \
  X(tuning_db, "AOTATTN_TUNING_DB", "", "a user's tuning database laid over the installed one")    \
  X(hip_library, "AOTATTN_HIP_LIBRARY", "",                                                        \
    "the HIP runtime library to load (default libamdhip64.so.7, .6, .so)")                         \
  X(cuda_library, "AOTATTN_CUDA_LIBRARY", "",                                                      \
    "the CUDA driver library to load (default libcuda.so.1)")

namespace knobs {

// The value; an empty one counts as not set.
#define AOT_KNOB_FUNCTION(function, name, normally, meaning)                                       \
  inline std::string function() {                                                                  \
    const char* value = std::getenv(name);                                                         \
    return value && *value ? value : normally;                                                     \
  }
AOT_KNOB_LIST(AOT_KNOB_FUNCTION)
#undef AOT_KNOB_FUNCTION

} // namespace knobs
} // namespace aot

#endif
