// Shadow state of one workgroup: which registers wait for a load, which data was ever written, who
// touched which LDS dword since the last barrier. Violations throw Fault.
#pragma once

#include <memory>
#include <vector>

#include "core/wave.h"

namespace emu {

class Checker {
public:
  explicit Checker(Workgroup& group);

  // Before an instruction runs: its operands may be read; which of its results are defined.
  void before(Wave& wave, const Instruction& i);

  void issued(Wave& wave, PendingOp& op, Queue queue);
  void completed(Wave& wave, PendingOp& op);
  void retired(Wave& wave, PendingOp& op, Queue queue);

  // Marks the initial registers of a wave as defined.
  void define(const Wave& wave, u16 reg, int count);
  bool scratch_valid(const Wave& wave, int lane, u64 address) const;

private:
  struct Pending {
    const Instruction* by = nullptr;
    u16 count = 0;
    Queue queue = Queue::vector;
  };
  struct WaveShadow {
    Pending pending[kNumRegisters];
    u64 valid[kNumRegisters] = {};                 // lanes; bits of the value for scalars
    const Instruction* origin[kNumRegisters] = {}; // where undefined data came from
    u32 num_pending = 0;
    std::vector<u8> scratch_valid;
  };
  // One dword of LDS, or one byte where the kernel has LDS accesses below a dword.
  struct LdsShadow {
    const Instruction* writer_at = nullptr;
    const Instruction* reader_at = nullptr;
    u32 write_epoch = ~0u, read_epoch = ~0u;
    u32 writers = 0, readers = 0; // wave bits in write_epoch and read_epoch
    u32 in_flight = 0;            // waves with a transfer to here that is not retired
    u64 value = 0;                // last stored, where known
    bool value_known = false, written = false, defined = false;
  };
  // What an access writes to a dword or byte: several waves may store the same value. For a
  // transfer from global memory the value is the address it comes from, with the top bit set.
  struct Stored {
    u64 value;
    bool known;
  };

  WaveShadow& shadow(const Wave& wave) { return *shadows_[wave.id]; }
  void check_pending(Wave& wave, const Instruction& i);
  void check_sinks(Wave& wave, const Instruction& i);
  void require(Wave& wave, const Instruction& i, u16 reg, int count, u64 lanes, const char* use);
  void access_lds(Wave& wave, const PendingOp& op, u64 address, u32 bytes, bool write, int lane,
                  int element);
  void check_race(Wave& wave, const PendingOp& op, const LdsShadow& s, u64 address, bool write,
                  int lane, Stored stored);
  Stored stored_value(const PendingOp& op, int lane, int element, u64 offset) const;
  void set_in_flight(const PendingOp& op, u64 address, u32 bytes, u32 waves, bool on);
  template <class Visit> void visit_lds(const PendingOp& op, Visit visit);
  void issued_lds(Wave& wave, PendingOp& op);
  void retired_lds(Wave& wave, PendingOp& op);
  void race(Wave& wave, const PendingOp& op, int lane, u64 address, const char* kind, u32 other,
            const Instruction* other_at);
  void propagate(Wave& wave, const Instruction& i);
  void propagate_lds(Wave& wave, PendingOp& op);
  void propagate_vector(Wave& wave, const Instruction& i);
  void propagate_scalar(Wave& wave, const Instruction& i);
  void propagate_matrix(Wave& wave, const Instruction& i);
  u64 source_valid(Wave& wave, const Instruction& i, int k, const Instruction** origin);
  void set_valid(Wave& wave, u16 reg, u64 valid, u64 lanes, const Instruction* origin,
                 const Instruction* here);

  Workgroup& group_;
  bool waits_, races_, uninitialised_;
  std::vector<std::unique_ptr<WaveShadow>> shadows_;
  u32 unit_ = 4; // bytes of LDS a shadow entry stands for
  std::vector<LdsShadow> lds_;
};

} // namespace emu
