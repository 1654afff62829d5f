// The values that recipes name: an array of 64-bit slots, and the vocabulary that says which name
// is which slot.
#ifndef AOTATTN_LAUNCH_SLOTS_H
#define AOTATTN_LAUNCH_SLOTS_H

#include "../status.h"

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace aot {

using Slot = uint64_t; // an f32 sits in its low 4 bytes

inline constexpr size_t kMaxSlots = 128;
inline constexpr size_t kNullSlot = 0; // holds 0; "null" in recipes

enum class Type : uint8_t { kPointer, kI64, kF32 };

class Vocabulary {
public:
  Vocabulary() { add("null", Type::kPointer); }

  size_t add(std::string name, Type type) {
    words_.push_back({std::move(name), type});
    return words_.size() - 1;
  }
  // The slot of `name`, or -1.
  int find(std::string_view name) const {
    for (size_t i = 0; i < words_.size(); ++i)
      if (words_[i].name == name)
        return static_cast<int>(i);
    return -1;
  }
  size_t size() const { return words_.size(); }
  Type type(size_t slot) const { return words_[slot].type; }
  const std::string& name(size_t slot) const { return words_[slot].name; }

private:
  struct Word {
    std::string name;
    Type type;
  };
  std::vector<Word> words_;
};

inline Slot slot_of(float value) {
  Slot slot = 0;
  std::memcpy(&slot, &value, sizeof value);
  return slot;
}

// A tensor's slots, in this order from its first: ptr, bytes, then size and stride of each axis.
inline constexpr size_t kPointerSlot = 0;
inline constexpr size_t kBytesSlot = 1;
inline constexpr size_t size_slot(size_t axis) { return 2 + 2 * axis; }
inline constexpr size_t stride_slot(size_t axis) { return 3 + 2 * axis; }
inline constexpr size_t tensor_slots(size_t rank) { return 2 + 2 * rank; }

} // namespace aot

#endif
