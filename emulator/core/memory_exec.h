// Shared by the two halves of memory execution: issue and completion.
#pragma once

#include "core/wave.h"

namespace emu {

// LDS byte addresses that one lane of an LDS instruction touches: one or two elements.
inline int lds_elements(const Instruction& i) { return i.row->memory.stride ? 2 : 1; }
inline u64 lds_element_address(const PendingOp& op, int lane, int element) {
  const Instruction& i = *op.instruction;
  return op.address[lane] +
         (i.row->memory.stride ? u64{element ? i.offset1 : i.offset0} * i.row->memory.stride : 0);
}

// Adds one issued operation to the counters of its workgroup.
void count_memory(Wave& wave, const PendingOp& op);

u32 combine(AtomicKind kind, u32 memory, u32 operand, u32 compare);

} // namespace emu
