// Text of instructions and registers, for reports.
#pragma once

#include <string>

#include "isa/instruction.h"

namespace emu {

std::string disassemble(const Instruction& instruction);
std::string mnemonic(const Instruction& instruction); // as the assembler writes it
std::string register_name(u16 reg);
std::string hex(u64 value);

} // namespace emu
