// Text taken apart and put together.
#ifndef AOTATTN_TEXT_H
#define AOTATTN_TEXT_H

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace aot {

// The non-empty pieces between separators.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    if (end != 0)
      pieces.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return pieces;
}

// "a, b, c"
inline std::string join(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items)
    text += (text.empty() ? "" : ", ") + item;
  return text;
}

// False unless the whole text is a number that fits.
template <class Number> bool parse_number(std::string_view text, Number* number) {
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, *number);
  return !text.empty() && error == std::errc() && last == end;
}

} // namespace aot

#endif
