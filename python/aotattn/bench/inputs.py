"""Storages of a case's tensors, with guards around them, and random values in those of the inputs."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..dtypes import DTYPES
from .cases import Case, Placement

if TYPE_CHECKING:
    import torch

    Draw = Callable[[torch.Tensor, torch.Generator], torch.Tensor]

GUARD_BYTES = 4096  # before and after each tensor
POISON = {"f32": 0x7FC0BEEF, "f16": 0x7EEF, "bf16": 0x7FEF}  # NaNs that no arithmetic makes


@dataclass(frozen=True)
class Stored:
    """A tensor in a flat storage whose other elements, guards and gaps alike, are poison."""

    dtype: str
    storage: "torch.Tensor"
    view: "torch.Tensor"
    offset: int  # of the view's first element, in elements

    def poison(self) -> None:
        self._bits(self.storage).fill_(POISON[self.dtype])

    def stray_writes(self) -> int:
        """How many elements outside the view have changed."""
        bits = self._bits(self.storage).clone()
        inside = bits.as_strided(self.view.shape, self.view.stride(), self.offset)
        inside.fill_(POISON[self.dtype])
        return int((bits != POISON[self.dtype]).sum())

    def _bits(self, tensor: "torch.Tensor") -> "torch.Tensor":
        import torch

        return tensor.view(torch.int32 if self.dtype == "f32" else torch.int16)


def store(placement: Placement, device: "torch.device | str") -> Stored:
    """Memory for a tensor, all of it poison."""
    import torch

    dtype = DTYPES[placement.dtype]
    guard = GUARD_BYTES // dtype.bytes
    storage = torch.empty(guard + placement.extent + guard, dtype=getattr(torch, dtype.torch), device=device)
    offset = guard + placement.offset
    stored = Stored(placement.dtype, storage, storage.as_strided(placement.size, placement.stride, offset), offset)
    stored.poison()
    return stored


def draw(case: Case, device: "torch.device | str", seed: int) -> dict[str, Stored]:
    """The case's tensors: q, k, v with values after `case.inputs`, the outputs poison. Same seed, same values."""
    import torch

    tensors = {name: store(placement, device) for name, placement in case.tensors().items()}
    generator = torch.Generator(device)
    generator.manual_seed(seed ^ zlib.crc32(str(case).encode()))
    for name, fill in zip("qkv", draws(case)[case.inputs], strict=True):
        fill(_distinct(tensors[name].view), generator)
    return tensors


def _distinct(view: "torch.Tensor") -> "torch.Tensor":
    """The part of a broadcast view that holds its elements once each."""
    for axis, stride in enumerate(view.stride()):
        if stride == 0 and view.shape[axis] > 1:
            view = view.narrow(axis, 0, 1)
    return view


def _normal(mean: float = 0.0, deviation: float = 1.0) -> "Draw":
    return lambda tensor, generator: tensor.normal_(mean, deviation, generator=generator)


def _uniform(low: float, high: float) -> "Draw":
    return lambda tensor, generator: tensor.uniform_(low, high, generator=generator)


def _zero(tensor: "torch.Tensor", _: "torch.Generator") -> "torch.Tensor":
    return tensor.zero_()


def _one_hot(tensor: "torch.Tensor", _: "torch.Generator") -> "torch.Tensor":
    tensor.zero_()
    for start in range(0, tensor.shape[2], tensor.shape[3]):
        tensor[:, :, start : start + tensor.shape[3]].diagonal(dim1=2, dim2=3).fill_(1)
    return tensor


def draws(case: Case) -> dict[str, tuple["Draw", "Draw", "Draw"]]:
    """How q, k and v are drawn for each name in cases.INPUTS."""
    width = max(case.head_dim, 1)
    dot = (2.5e5 / width) ** 0.5  # head_dim times the square of it is a large dot product
    score = (122 / (width * abs(case.sm_scale or 1.0))) ** 0.5
    return {
        "normal": (_normal(), _normal(), _normal()),
        "normal3": (_normal(0, 3), _normal(0, 3), _normal(0, 3)),
        "negative900": (_uniform(-900, 0), _uniform(-900, 0), _uniform(0, 1)),
        "large_dots": (_uniform(0.8 * dot, 1.2 * dot), _uniform(0.8 * dot, 1.2 * dot), _normal()),
        "low_scores": (_normal(score, 0.05), _normal(-score, 0.05), _normal()),
        "zero_q": (_zero, _normal(), _normal()),
        "one_hot_v": (_normal(), _normal(), _one_hot),
    }
