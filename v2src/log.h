// What is worth a word, told once. Collected under the loading lock, told after it is released.
#ifndef AOTATTN_LOG_H
#define AOTATTN_LOG_H

#include "aotattn/aotattn.h"

#include <set>
#include <string>
#include <vector>

namespace aot {

enum class Level : int32_t { kWarning = 0, kDebug = 1 };

class Notices {
public:
  explicit Notices(std::set<std::string>* told) : told_(told) {}
  void add(Level level, std::string text); // ignored if this process has told it before
  // To the callback, whose exceptions are dropped. Call it under no lock.
  void tell() noexcept;

private:
  struct Notice {
    Level level;
    std::string text;
  };
  std::set<std::string>* told_;
  std::vector<Notice> fresh_;
};

void set_log(aot_log_fn log, void* context);

} // namespace aot

#endif
