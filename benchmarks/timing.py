"""Timing two or more ways to do the same work, fairly: in turns, on a warm machine, by medians."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch

Call = Callable[[], object]


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    repetitions: int = 7
    seconds: float = 0.5
    """A repetition makes as many calls as fill this time."""
    budget: float = 20.0
    """No further repetition is begun after this many seconds, once there are three."""


FULL = Effort()
FULL_GPU = Effort(seconds=0.2, budget=10.0)  # nobody else is there, and a call is short
QUICK = Effort(repetitions=3, seconds=0.1, budget=2.0)


@dataclass(frozen=True)
class Measurement:
    """How long one call took, a value per repetition, and how many tokens it worked through."""

    seconds: tuple[float, ...]
    tokens: int

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.median


@dataclass(frozen=True)
class Ratio:
    """One measurement over another, repetition by repetition: what slows both at the same moment cancels out."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def speed_ratio(ours: Measurement, peer: Measurement) -> Ratio:
    """How many times as fast ours is."""
    ratios = [
        (ours.tokens / own) / (peer.tokens / other) for own, other in zip(ours.seconds, peer.seconds, strict=True)
    ]
    return Ratio(median(ratios), min(ratios), max(ratios))


def alternate(calls: Sequence[tuple[Call, int]], effort: Effort, device: torch.device) -> list[Measurement]:
    """Measure each (call, tokens of a call), all of them once per repetition, in turns."""
    counts = [_warm_up(call, effort, device) for call, _ in calls]
    seconds: list[list[float]] = [[] for _ in calls]
    began = time.perf_counter()
    for repetition in range(effort.repetitions):
        order = range(len(calls)) if repetition % 2 == 0 else reversed(range(len(calls)))
        for index in order:
            seconds[index].append(_time(calls[index][0], counts[index], device))
        if repetition >= 2 and time.perf_counter() - began > effort.budget:
            break
    return [Measurement(tuple(taken), tokens) for taken, (_, tokens) in zip(seconds, calls, strict=True)]


def measure(call: Call, tokens: int, effort: Effort, device: torch.device) -> Measurement:
    """Measure one call on its own."""
    return alternate([(call, tokens)], effort, device)[0]


def _warm_up(call: Call, effort: Effort, device: torch.device) -> int:
    """Call until allocators, kernels and compilers have settled; the number of calls that fill a repetition."""
    _time(call, 1, device)
    once = _time(call, 1, device)
    if once < effort.seconds:
        once = _time(call, 2, device)
    return max(1, math.ceil(effort.seconds / once))


def _time(call: Call, count: int, device: torch.device) -> float:
    """Seconds per call over `count` calls."""
    _synchronise(device)
    began = time.perf_counter()
    for _ in range(count):
        call()
    _synchronise(device)
    return (time.perf_counter() - began) / count


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def epochs_in_turns(contestants: Mapping[str, Call], repetitions: int, say: Callable[[str], None]) -> dict[str, float]:
    """The median seconds of calls that are long enough to be timed alone, after one of each to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for repetition in range(repetitions + 1):
        for name, run in contestants.items():
            say(f"{name}, {repetition or 'warm-up'}")
            began = time.perf_counter()
            run()
            if repetition:
                seconds[name].append(time.perf_counter() - began)
    return {name: median(found) for name, found in seconds.items()}
