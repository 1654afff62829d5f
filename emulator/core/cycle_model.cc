#include "core/cycle_model.h"

#include <algorithm>

namespace emu {

const char* const kStallNames[kNumStalls] = {"vector_port", "matrix_pipe", "packed_behind_matrix",
                                             "operand",     "lds_full",    "memory_full",
                                             "vmcnt",       "lgkmcnt",     "barrier"};

namespace {

constexpr u32 kSlot = 4;            // clocks from one turn of a SIMD to the next
constexpr u32 kTransferBytes = 128; // from memory into the LDS in a clock

// What the model knows of an instruction before it runs.
struct Cost {
  Class kind = Class::valu;
  u32 issue = 4;            // clocks on the vector port
  u32 passes = 0, hold = 0; // matrix: slots of the pipe, slots of the port
  u32 packed_after = 0;     // slots until a packed operation may follow
  u32 bytes = 0;            // of all lanes
  u32 wait_vector = 63, wait_lgkm = 15;
  u32 pause = 4; // until the wave may issue again
  int priority = -1;
  bool is_load = false, is_wait = false, is_barrier = false, transfer = false,
       scalar_result = false;
};

Cost cost_of(const Instruction& i, const ModelParameters& p) {
  Cost c;
  c.kind = i.row->kind;
  switch (c.kind) {
  case Class::transcendental:
    c.issue = 8;
    break;
  case Class::valu:
    if (i.row->flags & kSlow)
      c.issue = 16;
    if (std::string_view(i.row->name).ends_with("_swap_b32"))
      c.issue = 8;
    c.scalar_result = i.scalar_dest != kNoRegister || (i.dest < 128);
    break;
  case Class::mfma: {
    u32 wide = i.row->source_width[0] * 4u; // bytes of A and B a lane
    c.passes = i.row->mfma.passes;
    c.hold = 1 + wide / 16;
    c.packed_after = c.passes + 2 + (wide == 16);
    break;
  }
  case Class::lds:
  case Class::vmem: {
    const MemoryRow& row = i.row->memory;
    c.bytes = kLanes * row.bytes * (row.stride ? 2 : 1);
    c.is_load = i.dest != kNoRegister;
    c.transfer = i.lds;
    break;
  }
  case Class::branch:
    c.pause = p.branch;
    break;
  case Class::internal:
    if (i.row->opcode == 0)
      c.pause = kSlot * (i.immediate + 1u);
    c.is_barrier = i.row->opcode == 10;
    if (i.row->opcode == 15)
      c.priority = i.immediate & 3;
    if (i.row->opcode == 12) {
      c.is_wait = true;
      c.wait_vector = (i.immediate & 15u) | (i.immediate >> 10 & 48u);
      c.wait_lgkm = i.immediate >> 8 & 15u;
    }
    break;
  default:
    break;
  }
  return c;
}

struct WaveTime {
  const std::vector<TraceEntry>* trace = nullptr;
  size_t at = 0;
  u64 next = 0;
  u32 group = 0, age = 0;
  int priority = 0;
  bool waiting = false;
  std::vector<u64> vector_done, lgkm_done;
  std::vector<u64> reader, matrix_input, matrix_addend; // ready times by register

  bool ended() const { return at >= trace->size(); }
};

struct Simd {
  u64 port = 0, pipe = 0, packed_allowed = 0;
  std::vector<u32> waves;
};

class Model {
public:
  Model(const Program& program, const std::vector<std::vector<TraceEntry>>& trace, u32 copies,
        const ModelParameters& p, u64 seed)
      : program_(program), p_(p) {
    for (const Instruction& i : program.code)
      costs_.push_back(cost_of(i, p));
    u64 state = seed * 0x9e3779b97f4a7c15ull + 1;
    for (u32 copy = 0; copy < copies; ++copy)
      for (size_t w = 0; w < trace.size(); ++w) {
        WaveTime wave;
        wave.trace = &trace[w];
        wave.group = copy;
        wave.age = static_cast<u32>(waves_.size());
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        wave.next = p.skew ? (state >> 33) % p.skew / kSlot * kSlot : 0;
        wave.reader.assign(kNumRegisters, 0);
        wave.matrix_input.assign(kNumRegisters, 0);
        wave.matrix_addend.assign(kNumRegisters, 0);
        for (const TraceEntry& e : trace[w])
          total_passes_ += costs_[e.index].passes;
        simds_[wave.age % kSimds].waves.push_back(wave.age);
        waves_.push_back(std::move(wave));
      }
    left_ = waves_.size();
  }

