"""`Case`: a problem, and its one text form, which is test id, command-line argument, filter and row.

    op=attn_fwd,dtype=bf16,batch=2,heads_q=8,heads_k=2,seqlen_q=1024,seqlen_k=1024,head_dim=128,mask=causal

The fields of that line are always written; further ones (see `Case`) only where they differ from their default.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..describe import Choice, Scalar, Tensor, UserError, text
from ..dtypes import DTYPES
from ..runtime import OPERATORS, View

FOLLOWS = {"heads_k": "heads_q", "seqlen_k": "seqlen_q", "head_dim_v": "head_dim"}  # left out: as large as
SAME = -(2**31)
ALWAYS_WRITTEN = 9  # fields

Sizes = tuple[int, ...]

# What the values of the inputs are; inputs.py draws them.
INPUTS = {
    "normal": "N(0, 1)",
    "normal3": "3 * N(0, 1)",
    "negative900": "q and k uniform in [-900, 0], v uniform in [0, 1]: f16 logits beyond 65504",
    "large_dots": "q.k between 1e5 and 4e5 before the scale",
    "low_scores": "scores about -122 for every key",
    "zero_q": "q = 0: all scores equal",
    "one_hot_v": "v[j] is 1 at j % head_dim_v, else 0: out shows which keys were seen",
}


def _rows(row: int) -> Callable[[Sizes], Sizes]:
    return lambda size: (math.prod(size[1:3]) * row, size[2] * row, row, 1)


def _bhsd(size: Sizes) -> Sizes:
    return _rows(size[3])(size)


# How tensors lie in memory: name -> sizes [batch, heads, seqlen, head_dim] -> strides.
LAYOUTS: dict[str, Callable[[Sizes], Sizes]] = {
    "bhsd": _bhsd,
    "bshd": lambda size: (math.prod(size[1:]), size[3], size[1] * size[3], 1),
    "sbhd": lambda size: (size[1] * size[3], size[3], size[0] * size[1] * size[3], 1),
    "padded": lambda size: _rows((size[3] + 15) // 8 * 8)(size),  # rows start at multiples of 8 elements
    "odd": lambda size: _rows(size[3] + 3)(size),
    "packed": lambda size: (3 * math.prod(size[1:]), size[3], 3 * size[1] * size[3], 1),  # a third of wider rows
    "broadcast": lambda size: (0, 0, size[3], 1),  # k and v: one head for all; q and out as in bhsd
}


@dataclass(frozen=True)
class Placement:
    """Where a tensor lies in a flat storage of `extent` elements."""

    dtype: str
    size: Sizes
    stride: Sizes
    offset: int
    extent: int


@dataclass(frozen=True)
class Case:
    """A problem of an operator.

    heads_k, seqlen_k, head_dim_v   left out: as heads_q, seqlen_q, head_dim
    alignment, window_left, window_right, sm_scale   as in aotattn.h; sm_scale left out: 1 / sqrt(head_dim)
    layout   how the tensors lie in memory, see LAYOUTS
    inputs   what their values are, see INPUTS
    lse      whether the log-sum-exp is asked for
    """

    op: str = "attn_fwd"
    dtype: str = "bf16"
    batch: int = 1
    heads_q: int = 1
    heads_k: int = SAME
    seqlen_q: int = 64
    seqlen_k: int = SAME
    head_dim: int = 64
    mask: str = "none"
    head_dim_v: int = SAME
    alignment: str = "top_left"
    window_left: int = -1
    window_right: int = -1
    sm_scale: float = math.nan
    layout: str = "bhsd"
    inputs: str = "normal"
    lse: bool = True

    def __post_init__(self) -> None:
        """Put in what was left out, then check."""
        for name, same_as in FOLLOWS.items():
            if getattr(self, name) == SAME:
                object.__setattr__(self, name, getattr(self, same_as))
        if math.isnan(self.sm_scale):
            object.__setattr__(self, "sm_scale", default_scale(self.head_dim))
        for name, allowed in allowed_values().items():
            if getattr(self, name) not in allowed:
                raise UserError(f"case: {name} = {getattr(self, name)}; allowed: {', '.join(map(str, allowed))}")
        for name in ("batch", "heads_q", "heads_k", "seqlen_q", "seqlen_k", "head_dim", "head_dim_v"):
            if getattr(self, name) < 0:
                raise UserError(f"{self.op}: {name} = {getattr(self, name)} is negative")
        if self.heads_k == 0 or self.heads_q % self.heads_k:
            raise UserError(f"{self.op}: heads_q = {self.heads_q} is no multiple of heads_k = {self.heads_k}")

    @classmethod
    def parse(cls, line: str) -> "Case":
        values: dict[str, Any] = {name: _value(name, word) for name, word in _words(line).items()}
        return cls(**values)

    def but(self, **changes: Any) -> "Case":
        """The case with some fields changed; what had followed from a changed field follows it again."""
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        values |= {name: SAME for name, same_as in FOLLOWS.items() if values[name] == values[same_as]}
        if self.sm_scale == default_scale(self.head_dim):
            values["sm_scale"] = math.nan
        values |= changes
        return Case(**values)

    def __str__(self) -> str:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        always = {name: values.pop(name) for name in list(values)[:ALWAYS_WRITTEN]}
        plain = Case(head_dim=self.head_dim)
        return text(always | {name: value for name, value in values.items() if value != getattr(plain, name)})

    @property
    def empty(self) -> bool:
        """Nothing to compute and nothing to launch."""
        return 0 in (self.batch, self.heads_q, self.seqlen_q, self.head_dim_v)

    def visible_pairs(self) -> int:
        """How many (query, key) pairs of one head the mask shows."""
        if self.mask == "none":
            return self.seqlen_q * self.seqlen_k
        shift = self.seqlen_k - self.seqlen_q if self.alignment == "bottom_right" else 0
        left, right = (self.window_left, self.window_right) if self.mask == "window" else (-1, 0)
        pairs = 0
        for diagonal in range(shift, shift + self.seqlen_q):
            first = 0 if left < 0 else max(0, diagonal - left)
            last = self.seqlen_k - 1 if right < 0 else min(self.seqlen_k - 1, diagonal + right)
            pairs += max(0, last - first + 1)
        return pairs

    def flops(self) -> int:
        """Of the two matrix products, over visible pairs only."""
        return 2 * self.batch * self.heads_q * self.visible_pairs() * (self.head_dim + self.head_dim_v)

    def bytes(self) -> int:
        """Every tensor read or written once."""
        return sum(math.prod(p.size) * DTYPES[p.dtype].bytes for p in self.tensors().values())

    def tensors(self) -> dict[str, Placement]:
        """Name -> placement, for every tensor that the case has."""
        placed = {}
        for tensor in OPERATORS[self.op].tensors:
            if tensor.optional and not getattr(self, tensor.name):
                continue
            size = tuple(int(getattr(self, axis)) for axis in tensor.axes.split())
            dtype = self.dtype if tensor.dtype == "dtype" else tensor.dtype
            placed[tensor.name] = _place(tensor, dtype, size, self.layout)
        return placed

    def arguments(self, views: Mapping[str, View]) -> dict[str, object]:
        """What runtime.parameters() takes: the case's choices and scalars, and views of memory."""
        args = OPERATORS[self.op].args
        plain = {a.name: getattr(self, a.name) for a in args if isinstance(a, Choice | Scalar)}
        return plain | dict(views)


