"""Small Triton kernels, compiled for gfx950 without a GPU."""

import functools

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGET = GPUTarget("hip", "gfx950", 64)


def compile_kernel(fn, types, constants, align16=(), range32=(), **options):
    """A compiled kernel; `types` by argument name, `constants` frozen at build time."""
    signature = {a: ("constexpr" if a in constants else types[a]) for a in fn.arg_names}
    attrs = {}
    for name in align16:
        attrs.setdefault((fn.arg_names.index(name),), []).append(["tt.divisibility", 16])
    for name in range32:
        attrs.setdefault((fn.arg_names.index(name),), []).append(["tt.pointer_range", 32])
    source = ASTSource(fn=fn, signature=signature, constexprs=constants, attrs=attrs)
    return triton.compile(source, target=TARGET, options={"enable_fp_fusion": True, **options})


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x + y, mask=offsets < n)


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale_log2,
    seqlen_q, seqlen_k,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Flash attention forward; q k v out are [heads, rows, HEAD_DIM], contiguous."""
    m_block = tl.program_id(0)
    head = tl.program_id(1)
    rows = m_block * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD_DIM)
    q_base = head * seqlen_q * HEAD_DIM
    k_base = head * seqlen_k * HEAD_DIM
    q = tl.load(q_ptr + q_base + rows[:, None] * HEAD_DIM + dims[None, :], mask=rows[:, None] < seqlen_q, other=0.0)
    row_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    last = seqlen_k
    if CAUSAL:
        last = tl.minimum(seqlen_k, m_block * BLOCK_M + BLOCK_M)
    for first in range(0, last, BLOCK_N):
        keys = first + tl.arange(0, BLOCK_N)
        inside = keys < seqlen_k
        k = tl.load(k_ptr + k_base + keys[None, :] * HEAD_DIM + dims[:, None], mask=inside[None, :], other=0.0)
        scores = tl.dot(q, k) * scale_log2
        seen = inside[None, :]
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        p = tl.exp2(scores - new_max[:, None])
        alpha = tl.exp2(row_max - new_max)
        v = tl.load(v_ptr + k_base + keys[:, None] * HEAD_DIM + dims[None, :], mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        row_sum = row_sum * alpha + tl.sum(p, 1)
        row_max = new_max
    out = acc / row_sum[:, None]
    mask = rows[:, None] < seqlen_q
    tl.store(out_ptr + q_base + rows[:, None] * HEAD_DIM + dims[None, :], out.to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(lse_ptr + head * seqlen_q + rows, (row_max + tl.log2(row_sum)) * 0.6931471805599453, mask=rows < seqlen_q)


@triton.jit
def masked_kernel(x_ptr, seen_ptr, out_ptr, BLOCK: tl.constexpr):
    """Boolean masks, as attention with an explicit mask reads them."""
    offsets = tl.arange(0, BLOCK)
    seen = tl.load(seen_ptr + offsets) != 0
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, tl.where(seen, x * x + x, -1.0))


@triton.jit
def dropout_kernel(x_ptr, keep_ptr, out_ptr, seed, p, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    keep = tl.rand(seed, offsets) > p
    tl.store(keep_ptr + offsets, keep.to(tl.int8))
    tl.store(out_ptr + offsets, tl.where(keep, tl.load(x_ptr + offsets) / (1.0 - p), 0.0))


@triton.jit
def scan_kernel(x_ptr, out_ptr, sum_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, tl.cumsum(x, 0))
    tl.atomic_add(sum_ptr + offsets % 16, x)


@functools.cache
def masked(dtype, mask):
    types = {"x_ptr": f"*{dtype}", "seen_ptr": f"*{mask}", "out_ptr": f"*{dtype}"}
    return compile_kernel(masked_kernel, types, {"BLOCK": 512}, align16=tuple(types), range32=tuple(types))


@functools.cache
def dropout():
    types = {"x_ptr": "*fp32", "keep_ptr": "*i8", "out_ptr": "*fp32", "seed": "i32", "p": "fp32"}
    return compile_kernel(dropout_kernel, types, {"BLOCK": 1024}, align16=("x_ptr", "keep_ptr", "out_ptr"))


@functools.cache
def scan(dtype):
    types = dict.fromkeys(("x_ptr", "out_ptr", "sum_ptr"), f"*{dtype}")
    return compile_kernel(scan_kernel, types, {"BLOCK": 512}, align16=tuple(types))


@functools.cache
def add(dtype="fp32", block=256, num_warps=4, ranged=False):
    pointer = f"*{dtype}"
    return compile_kernel(
        add_kernel, {"x_ptr": pointer, "y_ptr": pointer, "out_ptr": pointer, "n": "i32"}, {"BLOCK": block},
        align16=("x_ptr", "y_ptr", "out_ptr"), range32=("x_ptr", "y_ptr", "out_ptr") if ranged else (),
        num_warps=num_warps,
    )  # fmt: skip


@functools.cache
def attention(dtype="bf16", head_dim=64, causal=False, block_m=128, block_n=64, num_warps=4, num_stages=2, ranged=True):
    pointers = ("q_ptr", "k_ptr", "v_ptr", "out_ptr")
    types = dict.fromkeys(pointers, f"*{dtype}")
    types |= {"lse_ptr": "*fp32", "scale_log2": "fp32", "seqlen_q": "i32", "seqlen_k": "i32"}
    return compile_kernel(
        attention_kernel, types,
        {"HEAD_DIM": head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n, "CAUSAL": causal},
        align16=(*pointers, "lse_ptr"), range32=pointers if ranged else (),
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
