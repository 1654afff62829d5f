// An operator: what the launcher needs to know of it. One a file in ops/, and a row in operators().
#ifndef AOTATTN_OPS_OPERATOR_H
#define AOTATTN_OPS_OPERATOR_H

#include "../launch/slots.h"
#include "../tuning/tuning.h"

#include <span>

namespace aot {

// Fixed when a kernel is compiled; `values` in their text form.
struct Feature {
  std::string name;
  std::vector<std::string> values;
};

// What one call asks for, validated and canonical.
struct Request {
  static constexpr size_t kMaxFunctionals = 32;

  bool nothing_to_do = false;
  size_t num_functionals = 0;
  uint32_t functionals[kMaxFunctionals]; // in the order in which they are tried
  TuningSizes tuning_sizes;
  Slot slots[kMaxSlots];

  void try_functional(uint32_t functional) { functionals[num_functionals++] = functional; }
};

struct Operator {
  std::string name;
  std::vector<Feature> features;
  Vocabulary vocabulary;
  size_t compute_units_slot;
  // Reads the caller's struct. `with_data`: tensors that have elements must have memory.
  Status (*read)(const void* params, bool with_data, Request* request);

  // A functional is an assignment of the features: a number in mixed radix, the last feature
  // running fastest.
  uint32_t num_functionals() const;
  std::string features_text(uint32_t functional) const; // "dtype=bf16,head_dim=128,..."
};

std::span<const Operator* const> operators();
// Null if there is none of that name.
const Operator* find_operator(std::string_view name);
size_t operator_index(const Operator& op);

// Copies a struct that starts with its struct_size, as the caller knows it, over `known`: an older
// caller's missing fields are 0; what a newer caller has beyond must be 0.
Status read_struct(const char* what, const void* given, void* known, size_t known_bytes);

} // namespace aot

#endif
