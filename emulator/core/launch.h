// Runs one kernel launch on the host's cores.
#pragma once

#include <algorithm>
#include <string>

#include "core/code_object.h"
#include "core/workgroup.h"

namespace emu {

struct LaunchResult {
  bool ok = true;
  Fault::Kind kind = Fault::unsupported;
  std::string report;
};

// `arguments` is the packed kernel argument block without hidden arguments.
LaunchResult run_launch(const Kernel& kernel, const LaunchShape& shape,
                        const std::vector<u8>& arguments);

constexpr u32 kMaxLdsBytes = 163840; // of a compute unit
constexpr u32 kComputeUnits = 256;
constexpr u32 kMaxGroups = 16; // that a compute unit holds

// Workgroups of a kernel that a compute unit holds, by what limits them.
struct Occupancy {
  u32 waves; // of one workgroup
  u32 by_vgpr, by_lds;
  u32 groups() const { return std::min(by_vgpr, by_lds); }
};
Occupancy occupancy(const Kernel& kernel, u32 items, u64 lds_bytes);

// What the last launch did, for the test and profile interface.
struct LaunchRecord {
  std::string kernel;
  LaunchShape shape;
  u32 lds_bytes = 0;
  Counters counters;
  double seconds = 0;
  const Kernel* code = nullptr; // null once its module is unloaded
  std::vector<std::vector<TraceEntry>> trace;
  std::string report; // empty when it ran to its end
};
LaunchRecord last_launch();
void forget_launch(const Kernel& kernel); // before it is deleted
void set_last_report(const std::string& report);

} // namespace emu
