// A loaded code object: its segments in device memory, and the kernels in it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/types.h"
#include "isa/decode.h"

namespace emu {

struct KernelArgument {
  u32 offset = 0, size = 0;
  std::string kind; // by_value, global_buffer, hidden_...
};

struct Kernel {
  std::string name;
  u64 image_base = 0; // host address of the image
  u64 descriptor = 0; // offset of the descriptor in the image
  u64 entry = 0;      // offset of the first instruction
  u32 lds_bytes = 0, scratch_bytes = 0, kernarg_bytes = 0;
  u32 rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
  u16 properties = 0, preload = 0;
  u32 required_block[3] = {};
  u32 max_block = 1024;
  u32 sgpr_spills = 0, vgpr_spills = 0;
  std::vector<KernelArgument> arguments;
  Program program;
  u32 entry_index = 0, preload_entry_index = 0;

  // Registers as the hardware allocates them: one file split into vector and accumulation parts.
  u32 allocated_vgprs() const { return ((rsrc1 & 63) + 1) * 8; }
  u32 accumulator_offset() const { return ((rsrc3 & 63) + 1) * 4; }
  u32 preload_dwords() const { return preload & 127; }
};

class CodeObject {
public:
  // Parses a code object or an offload bundle; null and a reason when it cannot be loaded.
  static std::unique_ptr<CodeObject> load(const u8* data, u64 size, std::string* error);
  ~CodeObject();

  // Decodes the kernel on first use. Null and a reason when there is none or it cannot run.
  const Kernel* kernel(const std::string& name, std::string* error);
  // Address and size of a data symbol.
  bool global(const std::string& name, u64* address, u64* size) const;

private:
  struct Symbol {
    std::string name;
    u64 value = 0, size = 0;
  };
  bool load_elf(const u8* data, u64 size, std::string* error);
  bool load_segments(const u8* data, u64 size, u64 phoff, u32 phnum, std::string* error);
  bool read_symbols(const u8* data, u64 size, std::string* error);
  bool relocate(const u8* data, u64 size, std::string* error);
  bool read_descriptor(const std::string& name, u64 address, Kernel* kernel, std::string* error);

  std::mutex mutex_;
  u8* image_ = nullptr;
  u64 image_size_ = 0;
  std::vector<Symbol> symbols_;
  std::vector<std::unique_ptr<Kernel>> metadata_, kernels_;
};

// How many bytes a code object or bundle in memory claims to have; 0 when it is neither. Reads
// through the kernel, so that a wrong pointer or a truncated object is an error and no crash.
std::vector<u8> copy_image(const void* data);

// Kernel metadata of a code object's note. False when the note is malformed.
bool parse_metadata(const u8* data, u64 size, std::vector<std::unique_ptr<Kernel>>* out);

} // namespace emu
