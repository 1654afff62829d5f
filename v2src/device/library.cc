#include "library.h"

#include <dlfcn.h>

namespace aot {

Status Library::open(const std::string& chosen, std::initializer_list<const char*> usual) {
  std::string reasons;
  const auto try_name = [&](const char* name) {
    handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    name_ = name;
    if (!handle_) {
      const char* reason = dlerror();
      reasons += format("%s%s", reasons.empty() ? "" : "; ", reason ? reason : name);
    }
    return handle_ != nullptr;
  };
  if (!chosen.empty()) {
    if (try_name(chosen.c_str()))
      return {};
  } else {
    for (const char* name : usual)
      if (try_name(name))
        return {};
  }
  return fail(AOT_NO_DEVICE, "the driver library does not load: %s", reasons.c_str());
}

void* Library::find(const char* symbol) const { return dlsym(handle_, symbol); }

Status Library::missing(const char* symbol) const {
  return fail(AOT_NO_DEVICE, "driver library %s has no function %s; it is too old", name_.c_str(),
              symbol);
}

} // namespace aot
