#include "json.h"
#include "status.h"

namespace aot {

// A comma, unless this is the first of its list or follows its key.
void Json::separate() {
  if (!text_.empty() && text_.back() != '{' && text_.back() != '[' && text_.back() != ':')
    text_ += ',';
}

void Json::quote(std::string_view text) {
  text_ += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\')
      text_ += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      text_ += format("\\u%04x", c);
    else
      text_ += c;
  }
  text_ += '"';
}

Json& Json::open(char bracket) {
  separate();
  text_ += bracket;
  return *this;
}

Json& Json::close(char bracket) {
  text_ += bracket;
  return *this;
}

Json& Json::key(std::string_view name) {
  separate();
  quote(name);
  text_ += ':';
  return *this;
}

Json& Json::value(std::string_view text) {
  separate();
  quote(text);
  return *this;
}

Json& Json::value(int64_t number) {
  separate();
  text_ += std::to_string(number);
  return *this;
}

Json& Json::null() {
  separate();
  text_ += "null";
  return *this;
}

} // namespace aot