  ModelResult run() {
    for (WaveTime& wave : waves_)
      if (wave.ended())
        --left_;
    while (left_ && t_ < (u64{1} << 36)) {
      for (u32 s = 0; s < kSimds; ++s)
        issue_turn(simds_[s], s / 2);
      t_ += kSlot;
    }
    done_.clocks = t_;
    return {done_, total_passes_ ? between(steady_start_, steady_end_) : done_};
  }

private:
  void issue_turn(Simd& simd, u32 pair) {
    u32 used = 0;
    auto& order = simd.waves;
    if (p_.round_robin && !order.empty())
      std::rotate(order.begin(), order.begin() + 1, order.end());
    std::stable_sort(order.begin(), order.end(), [&](u32 a, u32 b) {
      if (waves_[a].priority != waves_[b].priority)
        return waves_[a].priority > waves_[b].priority;
      return !p_.round_robin && a < b;
    });
    for (u32 w : order) {
      WaveTime& wave = waves_[w];
      if (wave.ended())
        continue;
      if (wave.waiting) {
        done_.stalled[kStallBarrier] += kSlot;
        continue;
      }
      if (wave.next > t_)
        continue;
      const TraceEntry& entry = (*wave.trace)[wave.at];
      const Instruction& i = program_.code[entry.index];
      const Cost& c = costs_[entry.index];
      u32 unit = unit_of(c.kind);
      if (used >> unit & 1) {
        done_.stalled[kStallPort] += kSlot;
        continue;
      }
      Stall reason = kStallOperand;
      if (earliest(wave, simd, pair, i, c, &reason) > t_) {
        done_.stalled[reason] += kSlot;
        continue;
      }
      used |= 1u << unit;
      start(wave, simd, pair, i, c, entry.lds_clocks);
    }
  }

  // Vector, scalar, scalar memory, LDS, vector memory, branch, internal.
  static u32 unit_of(Class kind) {
    switch (kind) {
    case Class::valu:
    case Class::packed:
    case Class::transcendental:
    case Class::mfma:
      return 0;
    default:
      return static_cast<u32>(kind);
    }
  }

  static void later(u64* r, Stall* reason, u64 time, Stall why) {
    if (time > *r) {
      *r = time;
      *reason = why;
    }
  }

  // When a unit that is free at `end` takes a further access: it holds a backlog of `queue` clocks.
  static u64 queue_from(u64 end, u64 queue) { return end > queue ? end - queue : 0; }

  u64 operands_ready(const WaveTime& wave, const Instruction& i) const {
    u64 r = 0;
    for (int k = 0; k < i.num_operands; ++k)
      for (u32 reg = i.operands[k].reg; reg < u32{i.operands[k].reg} + i.operands[k].count; ++reg)
        r = std::max(r, wave.reader[reg]);
    return r;
  }

  static u64 range(const std::vector<u64>& times, u16 reg, u32 count) {
    u64 r = 0;
    if (is_vector(reg))
      for (u32 k = 0; k < count; ++k)
        r = std::max(r, times[reg + k]);
    return r;
  }

