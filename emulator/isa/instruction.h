// A decoded instruction: what the executors, checkers, disassembler and cycle model read.
#pragma once

#include "core/types.h"

namespace emu {

struct Wave;
struct Instruction;
using Execute = void (*)(Wave&, const Instruction&);

enum class Format : u8 {
  sop1,
  sop2,
  sopc,
  sopk,
  sopp,
  smem,
  vop1,
  vop2,
  vopc,
  vop3,
  vop3p,
  mfma,
  ds,
  flat,
  mubuf,
};

// What an instruction occupies, for counters and the cycle model.
enum class Class : u8 {
  valu,
  packed,
  transcendental,
  mfma,
  lds,
  vmem,
  smem,
  salu,
  branch,
  internal
};
constexpr int kNumClasses = 10;

// Registers share one numbering: 0..127 scalar (as in operand codes), 128 SCC, 256.. vector,
// 512.. accumulation.
constexpr u16 kFlatScratch = 102, kVcc = 106, kM0 = 124, kExec = 126, kScc = 128;
constexpr u16 kVgpr = 256, kAgpr = 512, kNumRegisters = 768, kNoRegister = 0xffff;
// Operand codes that are values computed when read, and constants.
constexpr u16 kCodeVccz = 251, kCodeExecz = 252, kCodeScc = 253, kCodeLiteral = 255;
constexpr u16 kCodeSdwa = 249, kCodeDpp = 250;

// Properties of a row. The first group says how sources and results of vector rows are treated.
enum RowFlag : u32 {
  kInteger = 0,
  kFloat = 1,          // f32 arithmetic: neg, abs, clamp, denormal flush
  kHalf = 2,           // f16 constants, neg and abs act on bit 15
  kSignBits = 4,       // neg and abs act on bit 31, but nothing is flushed (v_cndmask)
  kTrans = 8,          // transcendental unit
  kReadsDest = 16,     // the destination is a source too (v_fmac)
  kLaneMask = 32,      // the last source is a 64-bit mask: one bit a lane
  kClampInt = 64,      // integer clamp is defined for this row
  kDenormResult = 128, // flush the result of a conversion
  kSetsScc = 256,
  kReadsScc = 512,
  kCarryOut = 1024, // writes a mask to sdst
  kSlow = 2048,     // 32-bit integer multiply: four issue slots
  kCrossLane = 4096,
  kDouble = 8192, // f64: constants are f64, neg and abs act on bit 63
};

enum class MemoryKind : u8 {
  none,
  load,
  store,
  atomic,
  cache,
  transpose,
  bpermute,
  permute,
  swizzle
};
enum class AtomicKind : u8 {
  none,
  add,
  sub,
  smin,
  umin,
  smax,
  umax,
  bit_and,
  bit_or,
  bit_xor,
  swap,
  cmpswap,
  add_f32,
  pk_add_f16,
  pk_add_bf16,
};
// How one memory element becomes a register: zero or sign extended, or one half of it.
enum class Extend : u8 { none, zero, sign, low_half, high_half };

struct MemoryRow {
  MemoryKind kind = MemoryKind::none;
  u8 bytes = 0;   // one element
  u16 stride = 0; // two-address forms: units of the offsets in bytes, else 0
  Extend extend = Extend::none;
  AtomicKind atomic = AtomicKind::none;
};

struct MfmaShape {
  u8 rows = 0, depth = 0, passes = 0;
  enum Type : u8 { bf16, f16, f32 } type = bf16;
};

struct Row {
  const char* name;
  u16 opcode;
  u32 flags;
  u8 dest_width, source_width[3]; // in dwords, 0 = absent
  Execute run;
  MemoryRow memory{};
  MfmaShape mfma{};
  Class kind = Class::valu;
};

struct Operand {
  u16 reg;  // unified register number
  u8 count; // consecutive registers
  bool write;
};

enum class Modifier : u8 { none, dpp, sdwa };

struct Instruction {
  const Row* row = nullptr;
  u64 pc = 0; // byte offset in the code object
  u32 words[3] = {};
  u8 size = 4;
  Format format = Format::sopp;
  Modifier modifier = Modifier::none;

  u16 source[3] = {kNoRegister, kNoRegister, kNoRegister};
  u64 constant[3] = {}; // value of a source that is a constant
  u16 dest = kNoRegister, scalar_dest = kNoRegister;
  u8 neg = 0, abs = 0, neg_high = 0, op_sel = 0, op_sel_high = 0, omod = 0;
  bool clamp = false;
  u32 control = 0; // DPP or SDWA word
  u16 immediate = 0;

  // memory forms
  u16 address = kNoRegister, data = kNoRegister, data2 = kNoRegister, base = kNoRegister;
  u16 offset_source = kNoRegister; // scalar offset operand code
  u64 offset_constant = 0;
  i32 offset = 0;
  u8 offset0 = 0, offset1 = 0, segment = 0;
  bool lds = false, offset_enable = false, index_enable = false, returns = false;

  u16 beyond_limit = 0; // a register the kernel does not have, or 0
  u32 target = 0;       // index of the branch target
  u32 index = 0;        // own index in the program

  Operand operands[8] = {};
  u8 num_operands = 0;

  void add_operand(u16 reg, int count, bool write) {
    if (reg == kNoRegister || count == 0 || num_operands == 8)
      return;
    operands[num_operands++] = {reg, static_cast<u8>(count), write};
  }
};

inline bool is_register(u16 code) { return code < 128 || code >= kVgpr; }
inline bool is_vector(u16 code) { return code >= kVgpr && code != kNoRegister; }

} // namespace emu
