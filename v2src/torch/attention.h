// What is the same for all attention operators: a call is served by aot_attn_fwd, or PyTorch's own
// kernel runs.
#pragma once

#include "operators.h"

#include <string>

namespace aotattn::binding {

// The operator's kernel for the dispatcher, on its stack of arguments and then results.
void attention(const Operator& op, StableIValue* stack, uint64_t num_arguments,
               uint64_t num_results);

// Why the kernel would decline this call, "" if it would serve it. Loads what it would launch.
std::string why_not(const Operator& op, const Arguments& arguments);

} // namespace aotattn::binding
