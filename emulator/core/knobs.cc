#include "core/knobs.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace emu {
namespace {

struct KnobRow {
  const char* name; // of the variable: AOTATTN_EMU_ and this in upper case
  bool (*set)(Knobs&, const std::string&);
};

bool set_bool(bool& field, const std::string& value) {
  if (value != "0" && value != "1")
    return false;
  field = value == "1";
  return true;
}

bool set_checks(Knobs& k, const std::string& value) {
  k.check_waits = k.check_races = k.check_bounds = value == "all";
  k.check_uninitialised = k.check_registers = value == "all";
  if (value == "all" || value == "none")
    return true;
  for (size_t start = 0; start <= value.size();) {
    size_t end = std::min(value.find(',', start), value.size());
    std::string item = value.substr(start, end - start);
    if (item == "waits")
      k.check_waits = true;
    else if (item == "races")
      k.check_races = true;
    else if (item == "bounds")
      k.check_bounds = true;
    else if (item == "uninitialised")
      k.check_uninitialised = true;
    else if (item == "registers")
      k.check_registers = true;
    else
      return false;
    start = end + 1;
  }
  return true;
}

bool set_order(Knobs& k, const std::string& value) {
  const char* names[] = {"round_robin", "to_barrier", "reverse", "random"};
  for (int n = 0; n < 4; ++n)
    if (value == names[n]) {
      k.order = static_cast<Order>(n);
      return true;
    }
  return false;
}

const KnobRow kRows[] = {
    {"check", set_checks}, // all, none, or a list of waits,races,bounds,uninitialised,registers
    {"order", set_order},  // round_robin, to_barrier, reverse, random
    {"seed",
     [](Knobs& k, const std::string& v) {
       k.seed = std::strtoull(v.c_str(), nullptr, 10);
       return true;
     }},
    {"completion",
     [](Knobs& k, const std::string& v) {
       k.complete_at_wait = v == "wait";
       return v == "wait" || v == "issue";
     }},
    {"threads",
     [](Knobs& k, const std::string& v) {
       k.threads = static_cast<u32>(std::strtoul(v.c_str(), nullptr, 10));
       return true;
     }},
    {"limit",
     [](Knobs& k, const std::string& v) {
       k.limit = std::strtoull(v.c_str(), nullptr, 10);
       return k.limit != 0;
     }},
    {"simd",
     [](Knobs& k, const std::string& v) {
       k.plain = v == "plain";
       return v == "plain" || v == "auto";
     }},
    {"preload", [](Knobs& k, const std::string& v) { return set_bool(k.preload, v); }},
    {"count", [](Knobs& k, const std::string& v) { return set_bool(k.count, v); }},
    {"cycles", [](Knobs& k, const std::string& v) { return set_bool(k.cycles, v); }},
    {"print", [](Knobs& k, const std::string& v) { return set_bool(k.print_reports, v); }},
    {"waive_races",
     [](Knobs& k, const std::string& v) {
       k.waive_races = v;
       return true;
     }},
};

std::mutex mutex;

Knobs& current() {
  static Knobs values = [] {
    Knobs k;
    for (const KnobRow& row : kRows) {
      std::string variable = "AOTATTN_EMU_";
      for (const char* c = row.name; *c; ++c)
        variable += static_cast<char>(*c >= 'a' && *c <= 'z' ? *c - 32 : *c);
      if (const char* value = std::getenv(variable.c_str()))
        row.set(k, value);
    }
    return k;
  }();
  return values;
}

} // namespace

Knobs knobs() {
  std::lock_guard lock(mutex);
  return current();
}

bool set_knob(const std::string& name, const std::string& value) {
  std::lock_guard lock(mutex);
  for (const KnobRow& row : kRows)
    if (name == row.name) {
      Knobs changed = current();
      if (!row.set(changed, value))
        return false;
      current() = changed;
      return true;
    }
  return false;
}

} // namespace emu
