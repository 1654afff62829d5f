#include "operator.h"
#include "attn_fwd.h"

#include <algorithm>

namespace aot {

uint32_t Operator::num_functionals() const {
  uint32_t count = 1;
  for (const Feature& feature : features)
    count *= static_cast<uint32_t>(feature.values.size());
  return count;
}

std::string Operator::features_text(uint32_t functional) const {
  std::string text;
  for (size_t i = features.size(); i-- > 0;) {
    const auto radix = static_cast<uint32_t>(features[i].values.size());
    text = features[i].name + "=" + features[i].values[functional % radix] +
           (text.empty() ? "" : ",") + text;
    functional /= radix;
  }
  return text;
}

std::span<const Operator* const> operators() {
  static constexpr const Operator* kOperators[] = {&kAttnFwd};
  return kOperators;
}

const Operator* find_operator(std::string_view name) {
  for (const Operator* op : operators())
    if (op->name == name)
      return op;
  return nullptr;
}

size_t operator_index(const Operator& op) {
  return static_cast<size_t>(std::ranges::find(operators(), &op) - operators().begin());
}

Status read_struct(const char* what, const void* given, void* known, size_t known_bytes) {
  constexpr uint32_t kMaxBytes = 65536; // no version of any struct comes near
  if (!given)
    return fail(AOT_BAD_ARGUMENT, "%s is null", what);
  uint32_t bytes = 0;
  std::memcpy(&bytes, given, sizeof bytes);
  if (bytes < sizeof bytes || bytes > kMaxBytes)
    return fail(AOT_BAD_VERSION, "%s.struct_size = %u; %zu is this library's", what, bytes,
                known_bytes);
  const auto* rest = static_cast<const unsigned char*>(given);
  for (size_t i = known_bytes; i < bytes; ++i)
    if (rest[i] != 0)
      return fail(
          AOT_BAD_VERSION,
          "%s.struct_size = %u: the caller is newer than this library (%zu) and sets a field "
          "that it does not know",
          what, bytes, known_bytes);
  const size_t common = std::min<size_t>(bytes, known_bytes);
  std::memcpy(known, given, common);
  std::memset(static_cast<unsigned char*>(known) + common, 0, known_bytes - common);
  return {};
}

} // namespace aot
