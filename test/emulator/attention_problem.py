"""Attention problems: inputs, float64 reference, and runs of the small Triton kernel."""

import numpy as np
import torch
import triton_kernels

TORCH = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
TILES = {"fp32": {"num_stages": 1, "block_m": 64, "block_n": 32}}


def inputs(dtype, heads, seqlen_q, seqlen_k, head_dim, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((heads, seqlen_q, head_dim), (heads, seqlen_k, head_dim), (heads, seqlen_k, head_dim))
    return [torch.randn(*s, generator=generator).to(TORCH[dtype]) for s in shapes]


def reference(q, k, v, scale, causal, bottom_right=False):
    """float64 out and lse."""
    scores = (q.double() @ k.double().mT) * scale
    if causal:
        shift = k.shape[-2] - q.shape[-2] if bottom_right else 0
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(shift), float("-inf"))
    return torch.softmax(scores, -1) @ v.double(), torch.logsumexp(scores, -1)


def plain(q, k, v, scale, causal, bottom_right=False):
    """The same formula in the inputs' own dtype: the error a kernel is compared with."""
    scores = (q @ k.mT) * scale
    if causal:
        shift = k.shape[-2] - q.shape[-2] if bottom_right else 0
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(shift), float("-inf"))
    return torch.softmax(scores, -1) @ v


def assert_as_good(name, actual, exact, baseline):
    """`actual` may err at most twice as much as `baseline`, the plain formula in the same dtype."""
    error, allowed = ((t.double() - exact).abs().max().item() for t in (actual, baseline))
    assert error <= 2 * allowed + 1e-6, f"{name}: error {error:.3g}, the plain formula errs by {allowed:.3g}"


def raw(tensor):
    return tensor.numpy() if tensor.dtype == torch.float32 else tensor.view(torch.int16).numpy()


def typed(array, dtype):
    return torch.from_numpy(array) if dtype == "fp32" else torch.from_numpy(array).view(TORCH[dtype])


class Problem:
    """One attention problem on the device; run(image) launches and returns out and lse."""

    def __init__(self, hip, dtype="bf16", head_dim=64, causal=False, heads=1, seqlen_q=128, seqlen_k=None, **tile):
        self.hip, self.dtype, self.causal = hip, dtype, causal
        self.tile = {**TILES.get(dtype, {}), **tile}
        self.kernel = triton_kernels.attention(dtype, head_dim, causal, **self.tile)
        self.image = self.kernel.asm["hsaco"]
        self.q, self.k, self.v = inputs(dtype, heads, seqlen_q, seqlen_k or seqlen_q, head_dim)
        self.scale = head_dim**-0.5
        self.buffers = [hip.array(raw(t)) for t in (self.q, self.k, self.v)]

    def run(self, image=None, name="attention_kernel"):
        heads, seqlen_q, _ = self.q.shape
        out = self.hip.empty(self.q.shape, raw(self.q).dtype)
        lse = self.hip.empty((heads, seqlen_q), np.float32)
        function = self.hip.function(image or self.image, name)  # or a loaded module
        block_m, warps = self.tile.get("block_m", 128), self.tile.get("num_warps", 4)
        self.hip.launch(
            function, (-(-seqlen_q // block_m), heads, 1), (64 * warps, 1, 1), self.kernel.metadata.shared,
            *self.buffers, out, lse, float(self.scale * 1.4426950408889634), seqlen_q, self.k.shape[1], None, None,
        )  # fmt: skip
        return typed(out.numpy(), self.dtype), torch.from_numpy(lse.numpy())

    def check(self, out, lse):
        exact, exact_lse = reference(self.q, self.k, self.v, self.scale, self.causal)
        assert_as_good("out", out, exact, plain(self.q, self.k, self.v, self.scale, self.causal))
        assert (lse - exact_lse).abs().max() < 1e-5