def _place(tensor: Tensor, dtype: str, size: Sizes, layout: str) -> Placement:
    if layout == "broadcast" and tensor.name not in ("k", "v"):
        layout = "bhsd"
    if len(size) == 4:
        stride = LAYOUTS[layout](size)
        offset = size[1] * size[3] if layout == "packed" else 0
    else:  # rows of numbers, one a query; padded where the layout pads
        row = size[2] + (8 if layout in ("padded", "odd", "packed") else 0)
        stride, offset = (size[1] * row, row, 1), 0
    last = sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    return Placement(dtype, size, stride, offset, 0 if 0 in size else offset + last + 1)


def default_scale(head_dim: int) -> float:
    return 1.0 / math.sqrt(head_dim) if head_dim else 1.0


def allowed_values() -> dict[str, Sequence[str]]:
    """Of the fields that are words."""
    operator = OPERATORS["attn_fwd"]
    return {
        "op": tuple(OPERATORS),
        "dtype": tuple(str(v) for f in operator.features if f.name == "dtype" for v in f.values),
        **{a.name: tuple(map(str, a.values)) for a in operator.args if isinstance(a, Choice)},
        "layout": tuple(LAYOUTS),
        "inputs": tuple(INPUTS),
    }


def _words(line: str) -> dict[str, str]:
    """Split `name=value,name=value`, names checked."""
    names = [f.name for f in fields(Case)]
    words: dict[str, str] = {}
    for part in filter(None, line.split(",")):
        name, equals, word = (s.strip() for s in part.partition("="))
        if not equals or not word:
            raise UserError(f"case: {part!r} is no name=value")
        if name not in names:
            raise UserError(f"case: no field {name!r}; the fields are {', '.join(names)}")
        if name in words:
            raise UserError(f"case: {name} is given twice")
        words[name] = word
    return words


def _value(name: str, word: str) -> str | int | float:
    kind = {f.name: f.type for f in fields(Case)}[name]
    if kind is str:
        return word
    if kind is bool:
        if word not in ("0", "1"):
            raise UserError(f"case: {name} = {word}; allowed: 0, 1")
        return word == "1"
    try:
        return int(word) if kind is int else float(word)
    except ValueError:
        raise UserError(f"case: {name} = {word} is no {'integer' if kind is int else 'number'}") from None


def case_filter(line: str) -> Callable[[Case], bool]:
    """`head_dim=128,mask=causal`: cases with these values; `dtype=f16|bf16` takes either."""
    wanted = {name: [_value(name, w) for w in word.split("|")] for name, word in _words(line).items()}
    for name, allowed in allowed_values().items():
        if unknown := [v for v in wanted.get(name, []) if v not in allowed]:
            raise UserError(f"filter: {name} = {unknown[0]}; allowed: {', '.join(allowed)}")
    return lambda case: all(getattr(case, name) in values for name, values in wanted.items())
