"""aotattn through F.scaled_dot_product_attention against PyTorch's own backends, in turn in one run."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import runtime
from ..describe import UserError
from ..device import Device
from .cases import Case
from .inputs import draw
from .timing import Side, Timing, alternate, device_time, geomean

if TYPE_CHECKING:
    import torch

OURS = "aotattn"
PEERS = {  # name -> torch.nn.attention.SDPBackend
    "flash": "FLASH_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "math": "MATH",
}


@dataclass(frozen=True)
class Row:
    """One side of one case. ratio_to_best_peer: the time of the fastest PyTorch backend over this side's."""

    case: Case
    device: str
    side: str
    timing: Timing
    ratio_to_best_peer: float | None

    def row(self) -> dict[str, Any]:
        return {
            "case": str(self.case),
            "device": self.device,
            "side": self.side,
            "time_us": round(self.timing.median_us, 3),
            "tflops": round(self.case.flops() / self.timing.median_us * 1e-6, 2),
            "ratio_to_best_peer": self.ratio_to_best_peer and round(self.ratio_to_best_peer, 4),
            "spread": round(self.timing.spread, 4),
        }


def against_torch(cases: Sequence[Case], device: Device, seed: int) -> Iterator[list[Row]]:
    """The rows of each case, ours first. A side that does not take the case has no row."""
    import torch

    check_cases(cases)
    for case in cases:
        torch.cuda.empty_cache()  # the math backend leaves gigabytes of blocks too small for the next case
        with device.scratch():
            tensors = draw(case, device.compute, seed)
            q, k, v = (tensors[name].view for name in "qkv")
            call = sdpa(case, q, k, v)
            sides = {s.name: s for s in (ours(call), *(peer(name, call) for name in PEERS)) if takes(s)}
            timings = alternate(sides, device_time)
            best = min((t.median_us for name, t in timings.items() if name in PEERS), default=None)
            yield [Row(case, device.name, n, t, best / t.median_us if best else None) for n, t in timings.items()]


def check_cases(cases: Sequence[Case]) -> None:
    """Raises UserError for a case that F.scaled_dot_product_attention cannot be asked for."""
    for case in cases:
        lower_right = case.mask == "causal" and case.alignment == "bottom_right" and case.seqlen_q != case.seqlen_k
        if case.mask == "window" or lower_right:
            raise UserError(f"F.scaled_dot_product_attention has no {case.mask} mask like that of {case}")


def sdpa(case: Case, q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor") -> Callable[[], "torch.Tensor"]:
    import torch.nn.functional as F

    causal, gqa = case.mask == "causal", case.heads_q != case.heads_k
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=case.sm_scale, enable_gqa=gqa)


def peer(name: str, call: Callable[[], Any]) -> Side:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return Side(name, call, lambda: sdpa_kernel(getattr(SDPBackend, PEERS[name])))


def ours(call: Callable[[], Any]) -> Side:
    return Side(OURS, call, activated)


@contextmanager
def activated() -> Iterator[None]:
    """aotattn in the place of PyTorch's fused attention, whichever PyTorch's rules choose."""
    from torch.nn.attention import activate_flash_attention_impl, restore_flash_attention_impl

    import aotattn.torch  # noqa: F401  registers the implementation

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says once that a kernel is overridden
        activate_flash_attention_impl("aotattn")
    try:
        yield
    finally:
        restore_flash_attention_impl()


def takes(side: Side) -> bool:
    """Whether the side computes the case: ours by our kernel, a peer without it."""
    import torch

    launched = runtime.launch_count()
    try:
        with warnings.catch_warnings(), side.context():
            warnings.simplefilter("ignore")  # torch gives its reasons for not taking a case as warnings
            side.call()
            torch.cuda.synchronize()
    except RuntimeError:  # also where its memory does not suffice
        if side.name == OURS:
            raise
        return False
    return (runtime.launch_count() > launched) == (side.name == OURS)


def geomeans(cases: Sequence[Sequence[Row]]) -> list[dict[str, Any]]:
    """How much faster we are than each peer, over the cases that both take: geometric mean, and the worst case."""
    summaries = []
    for name in PEERS:
        ratios = {}
        for rows in cases:
            times = {row.side: row.timing.median_us for row in rows}
            if OURS in times and name in times:
                ratios[str(rows[0].case)] = times[name] / times[OURS]
        if ratios:
            worst = min(ratios, key=lambda case: ratios[case])
            summaries.append(
                {
                    "peer": name,
                    "cases": len(ratios),
                    "geomean": round(geomean(list(ratios.values())), 4),
                    "worst": round(ratios[worst], 4),
                    "worst_case": worst,
                }
            )
    return summaries
