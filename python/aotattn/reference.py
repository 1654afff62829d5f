"""What attention should give, and how a result is judged.

A result passes if it errs at most twice as much as the plain formula in its own dtype does, plus a small floor; for the
largest error of an element and for the relative error in the Frobenius norm. Both are measured against float64.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .describe import UserError

if TYPE_CHECKING:
    import torch

    Result = tuple[torch.Tensor, torch.Tensor]  # out, lse

# Of the largest magnitude: about half a unit in the last place, the luck of one rounding.
FLOOR = {"f32": 2e-6, "f16": 2e-4, "bf16": 2e-3}
ABSOLUTE_FLOOR = 1e-6
SCORES_AT_A_TIME = 1 << 26  # elements; in float64 half a GiB
Index = tuple[slice, slice, slice]  # of batch, heads_q, seqlen_q


@dataclass(frozen=True)
class Mask:
    """Which keys a query sees; words and bounds as in aotattn.h."""

    mask: str = "none"
    alignment: str = "top_left"
    window_left: int = -1
    window_right: int = -1

    def visible(self, rows: slice, seqlen_q: int, seqlen_k: int, device: "torch.device") -> "torch.Tensor | None":
        """bool [rows, seqlen_k]; None: all."""
        import torch

        if self.mask == "none":
            return None
        left, right = (self.window_left, self.window_right) if self.mask == "window" else (-1, 0)
        shift = seqlen_k - seqlen_q if self.alignment == "bottom_right" else 0
        diagonal = torch.arange(rows.start, rows.stop, device=device)[:, None] + shift
        keys = torch.arange(seqlen_k, device=device)[None, :]
        seen = torch.ones(rows.stop - rows.start, seqlen_k, dtype=torch.bool, device=device)
        if left >= 0:
            seen &= keys >= diagonal - left
        if right >= 0:
            seen &= keys <= diagonal + right
        return seen


def exact(q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", *, sm_scale: float, mask: Mask) -> "Result":
    """Attention in float64, the reference that every kernel is compared with.

    q    [batch, heads_q, seqlen_q, head_dim]    any float dtype
    k    [batch, heads_k, seqlen_k, head_dim]    heads_q % heads_k == 0
    v    [batch, heads_k, seqlen_k, head_dim_v]
    Returns out [batch, heads_q, seqlen_q, head_dim_v] and lse [batch, heads_q, seqlen_q], natural log, both float64; a
    row that sees no key gives 0 and -inf.  Raises UserError if the head counts do not divide.
    Source: arXiv:1706.03762, equation 1.
    """
    import torch

    out = torch.zeros(*q.shape[:3], v.shape[3], dtype=torch.float64, device=q.device)
    lse = torch.full(q.shape[:3], -math.inf, dtype=torch.float64, device=q.device)
    for index, (block_out, block_lse), _ in blocks(q, k, v, sm_scale=sm_scale, mask=mask):
        out[index], lse[index] = block_out, block_lse
    return out, lse


def plain(q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", *, sm_scale: float, mask: Mask) -> "Result":
    """The plain formula in the dtype of the tensors, scores and softmax in float32; as exact()."""
    import torch

    out = torch.zeros(*q.shape[:3], v.shape[3], dtype=q.dtype, device=q.device)
    lse = torch.full(q.shape[:3], -math.inf, dtype=torch.float32, device=q.device)
    for index, _, (block_out, block_lse) in blocks(q, k, v, sm_scale=sm_scale, mask=mask):
        out[index], lse[index] = block_out, block_lse
    return out, lse


def blocks(
    q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", *, sm_scale: float, mask: Mask
) -> Iterator[tuple[Index, "Result", "Result"]]:
    """(where in out, exact(), plain()) piece by piece, so that no scores of a large problem are ever all there."""
    import torch

    if q.shape[1] % k.shape[1]:
        raise UserError(f"heads_q = {q.shape[1]} is no multiple of heads_k = {k.shape[1]}")
    group, seqlen_q, seqlen_k = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    for batch, heads, rows in pieces((q.shape[0], k.shape[1], seqlen_q), group * max(seqlen_k, 1)):
        heads_q = slice(heads.start * group, heads.stop * group)
        seen = mask.visible(rows, seqlen_q, seqlen_k, q.device)
        piece = (q[batch, heads_q, rows].unflatten(1, (-1, group)), k[batch, heads], v[batch, heads])
        fine = attend(*piece, seen, sm_scale, torch.float64)
        coarse = attend(*piece, seen, sm_scale, torch.float32)
        yield (
            (batch, heads_q, rows),
            (fine[0].flatten(1, 2), fine[1].flatten(1, 2)),
            (coarse[0].flatten(1, 2).to(q.dtype), coarse[1].flatten(1, 2)),
        )


def pieces(sizes: tuple[int, int, int], weight: int) -> Iterator[Index]:
    """Cut a box into pieces of at most SCORES_AT_A_TIME / weight points; inner axes stay whole if they fit."""
    if 0 in sizes:
        return
    points = max(1, SCORES_AT_A_TIME // weight)
    steps: list[int] = []
    for size in reversed(sizes):
        steps.insert(0, max(1, min(size, points)))
        points //= size
    for b in range(0, sizes[0], steps[0]):
        for h in range(0, sizes[1], steps[1]):
            for r in range(0, sizes[2], steps[2]):
                starts = (b, h, r)
                cut = [slice(s, min(s + n, size)) for s, n, size in zip(starts, steps, sizes, strict=True)]
                yield (cut[0], cut[1], cut[2])


def attend(
    q: "torch.Tensor",
    k: "torch.Tensor",
    v: "torch.Tensor",
    seen: "torch.Tensor | None",
    sm_scale: float,
    compute: "torch.dtype",
) -> "Result":
    """out and lse of q [b, heads, group, rows, d] on k, v [b, heads, keys, d]; float32 rounds p to the dtype of v."""
    import torch

    if k.shape[2] == 0:
        empty = torch.zeros(*q.shape[:4], v.shape[3], dtype=compute, device=q.device)
        return empty, torch.full(q.shape[:4], -math.inf, dtype=compute, device=q.device)
    scores = (q.flatten(2, 3).to(compute) @ k.to(compute).mT * sm_scale).unflatten(2, q.shape[2:4])
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    row_max = scores.amax(-1, keepdim=True)
    safe_max = row_max.clamp_min(torch.finfo(compute).min)  # a row that sees no key
    p = torch.exp(scores - safe_max)
    row_sum = p.sum(-1, keepdim=True)
    p = p / row_sum.clamp_min(torch.finfo(compute).tiny)
    if compute == torch.float32:
        p = p.to(v.dtype)
    out = (p.to(compute).flatten(2, 3) @ v.to(compute)).unflatten(2, q.shape[2:4])
    return out, (row_max + torch.log(row_sum)).squeeze(-1)


def score_resolution(q: "torch.Tensor", k: "torch.Tensor", sm_scale: float) -> float:
    """A bound of one unit in the last place of an f32 score: by as much, relatively, p is uncertain."""
    if q.numel() == 0 or k.numel() == 0:
        return 0.0
    longest = q.float().norm(dim=-1).max() * k.float().norm(dim=-1).max()
    return abs(sm_scale) * float(longest) * 2.0**-23


@dataclass(frozen=True)
class Check:
    """One figure of a judgement; `error` is not finite where a value is not finite that should be, or the reverse."""

    name: str
    error: float
    allowed: float

    @property
    def passed(self) -> bool:
        return self.error <= self.allowed


class Tally:
    """The errors of a result and of the baseline, gathered piece by piece on the device.

    resolution   see score_resolution(): of two keys that nearly tie, nobody who holds scores in f32 knows p better
    """

    def __init__(self, name: str, dtype: str, resolution: float = 0.0) -> None:
        self.name, self.floor = name, max(FLOOR[dtype], resolution)
        self.resolution = resolution if resolution > FLOOR[dtype] else 0.0
        self.maxima: list[torch.Tensor] = []  # [of the error, of the baseline's error, of the exact values]
        self.squares: list[torch.Tensor] = []
        self.wrong: list[torch.Tensor] = []  # elements whose finiteness is wrong
        self.count = 0

    def add(self, actual: "torch.Tensor", exact: "torch.Tensor", baseline: "torch.Tensor") -> None:
        import torch

        if actual.numel() == 0:
            return
        finite = exact.isfinite()
        values = actual.double()
        self.wrong.append(((values.isfinite() != finite) | (~finite & (values != exact))).sum())
        zero = torch.zeros((), dtype=torch.float64, device=exact.device)
        # what is wrong is counted above; here it must not hide the rest
        differences = (values - exact, baseline.double() - exact, exact)
        parts = [torch.where(finite & part.isfinite(), part, zero) for part in differences]
        self.maxima.append(torch.stack([part.abs().max() for part in parts]))
        self.squares.append(torch.stack([part.square().sum() for part in parts]))
        self.count += actual.numel()

    def checks(self) -> list[Check]:
        import torch

        if not self.count:
            return [Check(f"{self.name} max", 0.0, 0.0)]
        largest = torch.stack(self.maxima).amax(0).tolist()
        norms = torch.stack(self.squares).sum(0).sqrt().tolist()
        wrong = math.inf if int(torch.stack(self.wrong).sum()) else 0.0
        norm = max(norms[2], 1e-30)
        # the luck of single roundings evens out over many elements
        frobenius_floor = self.floor / math.sqrt(self.count) + self.resolution + ABSOLUTE_FLOOR
        return [
            Check(
                f"{self.name} max",
                largest[0] + wrong,
                2 * largest[1] + self.floor * largest[2] + ABSOLUTE_FLOOR,
            ),
            Check(
                f"{self.name} frobenius",
                (norms[0] if norms[2] else largest[0]) / (norm if norms[2] else 1) + wrong,
                2 * (norms[1] / norm if norms[2] else 0.0) + frobenius_floor,
            ),
        ]


def judge(
    name: str, dtype: str, actual: "torch.Tensor", exact: "torch.Tensor", baseline: "torch.Tensor"
) -> list[Check]:
    """Whether `actual` errs at most twice as much as `baseline` does: largest element, then Frobenius norm."""
    tally = Tally(name, dtype)
    tally.add(actual, exact, baseline)
    return tally.checks()


def worst(checks: list[Check]) -> Check:
    """The check that is nearest to failing, or fails most clearly."""
    return max(checks, key=lambda c: c.error / c.allowed if c.allowed else c.error and math.inf)
