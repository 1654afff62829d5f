// The profile of a launch as JSON.
#include <algorithm>
#include <cstdio>
#include <vector>

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

constexpr int kDraws = 11;
constexpr double kConstantClock = 1.58e9; // see docs/emulator.md: fitted to published throughput

std::string spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  Json json;
  json.number("median", values[values.size() / 2]).number("low", values.front());
  json.number("high", values.back());
  return json.done();
}

u32 resident_groups(const LaunchRecord& r) {
  const Kernel& k = *r.code;
  u32 items = r.shape.block[0] * r.shape.block[1] * r.shape.block[2];
  u32 waves = std::max(1u, (items + kLanes - 1) / kLanes);
  u32 groups = std::min(8u, 512 / std::max(8u, k.allocated_vgprs())) * 4 / waves;
  if (r.lds_bytes)
    groups = std::min(groups, kMaxLdsBytes / r.lds_bytes);
  return std::clamp(groups, 1u, std::max(1u, 16 / waves));
}

std::string modelled(const LaunchRecord& r) {
  u32 copies = resident_groups(r);
  std::vector<double> clocks, whole, steady, rate;
  std::vector<ModelResult> runs;
  double flops = 0;
  for (const auto& wave : r.trace)
    for (const TraceEntry& e : wave) {
      const MfmaShape& m = r.code->program.code[e.index].row->mfma;
      flops += 2.0 * m.rows * m.rows * m.depth;
    }
  for (int draw = 0; draw < kDraws; ++draw) {
    u64 seed = static_cast<u64>(draw);
    runs.push_back(model_workgroup(r.code->program, r.trace, copies, draw_parameters(seed), seed));
    const ModelResult& m = runs.back();
    clocks.push_back(static_cast<double>(m.clocks));
    whole.push_back(m.busy_whole);
    steady.push_back(m.busy_steady);
    if (m.steady_clocks)
      rate.push_back(0.5 * flops * copies / static_cast<double>(m.steady_clocks));
  }
  const ModelResult& base = runs[0];
  Json json, stalls;
  int worst = 0;
  for (int k = 0; k < kNumStalls; ++k) {
    stalls.number(kStallNames[k], base.stalls[k]);
    if (base.stalls[k] > base.stalls[worst])
      worst = k;
  }
  json.text("note", "modelled, not measured").number("resident_workgroups", copies);
  json.number("draws", kDraws).raw("clocks", spread(clocks));
  json.raw("mfma_busy_workgroup", spread(whole)).raw("mfma_busy_steady", spread(steady));
  if (!rate.empty()) {
    json.raw("flops_per_clock_steady", spread(rate));
    for (double& value : rate)
      value *= 256 * kConstantClock / 1e12;
    json.raw("tflops_at_constant_clock", spread(rate));
  }
  json.number("vector_port_share", base.port_share).number("lds_share", base.lds_share);
  json.number("memory_path_share", base.memory_share);
  json.raw("stalled_share_of_wave_time", stalls.done());
  return json.text("most_time_stalled_on", kStallNames[worst]).done();
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
  json.number("workgroups", static_cast<double>(c.workgroups))
      .number("waves", static_cast<double>(c.waves));
  json.number("barriers", static_cast<double>(c.barriers))
      .number("waits", static_cast<double>(c.waits));
  json.number("mfma_passes", static_cast<double>(c.mfma_passes))
      .number("flops", static_cast<double>(c.flops));
  json.number("lds_clocks", static_cast<double>(c.lds_clocks));
  json.number("lds_conflict_clocks", static_cast<double>(c.lds_conflict_clocks));
  json.number("lds_bytes", static_cast<double>(c.lds_bytes));
  json.number("global_read_bytes", static_cast<double>(c.global_read_bytes));
  json.number("global_write_bytes", static_cast<double>(c.global_write_bytes));
  json.number("global_to_lds_bytes", static_cast<double>(c.global_to_lds_bytes));
  json.number("atomic_bytes", static_cast<double>(c.atomic_bytes));
  json.number("scratch_bytes", static_cast<double>(c.scratch_bytes));
  json.raw("occupancy", occupancy(r));
  if (!r.trace.empty())
    json.raw("modelled", modelled(r));
  return json.done();
}

} // namespace emu
