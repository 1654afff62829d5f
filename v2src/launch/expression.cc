#include "expression.h"
#include "../text.h"

#include <bit>

namespace aot {
namespace {

constexpr size_t kMaxDepth = 32;

bool is_power_of_two(int64_t b) { return b > 0 && (b & (b - 1)) == 0; }

// Quotient rounded down, as Python's `//`. False for a divisor of 0 and for the one quotient that
// does not fit.
bool divide(int64_t a, int64_t b, int64_t* quotient) {
  if (is_power_of_two(b)) { // most are, and a 64-bit division costs 40 cycles
    *quotient = a >> std::countr_zero(static_cast<uint64_t>(b));
    return true;
  }
  if (b == 0 || (b == -1 && a == INT64_MIN))
    return false;
  *quotient = a / b - (a % b != 0 && (a < 0) != (b < 0));
  return true;
}

bool modulo(int64_t a, int64_t b, int64_t* rest) {
  int64_t quotient = 0;
  if (!divide(a, b, &quotient))
    return false;
  *rest = a - quotient * b;
  return true;
}

bool divide_up(int64_t a, int64_t b, int64_t* quotient) {
  int64_t rest = 0;
  if (!divide(a, b, quotient) || !modulo(a, b, &rest))
    return false;
  *quotient += rest != 0;
  return true;
}

/* name, token, a and b to *r; true if that worked */
#define AOT_OPERATORS(X)                                                                           \
  X(kAdd, "+", !__builtin_add_overflow(a, b, r))                                                   \
  X(kSubtract, "-", !__builtin_sub_overflow(a, b, r))                                              \
  X(kMultiply, "*", !__builtin_mul_overflow(a, b, r))                                              \
  X(kDivide, "/", divide(a, b, r))                                                                 \
  X(kModulo, "%", modulo(a, b, r))                                                                 \
  X(kDivideUp, "cdiv", divide_up(a, b, r))                                                         \
  X(kMin, "min", (*r = a < b ? a : b, true))                                                       \
  X(kMax, "max", (*r = a < b ? b : a, true))                                                       \
  X(kEqual, "==", (*r = a == b, true))                                                             \
  X(kNotEqual, "!=", (*r = a != b, true))                                                          \
  X(kLess, "<", (*r = a < b, true))                                                                \
  X(kLessEqual, "<=", (*r = a <= b, true))                                                         \
  X(kGreater, ">", (*r = a > b, true))                                                             \
  X(kGreaterEqual, ">=", (*r = a >= b, true))                                                      \
  X(kAnd, "and", (*r = a && b, true))                                                              \
  X(kOr, "or", (*r = a || b, true))

enum Operation : uint8_t {
  kNumber,
  kSlot,
#define AOT_NAME(name, token, compute) name,
  AOT_OPERATORS(AOT_NAME)
#undef AOT_NAME
};

bool find_operator(std::string_view token, uint8_t* operation) {
#define AOT_FIND(name, text, compute)                                                              \
  if (token == text) {                                                                             \
    *operation = name;                                                                             \
    return true;                                                                                   \
  }
  AOT_OPERATORS(AOT_FIND)
#undef AOT_FIND
  return false;
}

bool apply(uint8_t operation, int64_t a, int64_t b, int64_t* r) {
  switch (operation) {
#define AOT_CASE(name, token, compute)                                                             \
  case name:                                                                                       \
    return compute;
    AOT_OPERATORS(AOT_CASE)
#undef AOT_CASE
  }
  return false;
}

} // namespace

Status Expression::parse(std::string_view postfix, const Vocabulary& vocabulary) {
  const auto wrong = [&](const char* why, std::string_view token) {
    return fail(AOT_BAD_STORE, "expression '%.*s': '%.*s' %s", int(postfix.size()), postfix.data(),
                int(token.size()), token.data(), why);
  };
  size_t depth = 0;
  for (const std::string_view text : split(postfix, ' ')) {
    Token token = {};
    if (find_operator(text, &token.operation)) {
      if (depth < 2)
        return wrong("lacks an operand", text);
      depth -= 1;
    } else {
      if (parse_number(text, &token.value)) {
        token.operation = kNumber;
      } else {
        token.operation = kSlot;
        token.value = vocabulary.find(text);
        if (token.value < 0)
          return wrong("is in no vocabulary", text);
        if (vocabulary.type(static_cast<size_t>(token.value)) == Type::kF32)
          return wrong("is no integer", text);
      }
      if (++depth > kMaxDepth)
        return wrong("goes too deep", text);
    }
    tokens_.push_back(token);
  }
  return depth == 1 ? Status() : wrong("leaves no single value", postfix);
}

bool Expression::evaluate(const Slot* slots, int64_t* value) const {
  int64_t stack[kMaxDepth];
  size_t depth = 0;
  for (const Token& token : tokens_) {
    if (token.operation == kNumber) {
      stack[depth++] = token.value;
    } else if (token.operation == kSlot) {
      stack[depth++] = static_cast<int64_t>(slots[token.value]);
    } else {
      depth -= 1;
      if (!apply(token.operation, stack[depth - 1], stack[depth], &stack[depth - 1]))
        return false;
    }
  }
  *value = stack[0];
  return true;
}

} // namespace aot
