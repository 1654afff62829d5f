// Integer expressions of grid, requirement and workspace recipes: postfix tokens over 64-bit
// integers, see python/aotattn/expressions.py.
#ifndef AOTATTN_LAUNCH_EXPRESSION_H
#define AOTATTN_LAUNCH_EXPRESSION_H

#include "slots.h"

namespace aot {

class Expression {
public:
  // AOT_BAD_STORE for an unknown name, or if operators and operands do not fit together.
  Status parse(std::string_view postfix, const Vocabulary& vocabulary);

  // False if a step divides by zero or passes 64 bits.
  bool evaluate(const Slot* slots, int64_t* value) const;

private:
  struct Token {
    uint8_t operation; // kNumber, kSlot or a row of the table of operators
    int64_t value;     // of a number; of a slot its index
  };
  std::vector<Token> tokens_;
};

} // namespace aot

#endif
