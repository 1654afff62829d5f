// The outcome of whatever can fail: a code of the C ABI and a sentence. Success allocates nothing.
#ifndef AOTATTN_STATUS_H
#define AOTATTN_STATUS_H

#include "aotattn/aotattn.h"

#include <memory>
#include <string>

namespace aot {

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(aot_status code, std::string message)
      : error_(std::make_unique<Error>(code, std::move(message))) {}

  bool ok() const { return !error_; }
  aot_status code() const { return error_ ? error_->code : AOT_OK; }
  const std::string& message() const;

private:
  struct Error {
    Error(aot_status c, std::string m) : code(c), message(std::move(m)) {}
    aot_status code;
    std::string message;
  };
  std::unique_ptr<Error> error_;
};

// printf into a string, and into the sentence of a failure.
std::string format(const char* form, ...) __attribute__((format(printf, 1, 2)));
Status fail(aot_status code, const char* form, ...) __attribute__((format(printf, 2, 3), cold));

} // namespace aot

#define AOT_TRY(expression)                                                                        \
  do {                                                                                             \
    if (::aot::Status aot_status_ = (expression); !aot_status_.ok())                               \
      return aot_status_;                                                                          \
  } while (0)

#endif
