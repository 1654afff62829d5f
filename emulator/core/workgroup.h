// One running workgroup, and what all workgroups of a launch share.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/code_object.h"
#include "core/counters.h"
#include "core/knobs.h"
#include "core/memory.h"
#include "core/wave.h"

namespace emu {

struct LaunchShape {
  u32 grid[3] = {1, 1, 1};  // workgroups
  u32 block[3] = {1, 1, 1}; // work items
  u32 dynamic_lds_bytes = 0;
};

struct Launch {
  const Kernel* kernel = nullptr;
  LaunchShape shape;
  Knobs knobs;
  Snapshot memory;
  u64 kernarg_address = 0, dispatch_address = 0;
  u32 lds_bytes = 0;
  bool check_waits = false, check_races = false, check_bounds = false, check_uninitialised = false;
  std::atomic<bool> stop{false};
};

struct Workgroup {
  Launch* launch = nullptr;
  u32 id[3] = {};
  std::vector<u8> lds;
  std::vector<std::unique_ptr<Wave>> waves;
  Counters counters;
  std::vector<std::vector<TraceEntry>> trace; // by wave, when the launch is traced
};

// Runs the workgroup to its end. Throws Fault.
void run_workgroup(Workgroup& group);

// Sets up the waves of workgroup `id` of the launch (initial registers, EXEC, LDS).
void prepare_workgroup(Workgroup& group, Launch& launch, const u32 id[3]);

// Moves all effects of the oldest operations into registers and memory until `keep` are left.
void retire(Wave& wave, Queue queue, u32 keep);
void retire_all(Wave& wave);
void complete(Wave& wave, PendingOp& op);

} // namespace emu
