// The profile of a launch as JSON.
#include <cstdio>

#include "core/cycle_model.h"

namespace emu {
namespace {

class Json {
public:
  Json& number(const char* key, double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.10g", value);
    return raw(key, text);
  }
  Json& text(const char* key, const std::string& value) {
    std::string escaped = "\"";
    for (char c : value) {
      if (c == '"' || c == '\\')
        escaped += '\\';
      escaped += c == '\n' ? ' ' : c;
    }
    return raw(key, escaped + "\"");
  }
  Json& raw(const char* key, const std::string& value) {
    text_ += std::string(text_.empty() ? "" : ", ") + "\"" + key + "\": " + value;
    return *this;
  }
  std::string done() const { return "{" + text_ + "}"; }

private:
  std::string text_;
};

std::string occupancy(const LaunchRecord& r) {
  const Kernel& k = *r.code;
  u32 items = r.shape.block[0] * r.shape.block[1] * r.shape.block[2];
  u32 waves = (items + kLanes - 1) / kLanes, vgprs = k.allocated_vgprs();
  u32 by_vgpr = std::min(8u, 512 / std::max(8u, vgprs)) * 4 / waves;
  u32 by_lds = r.lds_bytes ? kMaxLdsBytes / r.lds_bytes : 16;
  Json json;
  json.number("vgprs", vgprs).number("lds_bytes", r.lds_bytes).number("waves", waves);
  json.number("groups_by_vgpr", by_vgpr).number("groups_by_lds", by_lds);
  json.number("scratch_bytes", k.scratch_bytes).number("vgpr_spills", k.vgpr_spills);
  json.number("sgpr_spills", k.sgpr_spills);
  return json.done();
}

} // namespace

std::string profile_json(const LaunchRecord& r) {
  if (!r.code)
    return "{}";
  const Counters& c = r.counters;
  Json classes, json;
  for (int k = 0; k < kNumClasses; ++k)
    classes.number(kClassNames[k], static_cast<double>(c.instructions[k]));
  json.text("kernel", r.kernel).text("report", r.report);
  json.number("seconds", r.seconds).number("instructions", static_cast<double>(c.total()));
  json.raw("by_class", classes.done());
  json.number("workgroups", static_cast<double>(c.workgroups)).number("waves", static_cast<double>(c.waves));
  json.number("barriers", static_cast<double>(c.barriers)).number("waits", static_cast<double>(c.waits));
  json.number("mfma_passes", static_cast<double>(c.mfma_passes)).number("flops", static_cast<double>(c.flops));
  json.number("lds_clocks", static_cast<double>(c.lds_clocks));
  json.number("lds_conflict_clocks", static_cast<double>(c.lds_conflict_clocks));
  json.number("lds_bytes", static_cast<double>(c.lds_bytes));
  json.number("global_read_bytes", static_cast<double>(c.global_read_bytes));
  json.number("global_write_bytes", static_cast<double>(c.global_write_bytes));
  json.number("global_to_lds_bytes", static_cast<double>(c.global_to_lds_bytes));
  json.number("atomic_bytes", static_cast<double>(c.atomic_bytes));
  json.number("scratch_bytes", static_cast<double>(c.scratch_bytes));
  json.raw("occupancy", occupancy(r));
  return json.done();
}

} // namespace emu
