#include "declines.h"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace aotattn::binding {
namespace {

constexpr size_t kMaxReasons =
    256; // sentences of the library may name sizes: their number has no other bound

std::atomic<uint64_t> num_served{0};
std::atomic<uint64_t> num_declined{0};
std::atomic<DeclineLog> decline_log{nullptr};
std::atomic<bool> log_wanted{false};

std::mutex reasons_mutex;
std::map<std::string, uint64_t, std::less<>> reasons; // under reasons_mutex

// How often this reason came up, this time included.
uint64_t count_reason(std::string_view reason) {
  const std::lock_guard lock(reasons_mutex);
  auto entry = reasons.find(reason);
  if (entry == reasons.end()) {
    if (reasons.size() >= kMaxReasons)
      reason = "(other reasons)";
    entry = reasons.try_emplace(std::string(reason), 0).first;
  }
  return ++entry->second;
}

bool is_power_of_two(uint64_t n) { return (n & (n - 1)) == 0; }

} // namespace

void count_served() { num_served.fetch_add(1, std::memory_order_relaxed); }

void count_declined(const char* reason) {
  num_declined.fetch_add(1, std::memory_order_relaxed);
  const uint64_t count = count_reason(reason);
  // Python's log level can change at any time and asking it takes the GIL. So a log that did not
  // want to be told is asked again at the 1st, 2nd, 4th, 8th ... decline of a reason: that costs
  // nothing in the long run.
  const DeclineLog log = decline_log.load(std::memory_order_acquire);
  if (log && (log_wanted.load(std::memory_order_relaxed) || is_power_of_two(count)))
    log_wanted.store(log(reason) != 0, std::memory_order_relaxed);
}

uint64_t served() { return num_served.load(std::memory_order_relaxed); }
uint64_t declined() { return num_declined.load(std::memory_order_relaxed); }

void visit_reasons(ReasonVisitor visit) {
  std::map<std::string, uint64_t, std::less<>> copy;
  {
    const std::lock_guard lock(reasons_mutex); // the visitor takes the GIL: not under our lock
    copy = reasons;
  }
  for (const auto& [reason, count] : copy)
    visit(reason.c_str(), count);
}

void set_decline_log(DeclineLog log, bool wanted) {
  decline_log.store(log, std::memory_order_release);
  log_wanted.store(wanted, std::memory_order_relaxed);
}

} // namespace aotattn::binding
