// The environment variables of the emulator; knobs.cc is the only reader.
#pragma once

#include <string>

#include "core/types.h"

namespace emu {

enum class Order : u8 { round_robin, to_barrier, reverse, random };

struct Knobs {
  bool check_waits = true, check_races = true, check_bounds = true, check_uninitialised = true;
  bool check_registers = true; // vector registers beyond what the descriptor allocates
  Order order = Order::round_robin;
  u64 seed = 1;
  bool complete_at_wait = false; // results land when a wait retires them, else at issue
  u64 limit = u64{1} << 40;      // instructions a workgroup may run
  u32 threads = 0;               // 0: one a CPU core
  bool plain = false;            // do not use AVX2
  bool preload = true;           // fill preloaded kernel arguments
  bool count = true;             // counters
  bool cycles = false;           // trace one workgroup and model its cycles
  bool print_reports = true;     // reports also go to stderr
  std::string waive_races;       // kernels whose name contains this are not race checked
};

// Current values: the environment at first use, changed by set_knob.
Knobs knobs();
// Returns false for an unknown name or value. Names are those of the environment variables without
// their prefix, in lower case.
bool set_knob(const std::string& name, const std::string& value);

} // namespace emu
