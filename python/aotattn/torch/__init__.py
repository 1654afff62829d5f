"""The library under F.scaled_dot_product_attention of a stock PyTorch, on NVIDIA and AMD GPUs.

    import aotattn.torch
    from torch.nn.attention import activate_flash_attention_impl, restore_flash_attention_impl
    activate_flash_attention_impl("aotattn")    # from here on the library serves what PyTorch's fused attention would
    restore_flash_attention_impl()              # PyTorch's own again

It stands in the place of aten::_scaled_dot_product_flash_attention, ..._efficient_attention and ..._cudnn_attention:
whichever of them PyTorch's rules choose, the call comes here. What the rules leave to PyTorch's math does not, such as
an enable_gqa call with head_dim over 256 in PyTorch 2.11.

Without a GPU, the kernels for gfx950 can serve tensors on the CPU, on the emulator, where that is asked for:

    with aotattn.torch.use_emulated_device():   # or keep what it returns, and remove() it
        F.scaled_dot_product_attention(q, k, v)

A call that the library does not take (attn_mask, dropout, gradients, a problem without a kernel) runs PyTorch's own
kernel. The logger "aotattn" says why at debug level, `counters()` says how often, `why_not(...)` answers ahead.
"""

import logging
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend, register_flash_attention_impl

from .. import device
from . import binding

__all__ = ["Counters", "Registration", "activation", "counters", "use_emulated_device", "why_not"]

logger = logging.getLogger("aotattn")


@dataclass(frozen=True)
class Counters:
    """Calls since the process started; `reasons` says how many were declined for what."""

    served: int
    declined: int
    reasons: dict[str, int]


class Registration(AbstractContextManager["Registration"]):
    """The library in PyTorch's place, on the GPUs or on an emulator's device, until remove() or the end of a `with`."""

    def __init__(self, emulator: str | None = None) -> None:
        binding.check_operators("CPU" if emulator else "CUDA")
        binding.log_declines(logger)
        self._pointer: int | None = binding.register(emulator)

    def remove(self) -> None:
        """PyTorch's own kernels are reached again. A second call does nothing."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            binding.unregister(pointer)

    def __exit__(self, *_: object) -> None:
        self.remove()


def activation() -> Registration:
    """What activate_flash_attention_impl("aotattn") calls."""
    return Registration()


def use_emulated_device() -> Registration:
    """Let the emulated gfx950 serve attention of tensors on the CPU: for tests of kernels, it is slow.

    It becomes the process's HIP library, so ask before another is loaded. Calls of several threads run one by one.
    Raises UserError if the emulator is not built, RuntimeError if the process has another HIP library.
    """
    return Registration(device.load_emulator())


def counters() -> Counters:
    served, declined = binding.counts()
    return Counters(served, declined, binding.reasons())


def why_not(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    backend: SDPBackend | None = None,
) -> str | None:
    """Why F.scaled_dot_product_attention of these would be left to PyTorch; None: the library serves it.

    q [batch, heads_q, seqlen_q, head_dim], k and v with heads_k and seqlen_k. Loads the kernel that would run.
    backend: whose place the library takes; by default the one that PyTorch's rules choose.
    """
    if backend is None:
        gqa = q.shape[-3:-2] != k.shape[-3:-2]
        chosen = torch._fused_sdp_choice(q, k, v, None, dropout_p, is_causal, scale=scale, enable_gqa=gqa)
    else:
        chosen = backend.value
    reason: str = torch.ops.aotattn.why_not(chosen, q, k, v, dropout_p, is_causal, scale)
    return reason or None


register_flash_attention_impl("aotattn", register_fn=activation)
