// The MessagePack metadata note of a code object.
#include <cstring>

#include "core/code_object.h"

namespace emu {
namespace {

class Reader {
public:
  Reader(const u8* data, u64 size) : at_(data), end_(data + size) {}

  bool failed() const { return failed_; }

  enum Kind { nothing, number, text, array, map };
  struct Value {
    Kind kind = nothing;
    u64 value = 0; // number, or count of elements
    std::string string;
  };

  Value next() {
    Value v;
    u8 tag = byte();
    if (tag < 0x80) {
      v.kind = number, v.value = tag;
    } else if (tag < 0x90) {
      v.kind = map, v.value = tag & 15;
    } else if (tag < 0xa0) {
      v.kind = array, v.value = tag & 15;
    } else if (tag < 0xc0) {
      read_text(v, tag & 31);
    } else if (tag >= 0xe0) {
      v.kind = number, v.value = static_cast<u64>(static_cast<i64>(static_cast<i8>(tag)));
    } else {
      wide(v, tag);
    }
    return v;
  }

  void skip(int depth = 0) { skip_value(next(), depth); }
  void skip_value(const Value& v, int depth = 0) {
    if (depth > 32)
      failed_ = true;
    u64 count = v.kind == map ? 2 * v.value : v.kind == array ? v.value : 0;
    for (u64 k = 0; k < count && !failed_; ++k)
      skip(depth + 1);
  }

private:
  u8 byte() {
    if (at_ >= end_) {
      failed_ = true;
      return 0xc0;
    }
    return *at_++;
  }
  u64 big_endian(int bytes) {
    u64 value = 0;
    for (int k = 0; k < bytes; ++k)
      value = value << 8 | byte();
    return value;
  }
  void read_text(Value& v, u64 size) {
    v.kind = text;
    if (size > static_cast<u64>(end_ - at_)) {
      failed_ = true;
      return;
    }
    v.string.assign(reinterpret_cast<const char*>(at_), size);
    at_ += size;
  }
  void wide(Value& v, u8 tag) {
    switch (tag) {
    case 0xc0:
    case 0xc2:
    case 0xc3:
      v.kind = number, v.value = tag == 0xc3;
      return;
    case 0xc4:
    case 0xc5:
    case 0xc6:
      read_text(v, big_endian(1 << (tag - 0xc4)));
      return;
    case 0xca:
      v.kind = number, v.value = big_endian(4);
      return;
    case 0xcb:
      v.kind = number, v.value = big_endian(8);
      return;
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
      v.kind = number, v.value = big_endian(1 << (tag - 0xcc));
      return;
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
      v.kind = number, v.value = big_endian(1 << (tag - 0xd0));
      return;
    case 0xd9:
    case 0xda:
    case 0xdb:
      read_text(v, big_endian(1 << (tag - 0xd9)));
      return;
    case 0xdc:
    case 0xdd:
      v.kind = array, v.value = big_endian(tag == 0xdc ? 2 : 4);
      return;
    case 0xde:
    case 0xdf:
      v.kind = map, v.value = big_endian(tag == 0xde ? 2 : 4);
      return;
    default:
      failed_ = true;
    }
  }

  const u8 *at_, *end_;
  bool failed_ = false;
};

// Calls visit(key) for every entry of a map; visit reads the value.
template <class Visit> void each_entry(Reader& reader, const Reader::Value& map, Visit visit) {
  for (u64 k = 0; k < map.value && !reader.failed(); ++k)
    visit(reader.next().string);
}

KernelArgument read_argument(Reader& reader, const Reader::Value& map) {
  KernelArgument argument;
  each_entry(reader, map, [&](const std::string& key) {
    Reader::Value v = reader.next();
    if (key == ".offset")
      argument.offset = static_cast<u32>(v.value);
    else if (key == ".size")
      argument.size = static_cast<u32>(v.value);
    else if (key == ".value_kind")
      argument.kind = v.string;
    else
      reader.skip_value(v);
  });
  return argument;
}

void read_kernel(Reader& reader, const Reader::Value& map, Kernel* kernel) {
  each_entry(reader, map, [&](const std::string& key) {
    Reader::Value v = reader.next();
    if (key == ".args" && v.kind == Reader::array) {
      for (u64 k = 0; k < v.value && !reader.failed(); ++k)
        kernel->arguments.push_back(read_argument(reader, reader.next()));
    } else if (key == ".reqd_workgroup_size" && v.kind == Reader::array) {
      for (u64 k = 0; k < v.value && !reader.failed(); ++k) {
        Reader::Value size = reader.next();
        if (k < 3)
          kernel->required_block[k] = static_cast<u32>(size.value);
      }
    } else if (key == ".name") {
      kernel->name = v.string;
    } else if (key == ".kernarg_segment_size") {
      kernel->kernarg_bytes = static_cast<u32>(v.value);
    } else if (key == ".max_flat_workgroup_size") {
      kernel->max_block = static_cast<u32>(v.value);
    } else if (key == ".sgpr_spill_count") {
      kernel->sgpr_spills = static_cast<u32>(v.value);
    } else if (key == ".vgpr_spill_count") {
      kernel->vgpr_spills = static_cast<u32>(v.value);
    } else {
      reader.skip_value(v);
    }
  });
}

} // namespace

bool parse_metadata(const u8* data, u64 size, std::vector<std::unique_ptr<Kernel>>* out) {
  Reader reader(data, size);
  Reader::Value root = reader.next();
  if (root.kind != Reader::map)
    return false;
  each_entry(reader, root, [&](const std::string& key) {
    Reader::Value v = reader.next();
    if (key != "amdhsa.kernels" || v.kind != Reader::array) {
      reader.skip_value(v);
      return;
    }
    for (u64 k = 0; k < v.value && !reader.failed(); ++k) {
      out->push_back(std::make_unique<Kernel>());
      read_kernel(reader, reader.next(), out->back().get());
    }
  });
  return !reader.failed();
}

} // namespace emu
