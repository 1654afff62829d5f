// Sets up the waves of a workgroup and runs them in the chosen order.
#include <algorithm>
#include <cstring>

#include "core/checker.h"
#include "core/workgroup.h"
#include "isa/disassemble.h"

namespace emu {
namespace {

// Undefined registers hold this signalling-free NaN pattern, so that leaks show in results too.
constexpr u32 kPoison = 0x7fedbeef;

struct ScalarSetup {
  Wave& wave;
  Checker* checker;
  u16 next = 0;
  void push(u32 value) {
    if (next >= 102)
      return;
    wave.s[next] = value;
    if (checker)
      checker->define(wave, next, 1);
    ++next;
  }
  void push64(u64 value) {
    push(static_cast<u32>(value));
    push(static_cast<u32>(value >> 32));
  }
};

void set_scalars(Wave& wave, Checker* checker, const Launch& launch) {
  const Kernel& kernel = *launch.kernel;
  ScalarSetup s{wave, checker};
  u32 p = kernel.properties;
  if (p & 1) // private segment buffer: scratch instructions use their own arena
    for (int k = 0; k < 4; ++k)
      s.push(0);
  if (p & 2)
    s.push64(launch.dispatch_address);
  if (p & 4)
    s.push64(0);
  if (p & 8)
    s.push64(launch.kernarg_address);
  if (p & 16)
    s.push64(0);
  if (p & 32)
    s.push64(0);
  if (p & 64)
    s.push(kernel.scratch_bytes);
  u32 first = kernel.preload >> 7, count = launch.knobs.preload ? kernel.preload_dwords() : 0;
  const u32* arguments = reinterpret_cast<const u32*>(launch.kernarg_address);
  for (u32 k = 0; k < count && 4 * (first + k) < kernel.kernarg_bytes; ++k)
    s.push(arguments[first + k]);
  u32 user = kernel.rsrc2 >> 1 & 31;
  s.next = static_cast<u16>(user);
  for (int d = 0; d < 3; ++d)
    if (kernel.rsrc2 >> (7 + d) & 1)
      s.push(wave.group->id[d]);
  if (kernel.rsrc2 >> 10 & 1)
    s.push(static_cast<u32>(wave.group->waves.size()));
}

void set_vectors(Wave& wave, const Launch& launch) {
  const u32* block = launch.shape.block;
  u32 dimensions = launch.kernel->rsrc2 >> 11 & 3, total = block[0] * block[1] * block[2];
  u64 exec = 0;
  for (u32 lane = 0; lane < kLanes; ++lane) {
    u32 item = wave.id * kLanes + lane;
    u32 x = item % block[0], y = item / block[0] % block[1], z = item / (block[0] * block[1]);
    wave.v[0][lane] = x | (dimensions > 0 ? y << 10 : 0) | (dimensions > 1 ? z << 20 : 0);
    if (item < total)
      exec |= u64{1} << lane;
  }
  wave.set_pair(kExec, exec);
}

} // namespace

void prepare_workgroup(Workgroup& group, Launch& launch, const u32 id[3]) {
  const Kernel& kernel = *launch.kernel;
  group.launch = &launch;
  std::copy(id, id + 3, group.id);
  group.lds.resize(launch.lds_bytes);
  for (u64 k = 0; k + 4 <= group.lds.size(); k += 4)
    std::memcpy(group.lds.data() + k, &kPoison, 4);
  u32 items = launch.shape.block[0] * launch.shape.block[1] * launch.shape.block[2];
  u32 count = (items + kLanes - 1) / kLanes;
  group.waves.resize(count);
  for (u32 w = 0; w < count; ++w) {
    if (!group.waves[w])
      group.waves[w] = std::make_unique<Wave>();
    Wave& wave = *group.waves[w];
    std::fill(&wave.v[0][0], &wave.v[0][0] + 512 * kLanes, kPoison);
    std::fill(wave.s, wave.s + 128, kPoison);
    wave.id = w;
    wave.group = &group;
    wave.epoch = 0;
    wave.ended = wave.at_barrier = wave.scc = false;
    wave.last_allocation = nullptr;
    wave.mode.flush_f32 = (kernel.rsrc1 >> 16 & 3) == 0;
    wave.mode.dx10_clamp = kernel.rsrc1 >> 21 & 1;
    wave.mode.ieee = kernel.rsrc1 >> 23 & 1;
    wave.scratch.assign(u64{kernel.scratch_bytes} * kLanes, 0xed);
    bool preloaded = kernel.preload_dwords() && launch.knobs.preload;
    wave.pc = preloaded ? kernel.preload_entry_index : kernel.entry_index;
  }
  group.counters.workgroups += 1;
  group.counters.waves += count;
  group.trace.clear();
}

namespace {

struct Runner {
  Workgroup& group;
  const Instruction* code;
  bool count;
  u64 left; // instructions until the limit

