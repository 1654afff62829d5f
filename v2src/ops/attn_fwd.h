// Attention, forward: see aot_attn_fwd_params and python/aotattn/ops/attn_fwd.py.
#ifndef AOTATTN_OPS_ATTN_FWD_H
#define AOTATTN_OPS_ATTN_FWD_H

#include "operator.h"

namespace aot {

extern const Operator kAttnFwd;

} // namespace aot

#endif
