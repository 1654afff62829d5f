// The C ABI: every entry catches what may be thrown and keeps the sentence of its thread.
#include "aotattn/aotattn.h"
#include "explain.h"
#include "json.h"
#include "launch/launch.h"
#include "launch/runtime.h"
#include "log.h"
#include "ops/attn_fwd.h"
#include "text.h"

#include <cstring>
#include <exception>

namespace aot {
namespace {

constexpr char kOutOfMemory[] = "the host has no memory left";

struct LastError {
  std::string text;
  const char* fixed = nullptr; // where even the text could not be had
};

LastError& last_error() {
  thread_local LastError error;
  return error;
}

aot_status keep(const Status& status) {
  LastError& error = last_error();
  error.fixed = nullptr;
  if (status.ok()) [[likely]]
    error.text.clear();
  else
    error.text = status.message();
  return status.code();
}

template <class Body> aot_status guarded(Body body) noexcept {
  try {
    return keep(body());
  } catch (const std::bad_alloc&) {
    last_error().fixed = kOutOfMemory;
  } catch (const std::exception& exception) {
    try {
      return keep(fail(AOT_INTERNAL, "a bug in aotattn: %s", exception.what()));
    } catch (...) {
      last_error().fixed = kOutOfMemory;
    }
  } catch (...) {
    last_error().fixed = "a bug in aotattn: an unknown exception";
  }
  return AOT_INTERNAL;
}

Status need_operator(const char* name, const Operator** op) {
  if (!name)
    return fail(AOT_BAD_ARGUMENT, "op is null");
  *op = find_operator(name);
  if (*op)
    return {};
  std::vector<std::string> known;
  for (const Operator* o : operators())
    known.push_back(o->name);
  return fail(AOT_BAD_ARGUMENT, "op = '%s'; known are: %s", name, join(known).c_str());
}

// `what` names the caller's buffer in the sentence.
Status copy_text(const std::string& from, char* to, size_t size, const char* what) {
  if (!to || size == 0)
    return fail(AOT_BAD_ARGUMENT, "%s has no room; it needs %zu bytes", what, from.size() + 1);
  const size_t length = std::min(from.size(), size - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
  if (length < from.size())
    return fail(AOT_BAD_ARGUMENT, "%s has room for %zu bytes; it needs %zu", what, size,
                from.size() + 1);
  return {};
}

std::string make_build_info() {
  Json json;
  json.open('{').key("version").value(aot_version()).key("schema_version").value(kSchemaVersion);
  json.key("tuning_version").value(kTuningVersion).key("revision").value(AOTATTN_REVISION);
  json.key("compiler").value(AOTATTN_COMPILER).key("operators").open('[');
  for (const Operator* op : operators())
    json.value(op->name);
  return json.close(']').close('}').text();
}

} // namespace
} // namespace aot

using namespace aot;

aot_status aot_attn_fwd(const aot_attn_fwd_params* params, const aot_call* call) {
  return guarded([&] { return run(kAttnFwd, params, call, Mode::kLaunch); });
}

aot_status aot_preload(const char* name, const void* params, const aot_call* call) {
  return guarded([&]() -> Status {
    const Operator* op = nullptr;
    AOT_TRY(need_operator(name, &op));
    return run(*op, params, call, Mode::kPreload);
  });
}

aot_status aot_explain(const char* name, const void* params, const char* arch,
                       int32_t compute_units, const char* plan, char* text, size_t size,
                       size_t* needed) {
  if (text && size != 0)
    *text = '\0';
  return guarded([&]() -> Status {
    const Operator* op = nullptr;
    AOT_TRY(need_operator(name, &op));
    if (!arch)
      return fail(AOT_BAD_ARGUMENT, "arch is null");
    if (compute_units < 0)
      return fail(AOT_BAD_ARGUMENT, "compute_units = %d is negative", compute_units);
    std::string json;
    AOT_TRY(explain(*op, params, arch, compute_units, plan, &json));
    if (needed)
      *needed = json.size() + 1;
    return copy_text(json, text, size, "text");
  });
}

aot_status aot_set_tuning_db(const char* path) {
  return guarded([&]() -> Status {
    if (path)
      AOT_TRY(check_tuning_database(path));
    set_tuning_database(path);
    return {};
  });
}

aot_status aot_device_info(int32_t platform, int32_t device, char* arch, size_t size,
                           int32_t* compute_units) {
  return guarded([&]() -> Status {
    DeviceEntry* entry = nullptr;
    AOT_TRY(Runtime::get().find_device(platform, device, &entry));
    if (compute_units)
      *compute_units = entry->device.compute_units;
    return copy_text(entry->device.arch, arch, size, "arch");
  });
}

const char* aot_last_error(void) {
  const LastError& error = last_error();
  return error.fixed ? error.fixed : error.text.c_str();
}

const char* aot_status_name(aot_status status) {
  switch (status) {
#define AOT_STATUS_NAME(name, value, meaning)                                                      \
  case name:                                                                                       \
    return #name;
    AOT_STATUS_LIST(AOT_STATUS_NAME)
#undef AOT_STATUS_NAME
  }
  return "unknown";
}

const char* aot_version(void) { return AOTATTN_VERSION; }

const char* aot_build_info(void) {
  static const std::string info = make_build_info();
  return info.c_str();
}

uint64_t aot_launch_count(void) {
  try {
    return Runtime::get().launches.load(std::memory_order_relaxed);
  } catch (...) {
    return 0; // no memory for a runtime: nothing was launched
  }
}

void aot_set_log(aot_log_fn log, void* context) {
  static_cast<void>(guarded([&]() -> Status {
    set_log(log, context);
    return {};
  }));
}
