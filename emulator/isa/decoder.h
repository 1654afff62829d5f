// Decodes one instruction; the parts of each encoding family lie in files of their own.
#pragma once

#include <span>
#include <string>

#include "isa/instruction.h"

namespace emu {

const Row* find_row(std::span<const Row> rows, u32 opcode);

// Bits high..low of a word.
inline u32 field(u32 word, int high, int low) {
  return word >> low & ((u32{2} << (high - low)) - 1);
}

struct Decoder {
  const u32* words;
  size_t available;
  Instruction& i;
  std::string problem;

  bool fail(const std::string& text);
  bool extra_word(u32* out);
  bool set_source(int k, u32 code, u16 vector_bank = kVgpr);
  bool scalar_pair(u16 reg, int width);
  void list(u16 code, int count, bool write);
  bool finish_operands();
  bool scalar(Format format, std::span<const Row> rows, u32 opcode);
  bool program_control();
  bool scalar_memory();
  bool control_word(u32 kind);
  bool short_vector(Format format, std::span<const Row> rows, u32 opcode);
  bool long_vector();
  bool check_modifiers();
  bool packed_vector();
  bool packed_operands();
  bool matrix(u32 second);
  bool lds();
  bool check_range();
  void list_data(u16 reg, const MemoryRow& row);
  bool buffer();
  bool flat();
  bool run();
};

} // namespace emu
