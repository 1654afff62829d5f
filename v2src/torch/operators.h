// PyTorch's attention operators that the binding takes over, on CUDA (ROCm uses the same key) and,
// for an emulated device, on the CPU: where they differ, a row each.
#pragma once

#include "problem.h"

namespace aotattn::binding {

// The arguments of all the operators. What an operator lacks keeps its default. Tensors are
// borrowed.
struct Arguments {
  AtenTensorHandle q, k, v;
  AtenTensorHandle attn_bias = nullptr;
  bool compute_lse = true;
  double dropout_p = 0;
  bool is_causal = false;
  bool return_debug_mask = false;
  std::optional<double> scale;
};

// Their results. What an operator lacks is null.
struct Results {
  OwnedTensor out, lse;
  OwnedTensor lse_rows; // where lse's rows are not dense, aot_attn_fwd writes these, to be copied
  OwnedTensor cum_seq_q, cum_seq_k; // undefined tensors
  int64_t max_q, max_k;
  OwnedTensor seed, offset; // which random numbers dropout took: none, but they must be there
  OwnedTensor debug_mask;
};

struct Operator {
  const char* name;        // in aten
  int64_t backend;         // as torch.nn.attention.SDPBackend numbers it
  bool has_bias;           // takes attn_bias and compute_log_sumexp
  bool has_debug_mask;     // takes return_debug_mask; gives cum_seq_*, max_* and debug_mask
  bool on_cpu;             // takes attn_mask; gives out and lse alone; runs on the emulated device
  aot_alignment alignment; // what is_causal means where seqlen_q != seqlen_k
  // What only this operator leaves to PyTorch: null or why.
  const char* (*declines)(const Arguments& arguments, const AttentionProblem& problem);
  // Memory for out, lse, lse_rows, seed, offset and debug_mask, in the forms that PyTorch's meta
  // kernel promises to torch.compile. What there is no memory for stays null.
  void (*make_results)(const Arguments& arguments, const AttentionProblem& problem,
                       Results* results);
  // The same call by PyTorch's own kernel. False where this PyTorch has none.
  bool (*fall_back)(const Arguments& arguments, Results* results, AOTITorchError* error);
};

extern const Operator kFlashAttention, kEfficientAttention, kCudnnAttention, kCpuAttention;

OwnedTensor undefined_tensor();

// The platform of this PyTorch's CUDA key, set once, before the first call.
void set_platform(aot_platform value);
aot_platform platform();

} // namespace aotattn::binding
