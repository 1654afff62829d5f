// Modelled cycles of a traced workgroup. Nothing here is measured.
#pragma once

#include <string>

#include "core/launch.h"

namespace emu {

// Counters and, where a trace was taken, the model's answer, as JSON.
std::string profile_json(const LaunchRecord& record);

} // namespace emu