  u64 earliest(WaveTime& wave, const Simd& simd, u32 pair, const Instruction& i, const Cost& c,
               Stall* reason) const {
    u64 r = 0;
    u64 port_from = simd.port < t_ + kSlot ? t_ : simd.port; // part of a slot may be left over
    switch (c.kind) {
    case Class::mfma:
      later(&r, reason, port_from, kStallPort);
      later(&r, reason, simd.pipe, kStallMatrix);
      later(&r, reason, range(wave.matrix_input, i.source[0], i.row->source_width[0]),
            kStallOperand);
      later(&r, reason, range(wave.matrix_input, i.source[1], i.row->source_width[1]),
            kStallOperand);
      later(&r, reason, range(wave.matrix_addend, i.source[2], i.row->dest_width), kStallOperand);
      later(&r, reason, range(wave.matrix_addend, i.dest, i.row->dest_width), kStallOperand);
      break;
    case Class::packed:
      later(&r, reason, simd.packed_allowed, kStallPacked);
      [[fallthrough]];
    case Class::valu:
    case Class::transcendental:
      later(&r, reason, port_from, kStallPort);
      later(&r, reason, operands_ready(wave, i), kStallOperand);
      break;
    case Class::lds:
      later(&r, reason, operands_ready(wave, i), kStallOperand);
      later(&r, reason,
            queue_from(std::max({lds_free_, in_port_[pair], out_port_[pair]}), p_.lds_queue),
            kStallLds);
      break;
    case Class::vmem:
      later(&r, reason, operands_ready(wave, i), kStallOperand);
      later(&r, reason, queue_from(memory_free_, p_.memory_queue), kStallMemory);
      break;
    case Class::internal:
      if (c.is_wait) {
        later(&r, reason, all_but(wave.vector_done, c.wait_vector == 63 ? ~0u : c.wait_vector),
              kStallVmcnt);
        later(&r, reason, all_but(wave.lgkm_done, c.wait_lgkm == 15 ? ~0u : c.wait_lgkm),
              kStallLgkmcnt);
      }
      break;
    default:
      later(&r, reason, operands_ready(wave, i), kStallOperand);
    }
    return r;
  }

  static u64 all_but(const std::vector<u64>& done, u32 youngest) {
    u64 r = 0;
    for (size_t k = 0; k + youngest < done.size(); ++k)
      r = std::max(r, done[k]);
    return r;
  }

  void start(WaveTime& wave, Simd& simd, u32 pair, const Instruction& i, const Cost& c,
             u32 lds_clocks) {
    wave.next = t_ + c.pause;
    ++wave.at;
    switch (c.kind) {
    case Class::mfma: {
      simd.pipe = t_ + kSlot * c.passes;
      simd.port = t_ + kSlot * c.hold;
      done_.port += kSlot * c.hold;
      simd.packed_allowed = t_ + kSlot * c.packed_after;
      for (u32 k = 0; k < i.row->dest_width; ++k) {
        wave.reader[i.dest + k] = wave.matrix_input[i.dest + k] = t_ + kSlot * (c.passes + 4);
        wave.matrix_addend[i.dest + k] = t_ + kSlot * (c.passes + p_.chain_slots);
      }
      count_matrix(c.passes);
      break;
    }
    case Class::valu:
    case Class::packed:
    case Class::transcendental: {
      simd.port = std::max(t_, simd.port) + c.issue;
      done_.port += c.issue;
      u64 ready = t_ + c.issue + (c.kind == Class::transcendental || c.scalar_result ? kSlot : 0);
      write_results(wave, i, ready, t_ + c.issue + 8);
      break;
    }
    case Class::lds: {
      lds_free_ = std::max(t_ + kSlot, lds_free_) + lds_clocks;
      done_.lds += lds_clocks;
      u64 data = c.bytes / p_.lds_pair_bytes;
      in_port_[pair] = std::max(t_ + kSlot, in_port_[pair]) + 4 + (c.is_load ? 0 : data);
      u64 done = std::max(lds_free_, in_port_[pair]);
      if (c.is_load) {
        out_port_[pair] = std::max(t_ + kSlot, out_port_[pair]) + data;
        done = std::max(done, out_port_[pair]);
      }
      wave.lgkm_done.push_back(done + p_.lds_latency);
      break;
    }
    case Class::vmem:
      memory_free_ = std::max(t_ + kSlot, memory_free_) + c.bytes / p_.memory_bytes;
      done_.memory += c.bytes / p_.memory_bytes;
      wave.vector_done.push_back(memory_free_ + p_.memory_latency);
      if (c.transfer) {
        lds_free_ = std::max(t_, lds_free_) + c.bytes / kTransferBytes;
        done_.lds += c.bytes / kTransferBytes;
      }
      break;
    case Class::smem:
      wave.lgkm_done.push_back(t_ + p_.scalar_latency);
      break;
    case Class::salu:
      write_results(wave, i, t_ + kSlot, t_ + kSlot);
      break;
    default:
      if (c.is_wait)
        forget(wave, c);
      if (c.priority >= 0)
        wave.priority = c.priority;
      if (c.is_barrier)
        arrive(wave);
    }
    if (wave.ended()) {
      --left_;
      release(wave.group);
    }
  }

