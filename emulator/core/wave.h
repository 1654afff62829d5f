// State of one wave of 64 lanes, and the operations it has issued but not completed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/types.h"
#include "isa/instruction.h"

namespace emu {

struct Allocation;
struct Workgroup;
class Checker;

struct Mode {
  bool flush_f32 = false;
  bool dx10_clamp = true, ieee = true;
};

// A memory operation between issue and completion. Addresses and store data are captured at issue.
struct PendingOp {
  const Instruction* instruction = nullptr;
  u64 exec = 0;
  u32 epoch = 0;
  bool completed = false;
  u64 address[kLanes];
  u64 in_range[4]; // a lane bit per dword: inside the buffer descriptor's range
  u32 lds_address = 0;
  u32 data[4][kLanes];
  u64 valid[16]; // of each loaded dword: the lanes whose memory was ever written
};

enum class Queue : u8 { vector, lgkm };

struct Wave {
  alignas(64) u32 v[512][kLanes]; // v0..v255, a0..a255
  u32 s[128] = {};
  bool scc = false;
  u32 pc = 0; // index of the next instruction
  u32 id = 0; // in the workgroup
  u32 epoch = 0;
  bool ended = false, at_barrier = false;
  Mode mode;
  Workgroup* group = nullptr;
  Checker* checker = nullptr; // null when nothing is checked
  std::vector<std::unique_ptr<PendingOp>> vector_queue, lgkm_queue, free_ops;
  std::vector<u8> scratch;       // [lane][bytes]
  std::vector<u8> scratch_valid; // [lane][dwords]
  const Allocation* last_allocation = nullptr;

  u64 exec() const { return s[kExec] | u64(s[kExec + 1]) << 32; }
  u64 vcc() const { return s[kVcc] | u64(s[kVcc + 1]) << 32; }
  u64 pair(u16 reg) const { return s[reg] | u64(s[reg + 1]) << 32; }
  void set_pair(u16 reg, u64 value) {
    s[reg] = static_cast<u32>(value);
    s[reg + 1] = static_cast<u32>(value >> 32);
  }
  u32* lanes(u16 reg) { return v[reg - kVgpr]; }
  const u32* lanes(u16 reg) const { return v[reg - kVgpr]; }
};

// Ends the launch with a report. Thrown inside the emulator only, never across a HIP entry point.
struct Fault {
  enum Kind {
    unknown_instruction,
    unsupported,
    bounds,
    wait,
    race,
    uninitialised,
    limit,
    invalid_launch
  };
  Kind kind;
  std::string text;
};

[[noreturn]] void fault(const Wave& wave, const Instruction& instruction, Fault::Kind kind,
                        const std::string& what);

// Value of a scalar operand code.
u32 read_scalar(const Wave& wave, u16 code, u64 constant);
u64 read_scalar64(const Wave& wave, u16 code, u64 constant);

} // namespace emu
