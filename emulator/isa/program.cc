// Decodes a whole kernel by following its control flow.
#include <cstring>
#include <map>

#include "isa/decode.h"
#include "isa/disassemble.h"

namespace emu {
namespace {

constexpr u64 kMaxInstructions = 1 << 20;

u64 branch_target(const Instruction& i) {
  return i.pc + i.size + static_cast<u64>(static_cast<i64>(static_cast<i16>(i.immediate)) * 4);
}

std::string context(const std::map<u64, Instruction>& known, u64 pc) {
  std::string text;
  auto at = known.lower_bound(pc);
  for (int k = 0; k < 4 && at != known.begin(); ++k)
    --at;
  for (; at != known.end() && at->first < pc; ++at)
    text += "\n  " + hex(at->first) + "  " + disassemble(at->second);
  return text;
}

} // namespace

bool decode_program(const std::vector<u8>& image, std::span<const u64> entries, Program* out,
                    std::string* error) {
  std::map<u64, Instruction> known;
  std::vector<u64> todo(entries.begin(), entries.end());
  while (!todo.empty()) {
    u64 pc = todo.back();
    todo.pop_back();
    while (!known.count(pc)) {
      u32 words[3] = {};
      size_t available = pc >= image.size() ? 0 : std::min<size_t>(3, (image.size() - pc) / 4);
      std::memcpy(words, image.data() + (available ? pc : 0), available * 4);
      Instruction i;
      std::string problem;
      if (!decode(words, available, pc, &i, &problem)) {
        *error = "cannot decode word " + hex(words[0]) + " (next " + hex(words[1]) + ") at pc " +
                 hex(pc) + ": " + problem + context(known, pc);
        return false;
      }
      if (known.size() >= kMaxInstructions) {
        *error = "the kernel is too long";
        return false;
      }
      known[pc] = i;
      if (i.row->kind == Class::branch)
        todo.push_back(branch_target(i));
      if (i.format == Format::sopp && (i.row->opcode == 1 || i.row->opcode == 2))
        break; // s_endpgm, s_branch
      pc += i.size;
    }
  }
  std::map<u64, u32> index;
  for (auto& [pc, i] : known) {
    i.index = static_cast<u32>(out->code.size());
    index[pc] = i.index;
    out->code.push_back(i);
  }
  for (Instruction& i : out->code) {
    if (i.row->kind == Class::branch) {
      auto target = index.find(branch_target(i));
      if (target == index.end()) {
        *error = "branch out of the kernel at pc " + hex(i.pc);
        return false;
      }
      i.target = target->second;
    }
    bool falls_through = !(i.format == Format::sopp && (i.row->opcode == 1 || i.row->opcode == 2));
    if (falls_through &&
        (i.index + 1 >= out->code.size() || out->code[i.index + 1].pc != i.pc + i.size)) {
      *error = "overlapping instructions at pc " + hex(i.pc);
      return false;
    }
  }
  return true;
}

} // namespace emu
