/* What the emulator offers beyond HIP: switches, reports, counters, and single instructions for
 * tests. Every text that is returned stays valid until the same thread asks again. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets a knob (see docs/emulator.md). 0 on success, 1 for an unknown name or value. */
int aotattn_emu_set(const char* name, const char* value);

/* Why the last launch or load failed; empty when it did not. */
const char* aotattn_emu_report(void);

/* JSON: counters of the last launch and, when the knob "cycles" is on, modelled cycles. */
const char* aotattn_emu_profile(void);

/* JSON: every row of the instruction tables as "format name". */
const char* aotattn_emu_rows(void);

/* Registers of one wave, for tests of single instructions. */
struct aotattn_emu_wave {
  uint32_t scalar[128];
  uint32_t scc;
  uint32_t flush_f32;       /* denormals of f32 arithmetic are zero */
  uint32_t vector[512][64]; /* v0..v255, a0..a255 */
  uint8_t lds[65536];
};

/* Runs words[0..count) on one wave, with `wave` as its state before and after. The words must end
 * with s_endpgm. 0 on success, 1 with a report otherwise. */
int aotattn_emu_run(const uint32_t* words, uint64_t count, struct aotattn_emu_wave* wave);

/* Text of the instruction at words[0] and its size in bytes; size 0 when it is unknown. */
const char* aotattn_emu_disassemble(const uint32_t* words, uint64_t count, uint32_t* size);

#ifdef __cplusplus
}
#endif
