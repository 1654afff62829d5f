#include "recipe.h"
#include "../text.h"

namespace aot {
namespace {

struct ArgumentType {
  std::string_view name;
  Type slot; // the type of the values that it takes
  uint16_t bytes;
};
constexpr ArgumentType kTypes[] = {
    {"ptr", Type::kPointer, 8}, {"i64", Type::kI64, 8}, {"i32", Type::kI64, 4},
    {"i1", Type::kI64, 1},      {"f32", Type::kF32, 4},
};
constexpr uint16_t kMapAlignment = 64;

bool fits(int64_t value, uint16_t bytes) {
  return bytes == 1 ? value == 0 || value == 1 : value >= INT32_MIN && value <= INT32_MAX;
}

} // namespace

Status Recipe::parse_copy(const std::vector<std::string_view>& words, const Vocabulary& vocabulary,
                          Copy* copy) {
  if (words.size() != 3 || !parse_number(words[2], &copy->offset))
    return fail(AOT_BAD_STORE, "it is not '<name> <type> <offset>'");
  const int slot = vocabulary.find(words[0]);
  if (slot < 0)
    return fail(AOT_BAD_STORE, "the name is in no vocabulary");
  for (const ArgumentType& type : kTypes)
    if (type.name == words[1] && type.slot == vocabulary.type(static_cast<size_t>(slot))) {
      copy->slot = static_cast<uint16_t>(slot);
      copy->bytes = type.bytes;
      if (type.slot == Type::kI64 && type.bytes < sizeof(Slot))
        narrow_.push_back(*copy);
      return {};
    }
  return fail(AOT_BAD_STORE, "the type is unknown or does not fit the name");
}

Status Recipe::parse_map(const std::vector<std::string_view>& words, const Vocabulary& vocabulary,
                         Map* map) {
  const std::string tensor(words[0]);
  const int slot = vocabulary.find(tensor + ".ptr");
  if (slot < 0)
    return fail(AOT_BAD_STORE, "there is no such tensor");
  map->slot = static_cast<uint16_t>(slot);
  while (map->rank < kMaxRank &&
         vocabulary.find(format("%s.size.%u", tensor.c_str(), map->rank)) >= 0)
    map->rank += 1;
  if (words.size() != 5 + map->rank || !parse_number(words[2], &map->offset) ||
      !parse_number(words[3], &map->element) || !parse_number(words[4], &map->swizzle))
    return fail(AOT_BAD_STORE, "it is not '<tensor> tensormap <offset> <element> <swizzle> <box>' "
                               "with a box of the tensor's rank");
  if (map->offset % kMapAlignment)
    return fail(AOT_BAD_STORE, "the offset is no multiple of %u", kMapAlignment);
  for (uint32_t axis = 0; axis < map->rank; ++axis)
    if (!parse_number(words[5 + axis], &map->box[axis]))
      return fail(AOT_BAD_STORE, "the box is no list of numbers");
  return {};
}

Status Recipe::parse(std::string_view text, int64_t block_bytes, const Vocabulary& vocabulary) {
  if (block_bytes < 0 || block_bytes > int64_t{kMaxArgumentBytes})
    return fail(AOT_BAD_STORE, "an argument block of %lld bytes; at most %zu are allowed",
                static_cast<long long>(block_bytes), kMaxArgumentBytes);
  block_bytes_ = static_cast<size_t>(block_bytes);
  size_t end = 0; // of the previous argument
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> words = split(line, ' ');
    Copy copy = {};
    Status status;
    if (words.size() > 1 && words[1] == "tensormap") {
      Map map = {};
      status = parse_map(words, vocabulary, &map);
      maps_.push_back(map);
      copy.offset = map.offset;
      copy.bytes = kTensorMapBytes;
    } else {
      status = parse_copy(words, vocabulary, &copy);
      copies_.push_back(copy);
    }
    if (status.ok() && (copy.offset < end || size_t{copy.offset} + copy.bytes > block_bytes_))
      status = fail(AOT_BAD_STORE, "it overlaps the one before or passes the block's end");
    if (!status.ok())
      return fail(AOT_BAD_STORE, "argument '%.*s': %s", int(line.size()), line.data(),
                  status.message().c_str());
    end = size_t{copy.offset} + copy.bytes;
    offsets_.push_back(copy.offset);
    parameter_bytes_.push_back(copy.bytes);
  }
  if (offsets_.size() > kMaxArguments)
    return fail(AOT_BAD_STORE, "%zu arguments; at most %zu are allowed", offsets_.size(),
                kMaxArguments);
  return {};
}

int Recipe::find_too_wide(const Slot* slots) const {
  for (const Copy& copy : narrow_)
    if (!fits(static_cast<int64_t>(slots[copy.slot]), copy.bytes))
      return copy.slot;
  return -1;
}

Status Recipe::start(const Slot* slots, Driver* driver, uint8_t* block) const {
  std::memset(block, 0, block_bytes_);
  if (!driver)
    return {};
  for (const Map& map : maps_) {
    uint64_t size[kMaxRank], stride[kMaxRank];
    const Slot* tensor = slots + map.slot;
    for (size_t axis = 0; axis < map.rank; ++axis) {
      size[axis] = tensor[size_slot(axis)];
      stride[axis] = tensor[stride_slot(axis)];
    }
    AOT_TRY(driver->encode(
        {tensor[kPointerSlot], map.rank, map.element, map.swizzle, size, stride, map.box},
        block + map.offset));
  }
  return {};
}

void Recipe::pack(const Slot* slots, uint8_t* block) const {
  for (const Copy& copy : copies_) {
    if (copy.bytes == 8) // constant sizes become single moves
      std::memcpy(block + copy.offset, slots + copy.slot, 8);
    else if (copy.bytes == 4)
      std::memcpy(block + copy.offset, slots + copy.slot, 4);
    else
      std::memcpy(block + copy.offset, slots + copy.slot, 1);
  }
}

void Recipe::point(uint8_t* block, void** parameters) const {
  for (size_t i = 0; i < offsets_.size(); ++i)
    parameters[i] = block + offsets_[i];
}

} // namespace aot
