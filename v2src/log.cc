#include "log.h"
#include "published.h"

namespace aot {
namespace {

struct Listener {
  aot_log_fn log;
  void* context;
};
Published<Listener> g_listener;

} // namespace

void set_log(aot_log_fn log, void* context) { g_listener.publish({log, context}); }

void Notices::add(Level level, std::string text) {
  if (told_->insert(text).second)
    fresh_.push_back({level, std::move(text)});
}

void Notices::tell() noexcept {
  const Listener* listener = g_listener.get();
  if (listener && listener->log)
    for (const Notice& notice : fresh_)
      try {
        listener->log(listener->context, static_cast<int32_t>(notice.level), notice.text.c_str());
      } catch (...) { // a destructor calls this
      }
  fresh_.clear();
}

} // namespace aot
