"""Times of alternatives, taken in turn in one run."""

import random
import statistics
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

ROUNDS = 25
ROUND_US = 4000.0  # of calls a side and round
WARM_UP_US = 30000.0
MAX_CALLS = 500

Measure = Callable[[Callable[[], Any], int], float]  # call, how often -> time of one call in us


@dataclass(frozen=True)
class Side:
    """One of the alternatives; `context` is entered around its calls, outside of the measured time."""

    name: str
    call: Callable[[], Any]
    context: Callable[[], AbstractContextManager[Any]] = nullcontext


@dataclass(frozen=True)
class Timing:
    """median_us over the rounds; spread is their interquartile range over the median."""

    median_us: float
    spread: float


def alternate(sides: Mapping[str, Side], measure: Measure, *, rounds: int = ROUNDS, seed: int = 0) -> dict[str, Timing]:
    """Time every side once a round, in an order shuffled anew each round, after a warm-up of all.

    Clocks drift under load, and whoever runs first after a pause looks better: only sides of one run compare.
    """
    calls = {}
    for name, side in sides.items():
        with side.context():
            measure(side.call, 1)
            once = max(measure(side.call, 3), 0.1)
            measure(side.call, _calls(WARM_UP_US, once))
            calls[name] = _calls(ROUND_US, once)
    times: dict[str, list[float]] = {name: [] for name in sides}
    order, shuffle = list(sides), random.Random(seed)
    for _ in range(rounds):
        shuffle.shuffle(order)
        for name in order:
            with sides[name].context():
                times[name].append(measure(sides[name].call, calls[name]))
    return {name: summary(values) for name, values in times.items()}


def _calls(wanted_us: float, once_us: float) -> int:
    return max(1, min(MAX_CALLS, round(wanted_us / once_us)))


def summary(times_us: list[float]) -> Timing:
    median = statistics.median(times_us)
    first, _, third = statistics.quantiles(times_us, n=4) if len(times_us) > 1 else (median,) * 3
    return Timing(median, (third - first) / median)


def device_time(call: Callable[[], Any], times: int) -> float:
    """us of one call on torch's current stream, by events; where the host is slower than the device, the host's."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()  # keeps the device busy while the host makes the first of the measured calls
    start.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1000 / times


def geomean(values: list[float]) -> float:
    return statistics.geometric_mean(values)
