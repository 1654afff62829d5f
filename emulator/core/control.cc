// Program control: branches, barrier, waits, end (SOPP).
#include "core/workgroup.h"
#include "isa/disassemble.h"
#include "isa/rows_scalar.h"
#include "isa/tables.h"

namespace emu {
namespace {

void nothing(Wave&, const Instruction&) {}

void end_program(Wave& wave, const Instruction&) {
  retire_all(wave);
  wave.ended = true;
}

void branch_always(Wave& wave, const Instruction& i) { wave.pc = i.target; }

void branch_if(Wave& wave, const Instruction& i, bool taken) {
  if (taken)
    wave.pc = i.target;
}

void branch_scc0(Wave& wave, const Instruction& i) { branch_if(wave, i, !wave.scc); }
void branch_scc1(Wave& wave, const Instruction& i) { branch_if(wave, i, wave.scc); }
void branch_vccz(Wave& wave, const Instruction& i) { branch_if(wave, i, wave.vcc() == 0); }
void branch_vccnz(Wave& wave, const Instruction& i) { branch_if(wave, i, wave.vcc() != 0); }
void branch_execz(Wave& wave, const Instruction& i) { branch_if(wave, i, wave.exec() == 0); }
void branch_execnz(Wave& wave, const Instruction& i) { branch_if(wave, i, wave.exec() != 0); }

void barrier(Wave& wave, const Instruction&) {
  wave.at_barrier = true;
  ++wave.group->counters.barriers;
}

// A field of all ones waits for nothing. The third field (expcnt) counts nothing here.
void wait_count(Wave& wave, const Instruction& i) {
  u32 vector = (i.immediate & 15u) | (i.immediate >> 10 & 48u), lgkm = i.immediate >> 8 & 15u;
  if (vector != 63)
    retire(wave, Queue::vector, vector);
  if (lgkm != 15)
    retire(wave, Queue::lgkm, lgkm);
  ++wave.group->counters.waits;
}

// clang-format off
#define ROW(name, opcode, kind, run) \
  {#name, opcode, kInteger, 0, {0, 0, 0}, run, {}, {}, Class::kind},
const Row kRows[] = {SOPP_ROWS(ROW)};
// clang-format on

} // namespace

std::span<const Row> sopp_rows() { return kRows; }

void fault(const Wave& wave, const Instruction& i, Fault::Kind kind, const std::string& what) {
  const Launch& launch = *wave.group->launch;
  const u32* id = wave.group->id;
  std::string text = "kernel '" + (launch.kernel ? launch.kernel->name : std::string("?")) +
                     "' pc " + hex(i.pc) + " '" + disassemble(i) + "' workgroup (" +
                     std::to_string(id[0]) + ", " + std::to_string(id[1]) + ", " +
                     std::to_string(id[2]) + ") wave " + std::to_string(wave.id) + ": " + what;
  throw Fault{kind, text};
}

} // namespace emu
