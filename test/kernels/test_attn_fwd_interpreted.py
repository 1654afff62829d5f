"""tritonsrc/attn_fwd.py in Triton's interpreter against attention in float64: numerics and memory, no GPU, no compiler.

The interpreter's flag must be set before triton is imported, so the cases run in a child Python, one for the file.
"""

import importlib.util
import json
import math
import os
import random
import subprocess
import sys
import traceback
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import pytest

KERNEL = Path(__file__).parents[2] / "tritonsrc" / "attn_fwd.py"
BUCKETS = (16, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256, 384, 512)
UNLIMITED = -1


@dataclass(frozen=True)
class Case:
    dtype: str = "f32"
    batch: int = 1
    heads_q: int = 1
    heads_k: int = 1
    seqlen_q: int = 65
    seqlen_k: int = 65
    head_dim: int = 32
    head_dim_v: int = 0  # 0: as head_dim
    mask: str = "none"
    bottom_right: bool = False
    window_left: int = UNLIMITED
    window_right: int = UNLIMITED
    scale: float | None = None  # None: 1 / sqrt(head_dim)
    layout: str = "BHSD"  # or BSHD: sequence-major storage; expand: k and v shared by the batches with stride 0
    lse: bool = True
    magnitude: float = 1.0  # of q and k
    block_m: int = 32
    block_n: int = 32

    def __str__(self):
        changed = (f for f in fields(self) if getattr(self, f.name) != f.default)
        return ",".join(f"{f.name}={getattr(self, f.name)}" for f in changed) or "defaults"

    @property
    def dim_v(self):
        return self.head_dim_v or self.head_dim


CASES = [
    *(Case(dtype=dtype, head_dim=d, mask="causal") for dtype in ("f32", "f16", "bf16") for d in (16, 48, 96, 224)),
    *(Case(dtype=dtype, head_dim=d, seqlen_q=17, seqlen_k=33) for dtype in ("f32", "f16") for d in (1, 3, 40, 72, 191)),
    *(Case(dtype="bf16", seqlen_q=17, head_dim=d, head_dim_v=d_v) for d, d_v in ((128, 64), (40, 200), (5, 300))),
    *(Case(dtype="f16", seqlen_q=17, head_dim=d) for d in (80, 160, 192, 384, 512)),
    *(Case(dtype="f32", seqlen_q=17, seqlen_k=33, head_dim=d) for d in (256, 512)),
    *(Case(seqlen_q=q, seqlen_k=k) for q in (1, 17, 64, 127) for k in (1, 64, 65)),
    *(
        Case(seqlen_q=q, seqlen_k=k, mask="causal", bottom_right=bottom_right)
        for q, k in ((2, 5), (5, 2), (1, 8), (130, 64), (64, 130), (65, 127), (64, 64))
        for bottom_right in (False, True)
    ),
    *(
        Case(seqlen_q=q, seqlen_k=k, mask="window", window_left=left, window_right=right, bottom_right=bottom_right)
        for q, k in ((127, 127), (100, 161), (161, 65))
        for left, right in ((40, 0), (0, 0), (33, UNLIMITED), (UNLIMITED, 7), (3, 50))
        for bottom_right in (False, True)
    ),
    *(Case(batch=2, heads_q=6, heads_k=h, seqlen_q=33, seqlen_k=40, head_dim=16) for h in (1, 2, 6)),
    Case(batch=2, heads_q=6, heads_k=3, seqlen_q=70, seqlen_k=33, head_dim=16, mask="causal", bottom_right=True),
    *(Case(dtype="f16", batch=2, heads_q=4, heads_k=2, head_dim=24, seqlen_q=33, layout=x) for x in ("BSHD", "expand")),
    Case(seqlen_k=0),
    Case(seqlen_k=0, mask="causal", bottom_right=True),
    Case(seqlen_q=0),
    Case(lse=False),
    *(Case(scale=scale, mask="causal") for scale in (0.0, -0.7, 3.0)),
    Case(dtype="bf16", scale=-0.7),
    Case(dtype="f16", seqlen_q=64, seqlen_k=64, head_dim=64, magnitude=300.0),  # products past 65504
    Case(dtype="bf16", seqlen_q=33, seqlen_k=128, head_dim=72, magnitude=80.0),
    *(Case(seqlen_q=70, seqlen_k=70, mask="causal", block_m=m, block_n=n) for m, n in ((16, 64), (64, 16), (128, 128))),
    *(
        Case(seqlen_q=70, seqlen_k=90, mask="window", window_left=9, window_right=3, block_m=m, block_n=n)
        for m, n in ((16, 64), (64, 16), (128, 128))
    ),
]


