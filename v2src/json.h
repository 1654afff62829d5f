// JSON text, written as it goes.
#ifndef AOTATTN_JSON_H
#define AOTATTN_JSON_H

#include <cstdint>
#include <string>
#include <string_view>

namespace aot {

class Json {
public:
  Json& open(char bracket); // '{' or '['
  Json& close(char bracket);
  Json& key(std::string_view name);
  Json& value(std::string_view text);
  Json& value(int64_t number);
  Json& null();
  const std::string& text() const { return text_; }

private:
  void separate();
  void quote(std::string_view text);
  std::string text_;
};

} // namespace aot

#endif