  static void write_results(WaveTime& wave, const Instruction& i, u64 ready, u64 matrix_ready) {
    for (int k = 0; k < i.num_operands; ++k)
      if (i.operands[k].write)
        for (u32 reg = i.operands[k].reg; reg < u32{i.operands[k].reg} + i.operands[k].count;
             ++reg) {
          wave.reader[reg] = ready;
          wave.matrix_input[reg] = wave.matrix_addend[reg] = matrix_ready;
        }
  }

  static void forget(WaveTime& wave, const Cost& c) {
    auto keep = [](std::vector<u64>& done, u32 youngest) {
      if (done.size() > youngest)
        done.erase(done.begin(), done.end() - static_cast<std::ptrdiff_t>(youngest));
    };
    if (c.wait_vector != 63)
      keep(wave.vector_done, c.wait_vector);
    if (c.wait_lgkm != 15)
      keep(wave.lgkm_done, c.wait_lgkm);
  }

  void arrive(WaveTime& wave) {
    wave.waiting = true;
    release(wave.group);
  }

  void release(u32 group) {
    bool any = false;
    for (const WaveTime& w : waves_)
      if (w.group == group && !w.ended()) {
        if (!w.waiting)
          return;
        any = true;
      }
    for (WaveTime& w : waves_)
      if (any && w.group == group && w.waiting) {
        w.waiting = false;
        w.next = t_ + p_.barrier;
      }
  }

  void count_matrix(u32 passes) {
    u64 before = 10 * done_.passes;
    done_.passes += passes;
    done_.clocks = t_;
    auto passed = [&](u64 tenths) {
      return before < total_passes_ * tenths && 10 * done_.passes >= total_passes_ * tenths;
    };
    if (passed(3))
      steady_start_ = done_;
    if (passed(8))
      steady_end_ = done_;
  }

  static Activity between(const Activity& start, Activity end) {
    end.clocks -= start.clocks;
    end.passes -= start.passes;
    end.port -= start.port;
    end.lds -= start.lds;
    end.memory -= start.memory;
    for (int k = 0; k < kNumStalls; ++k)
      end.stalled[k] -= start.stalled[k];
    return end;
  }

  const Program& program_;
  ModelParameters p_;
  std::vector<Cost> costs_;
  std::vector<WaveTime> waves_;
  Simd simds_[kSimds];
  size_t left_ = 0;
  u64 t_ = 0;
  u64 lds_free_ = 0, memory_free_ = 0;
  u64 in_port_[2] = {}, out_port_[2] = {};
  u64 total_passes_ = 0;
  Activity done_, steady_start_, steady_end_;
};

} // namespace

ModelParameters draw_parameters(u64 seed) {
  ModelParameters p;
  if (seed == 0) // the middle of every range
    return p;
  u64 state = seed * 0x9e3779b97f4a7c15ull;
  auto between = [&](u32 low, u32 high) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return low + static_cast<u32>((state >> 33) % (high - low + 1));
  };
  p.lds_latency = between(40, 80);
  p.barrier = between(8, 32);
  p.lds_queue = between(16, 64);
  p.branch = between(4, 24);
  p.memory_latency = between(400, 900);
  p.round_robin = between(0, 1);
  p.chain_slots = between(0, 1);
  p.skew = 116;
  return p;
}

ModelResult model_workgroup(const Program& program,
                            const std::vector<std::vector<TraceEntry>>& trace, u32 copies,
                            const ModelParameters& parameters, u64 seed) {
  return Model(program, trace, copies, parameters, seed).run();
}

} // namespace emu
