/* aotattn: attention kernels compiled ahead of time. The C ABI.
 *
 * Every function returns an aot_status; aot_last_error() then gives a sentence for this thread.
 *
 * Structs that callers fill start with struct_size = sizeof(the struct) as the caller knows it. A
 * smaller struct (older caller) has its missing fields taken as 0; a larger one (newer caller) is
 * taken if the rest is all 0.
 *
 * No exception and no abort crosses this boundary. A call refused before its first driver call that
 * enqueues has enqueued nothing and written to no tensor. From there on only the driver can fail
 * it: the status is AOT_DEVICE_ERROR, the sentence names the driver's function, and what was
 * enqueued before (a clear of the workspace, an earlier step of the plan) stays enqueued.
 *
 * Any thread, any stream. After the first call for a kernel on a device no call allocates or locks.
 */
#ifndef AOTATTN_AOTATTN_H
#define AOTATTN_AOTATTN_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define AOT_API
#else
#define AOT_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* name, value, meaning */
#define AOT_STATUS_LIST(X)                                                                         \
  X(AOT_OK, 0, "success")                                                                          \
  X(AOT_BAD_ARGUMENT, 1, "an argument is wrong or arguments disagree")                             \
  X(AOT_BAD_VERSION, 2, "struct_size of a caller that this library cannot serve")                  \
  X(AOT_UNSUPPORTED, 3, "no built kernel takes this problem")                                      \
  X(AOT_NO_STORE, 4, "no kernel store for this arch was found")                                    \
  X(AOT_BAD_STORE, 5, "the kernel store is damaged or not a kernel store")                         \
  X(AOT_STORE_MISMATCH, 6, "the kernel store belongs to another schema or library version")        \
  X(AOT_NO_DEVICE, 7, "the driver or the device is not there")                                     \
  X(AOT_DEVICE_ERROR, 8, "a driver call failed")                                                   \
  X(AOT_NO_MEMORY, 9, "the caller's allocator returned null")                                      \
  X(AOT_INTERNAL, 10, "a bug in this library")

typedef enum aot_status {
#define AOT_STATUS_ENUM(name, value, meaning) name = value,
  AOT_STATUS_LIST(AOT_STATUS_ENUM)
#undef AOT_STATUS_ENUM
} aot_status;

typedef enum aot_dtype { AOT_F32 = 1, AOT_F16 = 2, AOT_BF16 = 3 } aot_dtype;

/* Which keys row i of q sees, d being i, or i + seqlen_k - seqlen_q if aligned bottom-right.
 * causal: keys up to d.
 * window: keys from d - window_left to d + window_right; a negative bound is unlimited. */
typedef enum aot_mask { AOT_MASK_NONE = 0, AOT_MASK_CAUSAL = 1, AOT_MASK_WINDOW = 2 } aot_mask;
typedef enum aot_alignment { AOT_TOP_LEFT = 0, AOT_BOTTOM_RIGHT = 1 } aot_alignment;

typedef enum aot_platform { AOT_CUDA = 0, AOT_HIP = 1 } aot_platform;

/* A view of device memory. Strides count elements; 0 is allowed for broadcast inputs. */
typedef struct aot_tensor {
  void* data; /* null: absent */
  int32_t dtype;
  int32_t rank;
  int64_t size[4];
  int64_t stride[4];
} aot_tensor;

/* out = softmax(sm_scale * q @ k.T, over the keys that `mask` shows) @ v
 *   q    [batch, heads_q, seqlen_q, head_dim]    f16, bf16 or f32; the last stride is 1
 *   k    [batch, heads_k, seqlen_k, head_dim]    heads_q % heads_k == 0
 *   v    [batch, heads_k, seqlen_k, head_dim_v]
 *   out  [batch, heads_q, seqlen_q, head_dim_v]
 *   lse  [batch, heads_q, seqlen_q] f32, or absent: natural log of the sum of exp(sm_scale * q.k)
 * A row that sees no key gives out = 0 and lse = -inf. */
typedef struct aot_attn_fwd_params {
  uint32_t struct_size;
  int32_t mask;      /* aot_mask */
  int32_t alignment; /* aot_alignment; read if mask is not none */
  float sm_scale;
  int64_t window_left; /* read if mask is window */
  int64_t window_right;
  aot_tensor q;
  aot_tensor k;
  aot_tensor v;
  aot_tensor out;
  aot_tensor lse;
} aot_attn_fwd_params;

/* Device memory that lives until the work enqueued by the call is done, 16-byte aligned, or null.
 * Called on the calling thread, at most once a call, under no lock of this library. */
typedef void* (*aot_allocate_fn)(void* context, size_t bytes);

/* How and where to run. */
typedef struct aot_call {
  uint32_t struct_size;
  int32_t platform; /* aot_platform */
  int32_t device;   /* ordinal, as the platform counts */
  int32_t reserved; /* 0 */
  void* stream;     /* cudaStream_t / hipStream_t; null is the default stream */
  aot_allocate_fn allocate;
  void* allocate_context;
  const char* plan; /* null: the tuning database chooses. Else only plans "backend/kernel/config"
                       that start with this. */
} aot_call;

/* Enqueues the operator on the call's stream and returns before the device has run it. */
AOT_API aot_status aot_attn_fwd(const aot_attn_fwd_params* params, const aot_call* call);

/* Loads what `params` would launch, so that a later call loads nothing. `op` is "attn_fwd"; tensors
 * need no data. */
AOT_API aot_status aot_preload(const char* op, const void* params, const aot_call* call);

/* Says, without a device, which plan `params` gets on `arch` and why: `text` is a JSON object of
 *   op, arch, compute_units, status ("ok" or "unsupported"), reason, features, provenance;
 *   plan: the steps, each with kernel, backend, config, symbol, grid, threads, cluster,
 *     shared_bytes, arguments (the packed argument block in hex);
 *   candidates: features, plan and refused (the reason or null) of every plan that was looked at.
 * compute_units 0 takes the arch's own number; plan as in aot_call. `needed`, if not null, gets
 * the size that the text needs with its terminator; a text cut short is AOT_BAD_ARGUMENT. An
 * unsupported problem is AOT_OK. */
AOT_API aot_status aot_explain(const char* op, const void* params, const char* arch,
                               int32_t compute_units, const char* plan, char* text, size_t size,
                               size_t* needed);

/* Lays the user's tuning database over the installed one (and over AOTATTN_TUNING_DB), for problems
 * not yet seen as well as for those seen. Null takes it away. */
AOT_API aot_status aot_set_tuning_db(const char* path);

/* The arch of a device ("gfx950", "sm_90") and its number of compute units. */
AOT_API aot_status aot_device_info(int32_t platform, int32_t device, char* arch, size_t size,
                                   int32_t* compute_units);

/* This thread's last error, "" if none; valid until the next call on this thread. */
AOT_API const char* aot_last_error(void);
AOT_API const char* aot_status_name(aot_status status);

/* The library's version, and a JSON object of what it was built from. */
AOT_API const char* aot_version(void);
AOT_API const char* aot_build_info(void);

/* Kernels launched by this process so far. */
AOT_API uint64_t aot_launch_count(void);

/* Told once of each thing worth a word (a tuning database that cannot be read, a plan that did not
 * load). level: 0 warning, 1 debug. Null: nobody is told. What `log` throws is dropped. */
typedef void (*aot_log_fn)(void* context, int32_t level, const char* message);
AOT_API void aot_set_log(aot_log_fn log, void* context);

#ifdef __cplusplus
}
#endif

#endif
