#include "hip/aotattn_emulator.h"

#include <cstring>

#include "core/checker.h"
#include "core/cycle_model.h"
#include "hip/api.h"
#include "isa/disassemble.h"
#include "isa/tables.h"

using namespace emu;
using namespace emu::hip;

namespace {

const char* keep(std::string text) {
  thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

struct FormatRows {
  const char* format;
  std::span<const Row> rows;
};

std::vector<FormatRows> all_rows() {
  const VectorRows& v = vector_rows();
  return {{"sop1", sop1_rows()}, {"sop2", sop2_rows()},   {"sopc", sopc_rows()},
          {"sopk", sopk_rows()}, {"sopp", sopp_rows()},   {"smem", smem_rows()},
          {"vop1", v.vop1},      {"vop2", v.vop2},        {"vopc", v.vopc},
          {"vop3", v.vop3},      {"vop3p", v.vop3p},      {"mfma", v.mfma},
          {"ds", ds_rows()},     {"mubuf", mubuf_rows()}, {"flat", flat_rows()}};
}

void run_words(const u32* words, u64 count, aotattn_emu_wave* state) {
  std::vector<u8> image(count * 4);
  std::memcpy(image.data(), words, image.size());
  Kernel kernel;
  kernel.name = "test";
  std::string error;
  const u64 entries[] = {0};
  if (!decode_program(image, entries, &kernel.program, &error))
    throw Fault{Fault::unknown_instruction, error};
  kernel.rsrc1 = 63 | (state->flush_f32 ? 0 : 3 << 16) | 3 << 18 | 1 << 21 | 1 << 23;
  kernel.scratch_bytes = 256;
  Launch launch;
  launch.kernel = &kernel;
  launch.knobs = knobs();
  launch.shape.block[0] = 64;
  launch.lds_bytes = sizeof state->lds;
  launch.check_bounds = launch.knobs.check_bounds;
  launch.memory = device_memory().snapshot();
  Workgroup group;
  const u32 id[3] = {0, 0, 0};
  prepare_workgroup(group, launch, id);
  Wave& wave = *group.waves[0];
  std::memcpy(group.lds.data(), state->lds, sizeof state->lds);
  std::memcpy(wave.v, state->vector, sizeof state->vector);
  std::memcpy(wave.s, state->scalar, sizeof state->scalar);
  wave.scc = state->scc;
  u64 left = std::min<u64>(launch.knobs.limit, 1 << 20);
  while (!wave.ended) {
    const Instruction& i = kernel.program.code[wave.pc++];
    if (left-- == 0)
      fault(wave, i, Fault::limit, "more instructions than allowed");
    i.row->run(wave, i);
    wave.at_barrier = false;
  }
  std::memcpy(state->lds, group.lds.data(), sizeof state->lds);
  std::memcpy(state->vector, wave.v, sizeof state->vector);
  std::memcpy(state->scalar, wave.s, sizeof state->scalar);
  state->scc = wave.scc;
}

} // namespace

HIP_API int aotattn_emu_set(const char* name, const char* value) {
  try {
    return name && value && set_knob(name, value) ? 0 : 1;
  } catch (...) {
    return 1;
  }
}

HIP_API const char* aotattn_emu_report() {
  try {
    return keep(last_launch().report);
  } catch (...) {
    return "";
  }
}

HIP_API const char* aotattn_emu_profile() {
  try {
    return keep(profile_json(last_launch()));
  } catch (...) {
    return "{}";
  }
}

HIP_API const char* aotattn_emu_rows() {
  try {
    std::string text = "[";
    for (const FormatRows& table : all_rows())
      for (const Row& row : table.rows)
        text +=
            std::string(text.size() > 1 ? "," : "") + "\"" + table.format + " " + row.name + "\"";
    return keep(text + "]");
  } catch (...) {
    return "[]";
  }
}

HIP_API int aotattn_emu_run(const uint32_t* words, uint64_t count, aotattn_emu_wave* wave) {
  try {
    if (!words || !wave || count == 0 || count > (1 << 20))
      return 1;
    set_last_report("");
    run_words(words, count, wave);
    return 0;
  } catch (const Fault& fault) {
    set_last_report(fault.text);
  } catch (...) {
    set_last_report("out of memory");
  }
  return 1;
}

HIP_API const char* aotattn_emu_disassemble(const uint32_t* words, uint64_t count, uint32_t* size) {
  try {
    Instruction i;
    std::string error;
    bool known = words && size && decode(words, count, 0, &i, &error);
    if (size)
      *size = known ? i.size : 0;
    return keep(known ? disassemble(i) : error);
  } catch (...) {
    return "";
  }
}
