// From instruction words to decoded instructions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "isa/instruction.h"

namespace emu {

// Decodes one instruction from at most `available` words. On failure returns false and says why.
bool decode(const u32* words, size_t available, u64 pc, Instruction* out, std::string* error);

struct Program {
  std::vector<Instruction> code; // in address order
};

// Decodes everything reachable from the entries (byte offsets into the image). An unknown word
// that can be reached is an error, with its surroundings.
bool decode_program(const std::vector<u8>& image, std::span<const u64> entries, Program* out,
                    std::string* error);

} // namespace emu
