// Runs an operator: from the caller's struct to the driver.
#ifndef AOTATTN_LAUNCH_LAUNCH_H
#define AOTATTN_LAUNCH_LAUNCH_H

#include "../ops/operator.h"

namespace aot {

enum class Mode { kLaunch, kPreload }; // kPreload: all but the launch; tensors need no data

Status run(const Operator& op, const void* params, const aot_call* call, Mode mode);

} // namespace aot

#endif
