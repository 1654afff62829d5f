// What a launch did: counted by the workgroups, summed over them.
#pragma once

#include <string>

#include "isa/instruction.h"

namespace emu {

struct TraceEntry {
  u32 index;      // of the instruction in the program
  u16 lds_clocks; // transfer time in the LDS, from the addresses it really used
};

struct Counters {
  u64 instructions[kNumClasses] = {};
  u64 barriers = 0, waits = 0;
  u64 mfma_passes = 0;
  u64 lds_clocks = 0, lds_conflict_clocks = 0, lds_bytes = 0;
  u64 global_read_bytes = 0, global_write_bytes = 0, global_to_lds_bytes = 0, atomic_bytes = 0;
  u64 scratch_bytes = 0;
  u64 flops = 0;
  u64 workgroups = 0, waves = 0;

  void add(const Counters& other);
  u64 total() const;
};

extern const char* const kClassNames[kNumClasses];

struct Wave;
// Clocks the LDS needs for one instruction whose lane addresses are known, by its bank rule.
u32 lds_transfer_clocks(const Instruction& instruction, const u64* address, u64 exec,
                        u32* conflict_free);

} // namespace emu
