// Modelled cycles of a traced workgroup on one compute unit. Nothing here is measured; the model
// and its assumptions are described in docs/emulator.md.
#pragma once

#include <string>

#include "core/launch.h"

namespace emu {

constexpr u32 kSimds = 4; // of a compute unit

// Constants of the model, in clocks unless it says slots of four clocks. Where the hardware is not
// documented a run of the ensemble draws them from a range (draw_parameters).
struct ModelParameters {
  u32 lds_latency = 48, lds_queue = 32, lds_pair_bytes = 128;
  u32 memory_latency = 600, memory_queue = 128, memory_bytes = 64;
  u32 scalar_latency = 200;
  u32 branch = 8, barrier = 16;
  u32 chain_slots = 0;      // extra slots from one matrix result to the next one's addend
  bool round_robin = false; // arbitration, else the older wave first
  u32 skew = 0;             // largest start delay of a wave
};

enum Stall {
  kStallPort,
  kStallMatrix,
  kStallPacked,
  kStallOperand,
  kStallLds,
  kStallMemory,
  kStallVmcnt,
  kStallLgkmcnt,
  kStallBarrier,
  kNumStalls
};
extern const char* const kStallNames[kNumStalls];

// What the units of the compute unit and its waves did in some time. Busy and stalled times are
// clocks, summed over the SIMDs, the units or the waves.
struct Activity {
  u64 clocks = 0;
  u64 passes = 0; // of the matrix pipes, in slots
  u64 port = 0, lds = 0, memory = 0;
  u64 stalled[kNumStalls] = {};
};

struct ModelResult {
  Activity whole;  // the resident workgroups, start to end
  Activity steady; // between 30 % and 80 % of the matrix work; all of it where there is none
};

ModelParameters draw_parameters(u64 seed);

// Runs `copies` workgroups with this trace side by side.
ModelResult model_workgroup(const Program& program,
                            const std::vector<std::vector<TraceEntry>>& trace, u32 copies,
                            const ModelParameters& parameters, u64 seed);

// Counters and, where a trace was taken, the model's answer, as JSON.
std::string profile_json(const LaunchRecord& record);

} // namespace emu
