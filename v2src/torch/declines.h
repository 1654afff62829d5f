// How many calls were served and declined, and why.
#pragma once

#include <cstdint>

namespace aotattn::binding {

// Told a reason. Returns whether it wants to be told at each decline; else only at some (see
// declines.cc).
using DeclineLog = int (*)(const char* reason);
using ReasonVisitor = void (*)(const char* reason, uint64_t count);

void count_served();
void count_declined(const char* reason);

uint64_t served();
uint64_t declined();
void visit_reasons(ReasonVisitor visit);

// Null: nobody is told.
void set_decline_log(DeclineLog log, bool wanted);

} // namespace aotattn::binding