  void step(Wave& wave) {
    const Instruction& i = code[wave.pc++];
    if (left-- == 0)
      fault(wave, i, Fault::limit, "the workgroup ran more instructions than allowed");
    if (i.beyond_limit && group.launch->knobs.check_registers)
      fault(wave, i, Fault::bounds,
            "the kernel's descriptor does not allocate " + register_name(i.beyond_limit));
    if (wave.checker)
      wave.checker->before(wave, i);
    if (count) {
      Counters& c = group.counters;
      ++c.instructions[static_cast<int>(i.row->kind)];
      if (i.row->kind == Class::mfma) {
        c.mfma_passes += i.row->mfma.passes;
        c.flops += 2ull * i.row->mfma.rows * i.row->mfma.rows * i.row->mfma.depth;
      }
      if (!group.trace.empty())
        group.trace[wave.id].push_back({i.index, 0});
    }
    i.row->run(wave, i);
  }

  bool runnable(const Wave& wave) const { return !wave.ended && !wave.at_barrier; }

  // Lets the waves pass when all that have not ended arrived. False when nothing can go on.
  bool release_barrier() {
    bool any = false;
    for (auto& wave : group.waves) {
      if (runnable(*wave))
        return true;
      any = any || wave->at_barrier;
    }
    for (auto& wave : group.waves)
      if (wave->at_barrier) {
        wave->at_barrier = false;
        ++wave->epoch;
      }
    return any;
  }

  void run_to_barrier(Wave& wave) {
    while (runnable(wave)) {
      step(wave);
      if (group.launch->stop.load(std::memory_order_relaxed))
        return;
    }
  }

  void epoch_in_order(bool reverse) {
    size_t n = group.waves.size();
    for (size_t k = 0; k < n; ++k)
      run_to_barrier(*group.waves[reverse ? n - 1 - k : k]);
  }

  void epoch_round_robin() {
    for (bool any = true; any;) {
      any = false;
      for (auto& wave : group.waves)
        if (runnable(*wave)) {
          step(*wave);
          any = true;
        }
      if (group.launch->stop.load(std::memory_order_relaxed))
        return;
    }
  }

  void epoch_random(u64& state) {
    std::vector<Wave*> live;
    for (auto& wave : group.waves)
      if (runnable(*wave))
        live.push_back(wave.get());
    while (!live.empty() && !group.launch->stop.load(std::memory_order_relaxed)) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      size_t pick = (state >> 33) % live.size();
      u32 burst = 1 + (state >> 58); // up to 64 instructions in a row
      while (burst-- && runnable(*live[pick]))
        step(*live[pick]);
      if (!runnable(*live[pick]))
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(pick));
    }
  }
};

} // namespace

void run_workgroup(Workgroup& group) {
  const Launch& launch = *group.launch;
  std::unique_ptr<Checker> checker;
  if (launch.check_waits || launch.check_races || launch.check_uninitialised)
    checker = std::make_unique<Checker>(group);
  for (auto& wave : group.waves) {
    wave->checker = checker.get();
    set_scalars(*wave, checker.get(), launch);
    set_vectors(*wave, launch);
    if (checker) {
      checker->define(*wave, kVgpr, 1);
      checker->define(*wave, kExec, 2);
    }
  }
  Runner runner{group, launch.kernel->program.code.data(), launch.knobs.count, launch.knobs.limit};
  u64 state = launch.knobs.seed * 0x9e3779b97f4a7c15ull + group.id[0] * 31 + group.id[1];
  do {
    switch (launch.knobs.order) {
    case Order::round_robin:
      runner.epoch_round_robin();
      break;
    case Order::to_barrier:
    case Order::reverse:
      runner.epoch_in_order(launch.knobs.order == Order::reverse);
      break;
    case Order::random:
      runner.epoch_random(state);
      break;
    }
  } while (!launch.stop.load(std::memory_order_relaxed) && runner.release_barrier());
  for (auto& wave : group.waves) {
    wave->vector_queue.clear();
    wave->lgkm_queue.clear();
    wave->checker = nullptr;
  }
}

} // namespace emu
