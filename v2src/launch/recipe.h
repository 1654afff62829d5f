// How a kernel's argument block is made from slots.
#ifndef AOTATTN_LAUNCH_RECIPE_H
#define AOTATTN_LAUNCH_RECIPE_H

#include "../device/driver.h"
#include "slots.h"

namespace aot {

inline constexpr size_t kMaxArgumentBytes = 2048;
inline constexpr size_t kMaxArguments = 128;
inline constexpr size_t kMaxRank = 4;

class Recipe {
public:
  // `text`: one argument a line, see python/aotattn/store.py. AOT_BAD_STORE says which line is
  // wrong and why.
  Status parse(std::string_view text, int64_t block_bytes, const Vocabulary& vocabulary);

  size_t block_bytes() const { return block_bytes_; }
  const std::vector<uint32_t>& parameter_bytes() const { return parameter_bytes_; }

  // The slot of the first value that its 32-bit or 8-bit argument cannot hold, or -1.
  int find_too_wide(const Slot* slots) const;
  // Zeroes the block, then makes its TMA descriptors. `driver` null leaves them zero.
  Status start(const Slot* slots, Driver* driver, uint8_t* block) const;
  // Copies the rest.
  void pack(const Slot* slots, uint8_t* block) const;
  // Where each parameter lies in the block.
  void point(uint8_t* block, void** parameters) const;

private:
  struct Copy {
    uint16_t slot, offset, bytes;
  };
  struct Map {
    uint16_t slot, offset; // first slot of the tensor
    uint32_t element, swizzle, rank;
    uint32_t box[kMaxRank];
  };
  Status parse_copy(const std::vector<std::string_view>& words, const Vocabulary&, Copy* copy);
  Status parse_map(const std::vector<std::string_view>& words, const Vocabulary&, Map* map);

  size_t block_bytes_ = 0;
  std::vector<Copy> copies_;
  std::vector<Copy> narrow_; // those of copies_ that may not hold their slot's value
  std::vector<Map> maps_;
  std::vector<uint16_t> offsets_; // of the parameters, in order
  std::vector<uint32_t> parameter_bytes_;
};

} // namespace aot

#endif
