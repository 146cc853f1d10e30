"""What steps say of themselves, from one log line to the next."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from seqloom.errors import TrainingError
from seqloom.training.processes import Processes
from seqloom.training.recorded_steps import Taken

EXPLODED = 3.0  # a loss this many times the first one, over a whole log interval, is not coming back


@dataclass
class _Interval:
    """The steps since the last log line."""

    sums: dict[str, float] = field(default_factory=dict)
    """What the objective logs, the loss above all, summed over the tokens."""
    tokens: int = 0
    largest_norm: float = 0.0
    """Of the gradients."""


class Losses:
    """Collects the losses of steps, and whatever else their objective logs.

    They stay on the device until they are looked at, all at once, for every look waits for it. A loss that is not a
    number, or that has exploded, ends the training; what one may do then, `advice` says.
    """

    def __init__(self, processes: Processes, advice: Callable[[], str]) -> None:
        self.processes, self.advice = processes, advice
        self.recent: list[tuple[int, Taken, int]] = []
        """(step, what is known of it, tokens) since the last look."""
        self._first: float | None = None  # the mean loss of the first interval
        self._interval = _Interval()

    def add(self, step: int, taken: Taken, tokens: int) -> None:
        """Take in a step."""
        self.recent.append((step, taken, tokens))

    def check(self) -> None:
        """Look at the latest steps; an error where a loss or a gradient is not a number any more."""
        if not self.recent:
            return
        steps, taken, tokens = zip(*self.recent, strict=True)
        names = list(taken[0].sums)
        totals = self.processes.total(torch.stack([torch.stack([each.sums[name] for name in names]) for each in taken]))
        norms = torch.stack([each.norm for each in taken]).tolist()
        interval = self._interval
        for step, values, norm in zip(steps, totals.tolist(), norms, strict=True):
            found = dict(zip(names, values, strict=True))
            if not math.isfinite(found["loss"]) or not math.isfinite(norm):
                what = "the loss" if not math.isfinite(found["loss"]) else "the gradient"
                raise TrainingError(f"{what} is not finite at step {step}. {self.advice()}")
            for name, value in found.items():
                interval.sums[name] = interval.sums.get(name, 0.0) + value
        interval.tokens += sum(tokens)
        interval.largest_norm = max(interval.largest_norm, *norms)
        self.recent.clear()

    def take(self, step: int) -> tuple[dict[str, float], float]:
        """Means per token and the largest norm of a gradient since the last log line; an error where the loss has
        exploded by this step."""
        self.check()
        interval, self._interval = self._interval, _Interval()
        means = {name: value / interval.tokens for name, value in interval.sums.items()}
        if self._first is None:
            self._first = means["loss"]
        elif means["loss"] > EXPLODED * max(1.0, self._first):
            raise TrainingError(
                f"the loss exploded by step {step}: {means['loss']:.3g}, after {self._first:.3g} in the beginning. "
                f"{self.advice()}"
            )
        return means, interval.largest_norm

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, once all was looked at."""
        return {"first": self._first, "interval": asdict(self._interval)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        self._first, self._interval = state["first"], _Interval(**state["interval"])
