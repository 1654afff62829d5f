#include "status.h"

#include <cstdarg>
#include <cstdio>

namespace aot {
namespace {

std::string format_list(const char* form, va_list list) {
  va_list again;
  va_copy(again, list);
  const int length = std::vsnprintf(nullptr, 0, form, list);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, form, again);
  va_end(again);
  return text;
}

} // namespace

const std::string& Status::message() const {
  static const std::string none;
  return error_ ? error_->message : none;
}

std::string format(const char* form, ...) {
  va_list list;
  va_start(list, form);
  std::string text = format_list(form, list);
  va_end(list);
  return text;
}

Status fail(aot_status code, const char* form, ...) {
  va_list list;
  va_start(list, form);
  Status status(code, format_list(form, list));
  va_end(list);
  return status;
}

} // namespace aot