@pytest.fixture(scope="module")
def interpreted():
    """Calls a check of this file in a child Python whose Triton interprets: interpreted("check_...", **arguments)."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    with subprocess.Popen([sys.executable, __file__], stdin=-1, stdout=-1, text=True, env=environment) as child:

        def call(check, **arguments):
            arguments["seed"] = random.SystemRandom().randrange(2**31)
            print("seed", arguments["seed"])
            print(json.dumps([check, arguments]), file=child.stdin, flush=True)
            failure = json.loads(child.stdout.readline())
            assert not failure, failure

        yield call
        child.stdin.close()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_float64(interpreted, case):
    interpreted("check_reference", case=asdict(case))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_one_visible_key_copies_v(interpreted, dtype):
    interpreted("check_copies_v", dtype=dtype)


@pytest.mark.parametrize("seqlen_k", [65, 100])
def test_causal_is_a_window_bit_for_bit(interpreted, seqlen_k):
    interpreted("check_causal_is_window", seqlen_k=seqlen_k)


def test_lse_of_equal_scores_is_ln_of_their_number(interpreted):
    interpreted("check_lse_base")


def test_very_negative_scores(interpreted):
    interpreted("check_very_negative_scores")


def test_offsets_past_2_to_the_31(interpreted):
    interpreted("check_wide_stride")


# ---- what runs in the child ------------------------------------------------------------------------------------------


def load_kernel():
    """attn_fwd, interpreted.

    The interpreter (triton 3.9) keeps bf16 as integers: its dot and minus take these for the values, and its conversion
    from f32 cuts off what hardware rounds to nearest, ties to even.
    """
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    dot, negate, cast = builder.create_dot, builder.create_fneg, builder.cast_impl

    def is_bf16(x):
        return x.dtype.scalar == tl.bfloat16

    def create_dot(self, a, b, *rest):
        return dot(self, *(cast(self, x, tl.float32) if is_bf16(x) else x for x in (a, b)), *rest)

    def create_fneg(self, x):
        return handle(x.data ^ 0x8000, tl.bfloat16) if is_bf16(x) else negate(self, x)

    def cast_impl(self, x, dtype):
        if x.dtype.scalar != tl.float32 or dtype.scalar != tl.bfloat16:
            return cast(self, x, dtype)
        bits = np.ascontiguousarray(x.data).view(np.uint32)
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return handle(np.where(np.isnan(x.data), 0x7FC0, rounded).astype(np.uint16), tl.bfloat16)

    builder.create_dot, builder.create_fneg, builder.cast_impl = create_dot, create_fneg, cast_impl
    spec = importlib.util.spec_from_file_location("attn_fwd", KERNEL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.attn_fwd


def torch_dtype(name):
    import torch

    return {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[name]


def poisoned(shape, dtype, layout="BHSD"):
    """A view of `shape` with NaNs around it, more columns and more rows than it shows.  Returns view and storage."""
    import torch

    batch, heads, rows, cols = shape
    if layout == "BSHD":
        storage = torch.full((batch, rows + 1, heads, cols + 3), math.nan, dtype=dtype)
        return storage[:, :rows, :, :cols].transpose(1, 2), storage
    storage = torch.full((1 if layout == "expand" else batch, heads, rows + 1, cols + 3), math.nan, dtype=dtype)
    return storage[:, :, :rows, :cols].expand(shape), storage


def random_inputs(case):
    import torch

    dtype = torch_dtype(case.dtype)
    kv_layout = case.layout
    q_layout = "BHSD" if case.layout == "expand" else case.layout
    q, _ = poisoned((case.batch, case.heads_q, case.seqlen_q, case.head_dim), dtype, q_layout)
    k, _ = poisoned((case.batch, case.heads_k, case.seqlen_k, case.head_dim), dtype, kv_layout)
    v, _ = poisoned((case.batch, case.heads_k, case.seqlen_k, case.dim_v), dtype, kv_layout)
    for x, magnitude in ((q, case.magnitude), (k, case.magnitude), (v, 1.0)):
        x = x[:1] if case.layout == "expand" and x is not q else x
        x.copy_(torch.randn(x.shape) * magnitude)
    return q, k, v


def sm_scale(case):
    return 1 / math.sqrt(case.head_dim) if case.scale is None else case.scale


def run(case, q, k, v):
    """The kernel's out and lse (NaN where not stored); fails if anything outside of out was written."""
    import torch

    bucket, bucket_v = (next(b for b in BUCKETS if b >= d) for d in (case.head_dim, case.dim_v))
    out_layout = "BSHD" if case.layout == "BSHD" else "BHSD"
    out, storage = poisoned((case.batch, case.heads_q, case.seqlen_q, case.dim_v), q.dtype, out_layout)
    lse = torch.full((case.batch, case.heads_q, case.seqlen_q), math.nan)
    lse_argument = lse if case.lse else torch.empty(0)  # data_ptr() == 0
    unlimited = case.seqlen_q + case.seqlen_k
    windows = [unlimited if w == UNLIMITED else min(w, unlimited) for w in (case.window_left, case.window_right)]
    grid = -(-case.seqlen_q // case.block_m) * case.heads_q * case.batch
    strides = [stride for x in (q, k, v, out) for stride in x.stride()[:3]] + list(lse.stride()[:2])
    sizes = case.batch, case.heads_q, case.heads_k, case.seqlen_q, case.seqlen_k, case.head_dim, case.dim_v
    if grid:
        kernel[(grid,)](
            *(q, k, v, out, lse_argument, *strides, *sizes),
            *(sm_scale(case) * math.log2(math.e), *windows, int(case.bottom_right)),
            HEAD_DIM=bucket,
            HEAD_DIM_V=bucket_v,
            MASK=case.mask,
            PADDED_HEAD=(bucket, bucket_v) != (case.head_dim, case.dim_v),
            BLOCK_M=case.block_m,
            BLOCK_N=case.block_n,
        )
    assert storage.isnan().logical_not().sum() <= out.numel(), "wrote outside of out"
    return out, lse


def attention(case, q, k, v, scores_type, value_type):
    """Textbook attention: scores and softmax in scores_type, p and v in value_type.  Returns out and lse."""
    import torch

    group = case.heads_q // case.heads_k
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = q.to(scores_type) @ k.to(scores_type).mT * sm_scale(case)
    row = torch.arange(case.seqlen_q)[:, None] + (case.seqlen_k - case.seqlen_q if case.bottom_right else 0)
    key = torch.arange(case.seqlen_k)[None, :]
    seen = torch.ones(case.seqlen_q, case.seqlen_k, dtype=torch.bool)
    if case.mask == "causal" or (case.mask == "window" and case.window_right != UNLIMITED):
        seen &= key <= row + (0 if case.mask == "causal" else case.window_right)
    if case.mask == "window" and case.window_left != UNLIMITED:
        seen &= key >= row - case.window_left
    scores = scores.masked_fill(~seen, -math.inf)
    lse = scores.logsumexp(-1) if case.seqlen_k else torch.full(scores.shape[:3], -math.inf, dtype=scores_type)
    p = torch.exp(scores - lse.masked_fill(lse == -math.inf, 0.0)[..., None])
    return p.to(value_type).to(scores_type) @ v.to(scores_type), lse


def assert_as_good(name, actual, exact, baseline, share):
    """`actual` may err twice as much as `baseline`, the textbook formula in its dtype, plus `share` of the largest."""
    finite = exact.isfinite()
    assert actual.isfinite().equal(finite), f"{name}: not finite exactly where the reference is"
    if finite.any():
        differences = actual.double() - exact, baseline.double() - exact
        error, allowed, largest = (x[finite].abs().max() for x in (*differences, exact))
        assert error <= 2 * allowed + share * largest + 1e-6, f"{name}: error {error:.3g}, textbook {allowed:.3g}"


def check_reference(case):
    import torch

    case = Case(**case)
    q, k, v = random_inputs(case)
    out, lse = run(case, q, k, v)
    exact, exact_lse = attention(case, q, k, v, torch.float64, torch.float64)
    plain, plain_lse = attention(case, q, k, v, torch.float32, q.dtype)
    assert_as_good("out", out, exact, plain.to(q.dtype), {"f32": 2e-6, "f16": 2e-4, "bf16": 2e-3}[case.dtype])
    assert (out[exact_lse == -math.inf] == 0).all(), "a row without keys is not 0"
    if case.lse:
        assert (lse[exact_lse == -math.inf] == -math.inf).all(), "lse of a row without keys is not -inf"
        assert_as_good("lse", lse, exact_lse, plain_lse, 2e-6)
    else:
        assert lse.isnan().all()


def check_copies_v(dtype):
    windowed = Case(dtype=dtype, mask="window", window_left=0, window_right=0, head_dim=40)
    single = Case(dtype=dtype, seqlen_q=1, seqlen_k=1, head_dim=16, magnitude=3.0)
    for case in (windowed, single):
        q, k, v = random_inputs(case)
        out, lse = run(case, q, k, v)
        score = (q.double() * k.double()).sum(-1) * sm_scale(case)
        assert (lse - score).abs().max() <= 1e-6 * max(1.0, score.abs().max())
        # f32 is divided by a row sum that may be off 1 by the rounding of the score
        assert out.equal(v) if dtype != "f32" else (out - v).abs().max() <= 1e-6 * v.abs().max()


def check_causal_is_window(seqlen_k):
    case = Case(seqlen_k=seqlen_k, mask="causal")
    q, k, v = random_inputs(case)
    out, lse = run(case, q, k, v)
    for left in (UNLIMITED, max(case.seqlen_q, seqlen_k), max(case.seqlen_q, seqlen_k) - 1):
        window = Case(seqlen_k=seqlen_k, mask="window", window_left=left, window_right=0)
        assert all(x.equal(y) for x, y in zip(run(window, q, k, v), (out, lse), strict=True)), f"window_left={left}"


def check_lse_base():
    case = Case(dtype="bf16", seqlen_k=100)
    q, k, v = random_inputs(case)
    _, lse = run(case, q.zero_(), k, v)
    assert (lse - math.log(100)).abs().max() <= 1e-6


def check_very_negative_scores():
    for seqlen_k in (128, 97):
        case = Case(dtype="bf16", seqlen_q=1, seqlen_k=seqlen_k, head_dim=128, scale=1.0)
        q, k, v = random_inputs(case)
        q.fill_(1.0)
        k.mul_(0.02).sub_(122 / 128)
        out, lse = run(case, q, k, v)
        exact, exact_lse = (x.double() for x in attention(case, q, k, v, q.double().dtype, q.double().dtype))
        assert (lse - exact_lse).abs().max() <= 1e-4
        assert (out - exact).abs().max() <= 2e-2


def check_wide_stride():
    """Strides that pass 2^31 within one block of keys.  The memory between the rows is never touched."""
    import torch

    case = Case(dtype="f16", seqlen_q=17, seqlen_k=40)
    q, k, v = random_inputs(case)
    stride = 2**27 + 8  # 17 rows pass 2^31
    storage = torch.empty(stride * case.seqlen_k, dtype=torch.float16)
    wide_k, wide_v = (storage.as_strided(k.shape, (0, 0, stride, 1), offset) for offset in (0, case.head_dim))
    wide_k.copy_(k)
    wide_v.copy_(v)
    expected, _ = run(case, q, k, v)
    actual, _ = run(case, q, wide_k, wide_v)
    assert actual.equal(expected)


def serve():
    """Answers each line [check, arguments] of stdin with a line: the failure's text, empty if there was none."""
    import torch

    torch.set_num_threads(1)
    for line in sys.stdin:
        check, arguments = json.loads(line)
        torch.manual_seed(arguments.pop("seed"))
        try:
            globals()[check](**arguments)
            failure = ""
        except Exception:
            failure = traceback.format_exc()
        print(json.dumps(failure), flush=True)


if __name__ == "__main__":
    kernel = load_kernel()
    serve()
