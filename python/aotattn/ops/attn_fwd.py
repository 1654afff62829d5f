"""Attention, forward: out = softmax(sm_scale * q @ k.T, over the visible keys) @ v."""

from ..describe import Choice, Operator, Scalar, Tensor

HEAD_DIMS = (16, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256, 384, 512)

attn_fwd = Operator(
    name="attn_fwd",
    args=(
        Choice("mask", ("none", "causal", "window")),
        Choice("alignment", ("top_left", "bottom_right")),
        Scalar("sm_scale", "f32"),
        Scalar("window_left", "i64"),  # after validation: 0 .. the first bound that hides no key
        Scalar("window_right", "i64"),
        Tensor("q", "dtype", "batch heads_q seqlen_q head_dim"),
        Tensor("k", "dtype", "batch heads_k seqlen_k head_dim"),
        Tensor("v", "dtype", "batch heads_k seqlen_k head_dim_v"),
        Tensor("out", "dtype", "batch heads_q seqlen_q head_dim_v"),
        Tensor("lse", "f32", "batch heads_q seqlen_q", optional=True),
    ),
    derived=(
        Scalar("scale_log2", "f32"),  # sm_scale * log2(e)
        Scalar("scale_sign", "i64"),  # of sm_scale: -1, 0 or 1
        Scalar("bottom_right", "i64"),  # 1 if the mask's diagonal is shifted by seqlen_k - seqlen_q
        Scalar("compute_units", "i64"),
    ),
    features=(
        Choice("dtype", ("f16", "bf16", "f32")),
        Choice("head_dim", HEAD_DIMS),
        Choice("head_dim_v", HEAD_DIMS),
        Choice("mask", ("none", "causal", "window")),
        Choice("padded_head", (False, True)),  # head_dim or head_dim_v is less than its bucket
    ),
)
