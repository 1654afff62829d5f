// Says which plan a problem gets and why, without a device.
#ifndef AOTATTN_EXPLAIN_H
#define AOTATTN_EXPLAIN_H

#include "ops/operator.h"

namespace aot {

// The JSON object of aot_explain. `wanted`: as aot_call.plan.
Status explain(const Operator& op, const void* params, const std::string& arch,
               int32_t compute_units, const char* wanted, std::string* text);

} // namespace aot

#endif
