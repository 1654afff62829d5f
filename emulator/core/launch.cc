#include "core/launch.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

namespace emu {
namespace {

std::mutex record_mutex;

LaunchRecord& record() {
  static LaunchRecord value;
  return value;
}

constexpr u64 kPacketBytes = 64;

template <class T> void put(u8* block, u64 offset, u64 limit, T value) {
  if (offset + sizeof value <= limit)
    std::memcpy(block + offset, &value, sizeof value);
}

void write_packet(u8* packet, const Kernel& kernel, const LaunchShape& shape, u32 lds_bytes,
                  u64 kernarg) {
  std::memset(packet, 0, kPacketBytes);
  put<u16>(packet, 0, kPacketBytes, 2); // kernel dispatch
  put<u16>(packet, 2, kPacketBytes, 3); // dimensions
  for (int d = 0; d < 3; ++d) {
    put<u16>(packet, 4 + 2 * d, kPacketBytes, static_cast<u16>(shape.block[d]));
    put<u32>(packet, 12 + 4 * d, kPacketBytes, shape.grid[d] * shape.block[d]);
  }
  put<u32>(packet, 24, kPacketBytes, kernel.scratch_bytes);
  put<u32>(packet, 28, kPacketBytes, lds_bytes);
  put<u64>(packet, 32, kPacketBytes, kernel.image_base + kernel.descriptor);
  put<u64>(packet, 40, kPacketBytes, kernarg);
}

void write_hidden(u8* block, u64 bytes, const Kernel& kernel, const LaunchShape& shape) {
  for (const KernelArgument& a : kernel.arguments)
    for (int d = 0; d < 3; ++d) {
      std::string axis(1, static_cast<char>('x' + d));
      if (a.kind == "hidden_block_count_" + axis)
        put<u32>(block, a.offset, bytes, shape.grid[d]);
      else if (a.kind == "hidden_group_size_" + axis)
        put<u16>(block, a.offset, bytes, static_cast<u16>(shape.block[d]));
      else if (a.kind == "hidden_remainder_" + axis)
        put<u16>(block, a.offset, bytes, 0);
      else if (a.kind == "hidden_grid_dims" && d == 0)
        put<u16>(block, a.offset, bytes, 3);
      else if (a.kind == "hidden_dynamic_lds_size" && d == 0)
        put<u32>(block, a.offset, bytes, shape.dynamic_lds_bytes);
    }
}

struct Runs {
  std::mutex mutex;
  std::atomic<u64> next{0};
  u64 failed_group = ~u64{0};
  Fault fault{};
  Counters counters;
  std::vector<std::vector<TraceEntry>> trace;
  u64 trace_length = 0;
};

void run_groups(Launch& launch, Runs& runs, u64 total) {
  Workgroup group;
  const u32* grid = launch.shape.grid;
  for (u64 linear; (linear = runs.next.fetch_add(1)) < total && !launch.stop.load();) {
    u32 id[3] = {static_cast<u32>(linear % grid[0]), static_cast<u32>(linear / grid[0] % grid[1]),
                 static_cast<u32>(linear / grid[0] / grid[1])};
    try {
      prepare_workgroup(group, launch, id);
      if (launch.knobs.cycles)
        group.trace.resize(group.waves.size());
      run_workgroup(group);
    } catch (const Fault& fault) {
      std::lock_guard lock(runs.mutex);
      if (linear < runs.failed_group) {
        runs.failed_group = linear;
        runs.fault = fault;
      }
      launch.stop = true;
      return;
    } catch (const std::exception& error) {
      std::lock_guard lock(runs.mutex);
      runs.failed_group = 0;
      runs.fault = Fault{Fault::limit, error.what()};
      launch.stop = true;
      return;
    }
    u64 length = 0;
    for (const auto& wave : group.trace)
      length += wave.size();
    if (length) { // keep the longest workgroup
      std::lock_guard lock(runs.mutex);
      if (length > runs.trace_length) {
        runs.trace_length = length;
        runs.trace.swap(group.trace);
      }
    }
  }
  std::lock_guard lock(runs.mutex);
  runs.counters.add(group.counters);
}

std::string check_shape(const Kernel& kernel, const LaunchShape& shape, u64 lds_bytes) {
  u64 items = u64{shape.block[0]} * shape.block[1] * shape.block[2];
  if (items == 0 || items > 1024 || items > kernel.max_block)
    return "block of " + std::to_string(items) + " work items; at most " +
           std::to_string(std::min(kernel.max_block, 1024u)) + " are possible";
  for (int d = 0; d < 3; ++d) {
    if (shape.grid[d] == 0)
      return "an empty grid";
    if (kernel.required_block[0] && kernel.required_block[d] != shape.block[d])
      return "block size " + std::to_string(shape.block[d]) + " in dimension " + std::to_string(d) +
             "; the kernel requires " + std::to_string(kernel.required_block[d]);
  }
  if (lds_bytes > kMaxLdsBytes)
    return std::to_string(lds_bytes) + " bytes of LDS; a workgroup has at most " +
           std::to_string(kMaxLdsBytes);
  return "";
}

} // namespace

LaunchResult run_launch(const Kernel& kernel, const LaunchShape& shape,
                        const std::vector<u8>& arguments) {
  LaunchResult result;
  u64 lds_bytes = u64{kernel.lds_bytes} + shape.dynamic_lds_bytes;
  std::string problem = check_shape(kernel, shape, lds_bytes);
  if (!problem.empty()) {
    result = {false, Fault::invalid_launch, "kernel '" + kernel.name + "': " + problem};
    set_last_report(result.report);
    return result;
  }
  Launch launch;
  launch.kernel = &kernel;
  launch.shape = shape;
  launch.knobs = knobs();
  launch.lds_bytes = static_cast<u32>(lds_bytes);
  launch.check_waits = launch.knobs.check_waits;
  launch.check_bounds = launch.knobs.check_bounds;
  launch.check_uninitialised = launch.knobs.check_uninitialised;
  const std::string& waived = launch.knobs.waive_races;
  launch.check_races =
      launch.knobs.check_races && (waived.empty() || kernel.name.find(waived) == std::string::npos);
  u64 kernarg_bytes = std::max<u64>({kernel.kernarg_bytes, arguments.size(), 16});
  auto* block = static_cast<u8*>(device_memory().allocate(256 + kernarg_bytes, false));
  if (!block)
    return {false, Fault::limit, "out of memory"};
  std::memset(block, 0, 256 + kernarg_bytes);
  u8* kernarg = block + 256;
  std::copy(arguments.begin(), arguments.end(), kernarg);
  write_hidden(kernarg, kernarg_bytes, kernel, shape);
  launch.kernarg_address = reinterpret_cast<u64>(kernarg);
  launch.dispatch_address = reinterpret_cast<u64>(block);
  write_packet(block, kernel, shape, launch.lds_bytes, launch.kernarg_address);
  launch.memory = device_memory().snapshot();

  u64 total = u64{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  u64 cores = launch.knobs.threads ? launch.knobs.threads
                                   : std::max(1u, std::thread::hardware_concurrency());
  auto start = std::chrono::steady_clock::now();
  Runs runs;
  std::vector<std::thread> workers;
  for (u64 k = 1; k < std::min(cores, total); ++k) {
    try {
      workers.emplace_back([&] { run_groups(launch, runs, total); });
    } catch (const std::exception&) { // no more threads: those that run do the work
      break;
    }
  }
  run_groups(launch, runs, total);
  for (std::thread& worker : workers)
    worker.join();
  device_memory().release(block);
  if (runs.failed_group != ~u64{0})
    result = {false, runs.fault.kind, runs.fault.text};
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::lock_guard lock(record_mutex);
  record() = {kernel.name,     shape,   launch.lds_bytes,      runs.counters,
              seconds.count(), &kernel, std::move(runs.trace), result.report};
  return result;
}

Occupancy occupancy(const Kernel& kernel, u32 items, u64 lds_bytes) {
  u32 waves = std::max(1u, (items + kLanes - 1) / kLanes);
  u32 a_simd = std::min(8u, 512 / std::max(8u, kernel.allocated_vgprs()));
  u64 by_lds = kMaxLdsBytes / std::max<u64>(1, lds_bytes);
  return {waves, std::min(kMaxGroups, a_simd * 4 / waves),
          static_cast<u32>(std::min<u64>(kMaxGroups, by_lds))};
}

LaunchRecord last_launch() {
  std::lock_guard lock(record_mutex);
  return record();
}

void forget_launch(const Kernel& kernel) {
  std::lock_guard lock(record_mutex);
  if (record().code == &kernel)
    record().code = nullptr;
}

void set_last_report(const std::string& report) {
  std::lock_guard lock(record_mutex);
  record().report = report;
}

} // namespace emu
