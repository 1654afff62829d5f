#include "core/code_object.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <sys/uio.h>
#include <unistd.h>

#include "core/memory.h"
#include "isa/disassemble.h"

namespace emu {
namespace {

constexpr u64 kMaxImage = u64{1} << 28;
constexpr char kBundleMagic[] = "__CLANG_OFFLOAD_BUNDLE__";

template <class T> T read_at(const u8* data, u64 offset) {
  T value;
  std::memcpy(&value, data + offset, sizeof value);
  return value;
}

bool inside(u64 offset, u64 bytes, u64 size) { return offset <= size && bytes <= size - offset; }

// Marks instructions with vector registers beyond what the descriptor allocates: running one is an
// error. The two kinds share one file, so a kernel without accumulation registers may use the rest
// of it as vector registers, wherever its descriptor puts the split (shipped kernels do).
void mark_register_limits(Kernel* kernel) {
  u32 allocated = kernel->allocated_vgprs();
  u32 split = std::min(allocated, 256u);
  for (const Instruction& i : kernel->program.code)
    for (int k = 0; k < i.num_operands; ++k)
      if (i.operands[k].reg >= kAgpr)
        split = std::min(split, kernel->accumulator_offset());
  for (Instruction& i : kernel->program.code)
    for (int k = 0; k < i.num_operands; ++k) {
      const Operand& o = i.operands[k];
      u32 end = o.reg + o.count;
      if ((o.reg >= kAgpr && end - kAgpr > allocated - split) ||
          (o.reg >= kVgpr && o.reg < kAgpr && end - kVgpr > split))
        i.beyond_limit = static_cast<u16>(end - 1);
    }
}

bool read_process(const void* from, void* to, u64 bytes) {
  iovec local{to, bytes}, remote{const_cast<void*>(from), bytes};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

// Size an ELF header claims: the section headers or the last segment, whichever ends later.
u64 claimed_elf_size(const u8* start) {
  std::array<u8, 64> header;
  if (!read_process(start, header.data(), 64) || std::memcmp(header.data(), "\177ELF", 4))
    return 0;
  u64 phoff = read_at<u64>(header.data(), 32), shoff = read_at<u64>(header.data(), 40);
  u64 phnum = read_at<u16>(header.data(), 56);
  u64 size = std::max<u64>(64, shoff + u64{read_at<u16>(header.data(), 60)} * 64);
  if (phoff > kMaxImage || shoff > kMaxImage)
    return 0;
  std::vector<u8> table(phnum * 56);
  if (!table.empty() && !read_process(start + phoff, table.data(), table.size()))
    return 0;
  for (u64 k = 0; k < phnum; ++k) {
    u64 offset = read_at<u64>(table.data(), k * 56 + 8),
        bytes = read_at<u64>(table.data(), k * 56 + 32);
    if (offset > kMaxImage || bytes > kMaxImage)
      return 0;
    size = std::max(size, offset + bytes);
  }
  return size;
}

} // namespace

std::vector<u8> copy_image(const void* data) {
  const u8* start = static_cast<const u8*>(data);
  u8 magic[32];
  u64 size = 0;
  if (!data || !read_process(start, magic, 32))
    return {};
  if (!std::memcmp(magic, kBundleMagic, 24)) {
    u64 count = read_at<u64>(magic, 24), at = 32;
    for (u64 k = 0; k < count && k < 64; ++k) {
      u64 entry[3];
      if (!read_process(start + at, entry, 24) || entry[0] > kMaxImage || entry[1] > kMaxImage ||
          entry[2] > 4096)
        return {};
      size = std::max(size, entry[0] + entry[1]);
      at += 24 + entry[2];
    }
    size = std::max(size, at);
  } else {
    size = claimed_elf_size(start);
  }
  std::vector<u8> bytes;
  if (size == 0 || size > kMaxImage)
    return bytes;
  bytes.resize(size);
  if (!read_process(start, bytes.data(), size))
    bytes.clear();
  return bytes;
}

std::unique_ptr<CodeObject> CodeObject::load(const u8* data, u64 size, std::string* error) {
  if (size >= 32 && !std::memcmp(data, kBundleMagic, 24)) {
    u64 count = read_at<u64>(data, 24), at = 32;
    for (u64 k = 0; k < count && inside(at, 24, size); ++k) {
      u64 offset = read_at<u64>(data, at), bytes = read_at<u64>(data, at + 8);
      u64 length = read_at<u64>(data, at + 16);
      if (!inside(at + 24, length, size) || !inside(offset, bytes, size))
        break;
      std::string id(reinterpret_cast<const char*>(data + at + 24), length);
      if (id.find("gfx950") != std::string::npos && bytes)
        return load(data + offset, bytes, error);
      at += 24 + length;
    }
    *error = "the bundle holds no code object for gfx950";
    return nullptr;
  }
  std::unique_ptr<CodeObject> object(new CodeObject);
  if (!object->load_elf(data, size, error))
    return nullptr;
  return object;
}

CodeObject::~CodeObject() {
  if (image_)
    device_memory().release(image_);
}

bool CodeObject::load_elf(const u8* data, u64 size, std::string* error) {
  if (size < 64 || std::memcmp(data, "\177ELF\2\1\1", 7)) {
    *error = "no 64-bit little-endian ELF file";
    return false;
  }
  u32 machine = read_at<u16>(data, 18), flags = read_at<u32>(data, 48);
  if (machine != 224 || (flags & 255) != 0x4f) {
    *error = "the code object is not for gfx950 (machine " + std::to_string(machine) +
             ", processor " + hex(flags & 255) + ")";
    return false;
  }
  return load_segments(data, size, read_at<u64>(data, 32), read_at<u16>(data, 56), error) &&
         read_symbols(data, size, error);
}

bool CodeObject::load_segments(const u8* data, u64 size, u64 phoff, u32 phnum, std::string* error) {
  u64 end = 0;
  *error = "a segment lies outside the file";
  if (!inside(phoff, u64{phnum} * 56, size))
    return false;
  for (int pass = 0; pass < 2; ++pass) {
    for (u32 k = 0; k < phnum; ++k) {
      u64 at = phoff + u64{k} * 56;
      u32 type = read_at<u32>(data, at);
      u64 offset = read_at<u64>(data, at + 8), address = read_at<u64>(data, at + 16);
      u64 file_bytes = read_at<u64>(data, at + 32), bytes = read_at<u64>(data, at + 40);
      if (type == 1) {
        if (!inside(offset, file_bytes, size) || address > kMaxImage || bytes > kMaxImage ||
            file_bytes > bytes)
          return false;
        if (pass == 0)
          end = std::max(end, address + bytes);
        else if (file_bytes)
          std::memcpy(image_ + address, data + offset, file_bytes);
      } else if (type == 4 && pass == 1 && inside(offset, file_bytes, size)) {
        for (u64 note = offset; inside(note, 12, offset + file_bytes);) {
          u64 name = read_at<u32>(data, note), desc = read_at<u32>(data, note + 4);
          u64 desc_at = note + 12 + (name + 3) / 4 * 4;
          if (!inside(desc_at, desc, offset + file_bytes))
            break;
          if (read_at<u32>(data, note + 8) == 32 &&
              !parse_metadata(data + desc_at, desc, &metadata_)) {
            *error = "malformed kernel metadata";
            return false;
          }
          note = desc_at + (desc + 3) / 4 * 4;
        }
      }
    }
    if (pass == 0) {
      if (end == 0) {
        *error = "no segment to load";
        return false;
      }
      image_size_ = (end + 4095) / 4096 * 4096;
      image_ = static_cast<u8*>(device_memory().allocate(image_size_, false));
      if (!image_) {
        *error = "out of memory";
        return false;
      }
      std::memset(image_, 0, image_size_);
    }
  }
  return true;
}

bool CodeObject::read_symbols(const u8* data, u64 size, std::string* error) {
  u64 shoff = read_at<u64>(data, 40);
  u32 shnum = read_at<u16>(data, 60);
  *error = "a section lies outside the file";
  if (!inside(shoff, u64{shnum} * 64, size))
    return false;
  for (u32 k = 0; k < shnum; ++k) {
    u64 at = shoff + u64{k} * 64;
    u32 type = read_at<u32>(data, at + 4), link = read_at<u32>(data, at + 40);
    u64 offset = read_at<u64>(data, at + 24), bytes = read_at<u64>(data, at + 32);
    if (type == 4) { // relocations with addend
      if (!inside(offset, bytes, size))
        return false;
      if (!relocate(data + offset, bytes, error))
        return false;
    }
    if (type != 2 && type != 11)
      continue;
    if (!inside(offset, bytes, size) || link >= shnum)
      return false;
    u64 strings = read_at<u64>(data, shoff + u64{link} * 64 + 24);
    u64 strings_bytes = read_at<u64>(data, shoff + u64{link} * 64 + 32);
    if (!inside(strings, strings_bytes, size))
      return false;
    for (u64 s = 0; s + 24 <= bytes; s += 24) {
      u64 name = read_at<u32>(data, offset + s);
      if (name >= strings_bytes)
        continue;
      const char* text = reinterpret_cast<const char*>(data + strings + name);
      Symbol symbol;
      symbol.name.assign(text, strnlen(text, strings_bytes - name));
      symbol.value = read_at<u64>(data, offset + s + 8);
      symbol.size = read_at<u64>(data, offset + s + 16);
      if (!symbol.name.empty() && read_at<u16>(data, offset + s + 6) != 0)
        symbols_.push_back(symbol);
    }
  }
  return true;
}

bool CodeObject::relocate(const u8* table, u64 size, std::string* error) {
  for (u64 r = 0; r + 24 <= size; r += 24) {
    u64 offset = read_at<u64>(table, r), addend = read_at<u64>(table, r + 16);
    u32 type = read_at<u32>(table, r + 8);
    if (type != 13 || !inside(offset, 8, image_size_)) {
      *error = "relocation type " + std::to_string(type);
      return false;
    }
    u64 value = reinterpret_cast<u64>(image_) + addend;
    std::memcpy(image_ + offset, &value, 8);
  }
  return true;
}

bool CodeObject::global(const std::string& name, u64* address, u64* size) const {
  for (const Symbol& symbol : symbols_)
    if (symbol.name == name && inside(symbol.value, symbol.size, image_size_)) {
      *address = reinterpret_cast<u64>(image_) + symbol.value;
      *size = symbol.size;
      return true;
    }
  return false;
}

bool CodeObject::read_descriptor(const std::string& name, u64 at, Kernel* kernel,
                                 std::string* error) {
  for (const auto& known : metadata_)
    if (known->name == name)
      *kernel = *known;
  *error = "kernel '" + name + "': malformed descriptor";
  if (!inside(at, 64, image_size_))
    return false;
  kernel->name = name;
  kernel->image_base = reinterpret_cast<u64>(image_);
  kernel->descriptor = at;
  kernel->lds_bytes = read_at<u32>(image_, at);
  kernel->scratch_bytes = read_at<u32>(image_, at + 4);
  kernel->kernarg_bytes = std::max(kernel->kernarg_bytes, read_at<u32>(image_, at + 8));
  kernel->entry = at + read_at<u64>(image_, at + 16);
  kernel->rsrc3 = read_at<u32>(image_, at + 44);
  kernel->rsrc1 = read_at<u32>(image_, at + 48);
  kernel->rsrc2 = read_at<u32>(image_, at + 52);
  kernel->properties = read_at<u16>(image_, at + 56);
  kernel->preload = read_at<u16>(image_, at + 58);
  if (!inside(kernel->entry, 4, image_size_) || kernel->entry % 4)
    return false;
  if (kernel->scratch_bytes > (1u << 20) || kernel->kernarg_bytes > (1u << 20))
    return false;
  if ((kernel->rsrc1 >> 12 & 15) != 0) {
    *error = "kernel '" + name + "': rounding mode other than nearest even";
    return false;
  }
  u32 denormals = kernel->rsrc1 >> 16 & 15; // f32 all or none, f16 and f64 kept
  if (denormals != 12 && denormals != 15) {
    *error = "kernel '" + name + "': denormal mode " + std::to_string(denormals);
    return false;
  }
  return true;
}

const Kernel* CodeObject::kernel(const std::string& name, std::string* error) {
  std::lock_guard lock(mutex_);
  for (const auto& known : kernels_)
    if (known->name == name)
      return known.get();
  const Symbol* found = nullptr;
  for (const Symbol& symbol : symbols_)
    if (symbol.name == name + ".kd")
      found = &symbol;
  if (!found) {
    *error = "no kernel '" + name + "' in this code object";
    return nullptr;
  }
  auto kernel = std::make_unique<Kernel>();
  if (!read_descriptor(name, found->value, kernel.get(), error))
    return nullptr;
  std::vector<u64> entries = {kernel->entry};
  if (kernel->preload_dwords())
    entries.push_back(kernel->entry + 256);
  std::vector<u8> image(image_, image_ + image_size_);
  std::string problem;
  if (!decode_program(image, entries, &kernel->program, &problem)) {
    *error = "kernel '" + name + "': " + problem;
    return nullptr;
  }
  mark_register_limits(kernel.get());
  for (const Instruction& i : kernel->program.code) {
    if (i.pc == kernel->entry)
      kernel->entry_index = i.index;
    if (i.pc == entries.back())
      kernel->preload_entry_index = i.index;
  }
  kernels_.push_back(std::move(kernel));
  return kernels_.back().get();
}

} // namespace emu
