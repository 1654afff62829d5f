// The emulated HIP device, on which calls run whose tensors lie on the CPU.
#pragma once

#include "aotattn/aotattn.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace aotattn::binding {

// `path` is the HIP library that the C library has loaded. Throws if that is not the emulator.
void open_emulator(const char* path);
bool emulator_is_open();

// Memory of the CPU that the emulated device may touch, until this ends. One thread at a time has
// such: tensors of several may overlap. Only with an open emulator.
class Lent {
public:
  Lent();
  ~Lent();
  Lent(const Lent&) = delete;
  // False if the device refuses.
  bool add(const aot_attn_fwd_params& params);
  bool add(void* memory, size_t bytes);
  bool synchronize() const;

private:
  std::vector<void*> registered_;
};

} // namespace aotattn::binding
