// The profile of a launch as JSON.
#include <algorithm>
#include <cmath>
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

Occupancy occupancy(const LaunchRecord& r) {
  const u32* block = r.shape.block;
  return occupancy(*r.code, block[0] * block[1] * block[2], r.lds_bytes);
}

std::string occupancy_json(const LaunchRecord& r) {
  const Kernel& k = *r.code;
  Occupancy o = occupancy(r);
  Json json;
  json.number("vgprs", k.allocated_vgprs()).number("lds_bytes", r.lds_bytes);
  json.number("waves", o.waves);
  json.number("groups_by_vgpr", o.by_vgpr).number("groups_by_lds", o.by_lds);
  json.number("scratch_bytes", k.scratch_bytes).number("vgpr_spills", k.vgpr_spills);
  json.number("sgpr_spills", k.sgpr_spills);
  return json.done();
}

constexpr int kDraws = 11;

// Two rules for the clock under matrix load, see docs/emulator.md: fitted to published throughput.
double constant_clock(double) { return 1.58e9; }
double power_law_clock(double busy) { return std::min(2.4e9, 1.53e9 * std::cbrt(0.94 / busy)); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string spread(const std::vector<double>& values) {
  auto [low, high] = std::minmax_element(values.begin(), values.end());
  Json json;
  json.number("median", median(values)).number("low", *low).number("high", *high);
  return json.done();
}

// The model's answers for the same launch, one a draw.
class Ensemble {
public:
  Ensemble(const LaunchRecord& r, u32 copies) : waves_(occupancy(r).waves * copies) {
    for (u64 draw = 0; draw < kDraws; ++draw)
      runs_.push_back(
          model_workgroup(r.code->program, r.trace, copies, draw_parameters(draw), draw));
  }

  template <class Figure> std::vector<double> each(Figure figure) const {
    std::vector<double> values;
    for (const ModelResult& run : runs_)
      values.push_back(figure(run));
    return values;
  }

  // Share of the steady time that a unit, of which there are `units`, was busy.
  std::vector<double> steady(u64 Activity::* busy, double units) const {
    return each(
        [&](const ModelResult& m) { return share(m.steady.*busy, m.steady.clocks, units); });
  }

  // The same of the waves' time, stalled for a reason.
  std::vector<double> stalled(int reason) const {
    return each([&](const ModelResult& m) {
      return share(m.steady.stalled[reason], m.steady.clocks, waves_);
    });
  }

  static double share(u64 busy, u64 clocks, double units) {
    return static_cast<double>(busy) / (static_cast<double>(std::max<u64>(1, clocks)) * units);
  }

private:
  double waves_;
  std::vector<ModelResult> runs_;
};

std::string list(const std::vector<double>& values) {
  std::string text;
  for (double value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

std::string modelled(const LaunchRecord& r) {
  u32 copies = std::max(1u, occupancy(r).groups());
  Ensemble model(r, copies);
  double flops_a_pass = 0; // of the launch; one pass is kSimds clocks of one matrix pipe
  if (r.counters.mfma_passes)
    flops_a_pass =
        static_cast<double>(r.counters.flops) / static_cast<double>(r.counters.mfma_passes);
  double rounds = std::ceil(static_cast<double>(r.counters.workgroups) / (kComputeUnits * copies));
  auto busy = model.steady(&Activity::passes, 1);
  Json json, stalls;
  json.text("note", "modelled, not measured").number("resident_workgroups", copies);
  json.number("draws", kDraws);
  auto clocks = [](const ModelResult& m) { return static_cast<double>(m.whole.clocks); };
  json.raw("clocks", spread(model.each(clocks)));
  json.raw("mfma_busy_steady", spread(busy)).raw("mfma_busy_steady_by_draw", list(busy));
  json.raw("mfma_busy_workgroup", spread(model.each([](const ModelResult& m) {
             return Ensemble::share(m.whole.passes, m.whole.clocks, 1);
           })));
  json.raw("mfma_busy_grid", spread(model.each([&](const ModelResult& m) {
             return Ensemble::share(r.counters.mfma_passes, m.whole.clocks, kComputeUnits * rounds);
           })));
  json.raw("vector_port_share", spread(model.steady(&Activity::port, kSimds)));
  json.raw("lds_share", spread(model.steady(&Activity::lds, 1)));
  json.raw("memory_path_share", spread(model.steady(&Activity::memory, 1)));
  std::vector<double> rate, constant, power_law;
  for (double share : busy) {
    rate.push_back(share * flops_a_pass);
    constant.push_back(rate.back() * kComputeUnits * constant_clock(share) / 1e12);
    power_law.push_back(rate.back() * kComputeUnits * power_law_clock(share) / 1e12);
  }
  if (flops_a_pass > 0) {
    json.raw("flops_per_clock_steady", spread(rate));
    json.raw("tflops_at_constant_clock", spread(constant));
    json.raw("tflops_at_power_law_clock", spread(power_law));
  }
  int worst = 0;
  for (int k = 0; k < kNumStalls; ++k) {
    stalls.raw(kStallNames[k], spread(model.stalled(k)));
    if (median(model.stalled(k)) > median(model.stalled(worst)))
      worst = k;
  }
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
  json.number("lds_conflict_share", Ensemble::share(c.lds_conflict_clocks, c.lds_clocks, 1));
  json.number("lds_bytes", static_cast<double>(c.lds_bytes));
  json.number("global_read_bytes", static_cast<double>(c.global_read_bytes));
  json.number("global_write_bytes", static_cast<double>(c.global_write_bytes));
  json.number("global_to_lds_bytes", static_cast<double>(c.global_to_lds_bytes));
  json.number("atomic_bytes", static_cast<double>(c.atomic_bytes));
  json.number("scratch_bytes", static_cast<double>(c.scratch_bytes));
  json.raw("occupancy", occupancy_json(r));
  if (!r.trace.empty() && r.report.empty())
    json.raw("modelled", modelled(r));
  return json.done();
}

} // namespace emu
