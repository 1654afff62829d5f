// A driver library, found at run time: nothing of a vendor is linked.
#ifndef AOTATTN_DEVICE_LIBRARY_H
#define AOTATTN_DEVICE_LIBRARY_H

#include "../status.h"

#include <initializer_list>

namespace aot {

class Library {
public:
  // Loads `chosen` if it is not empty, else the first of `usual` that loads. Never unloaded.
  Status open(const std::string& chosen, std::initializer_list<const char*> usual);

  template <class Function> Status require(const char* symbol, Function** function) const {
    *function = reinterpret_cast<Function*>(find(symbol));
    return *function ? Status() : missing(symbol);
  }
  // Null if the library lacks it.
  template <class Function> void request(const char* symbol, Function** function) const {
    *function = reinterpret_cast<Function*>(find(symbol));
  }

private:
  void* find(const char* symbol) const;
  Status missing(const char* symbol) const;

  void* handle_ = nullptr;
  std::string name_;
};

} // namespace aot

#endif
