"""What a comparison of several models found, one rung each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from seqloom.errors import DataError


@dataclass(frozen=True)
class CurvePoint:
    """One validation during training."""

    tokens: int
    seconds: float
    loss: float
    """Validation loss in nats per token."""


@dataclass(frozen=True)
class RungResult:
    """One model of the ladder: its numbers, its learning curve and what it writes."""

    name: str
    description: str
    folder: str
    """The run folder, as the user would type it."""
    parameters: int
    cross_entropy: float
    """Validation, nats per token."""
    perplexity: float
    """Validation, per token."""
    word_perplexity: float
    bits_per_character: float
    unknown: int
    training_seconds: float
    training_speed: float
    """Tokens per second."""
    scoring_speed: float
    generation_speed: float
    curve: list[CurvePoint] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)
    """Continuations of the same prompts for every rung, in the order of `Ladder.prompts`."""


@dataclass(frozen=True)
class Ladder:
    """All rungs of one comparison, on the same corpus under the same tokens."""

    title: str
    corpus: str
    tokenizer: str
    vocabulary_size: int
    training_tokens: int
    """Distinct tokens in the training text."""
    validation_tokens: int
    unknown: int
    """Unknown tokens in the validation text."""
    rungs: list[RungResult]
    prompts: list[str] = field(default_factory=list)
    machine: str = ""
    """Processor or GPU, threads, versions."""

    def ranked(self) -> list[RungResult]:
        """The rungs, best first by the cross-entropy of the validation text; those that predict nonsense (NaN) last."""
        if not self.rungs:
            raise DataError(f"the comparison {self.title!r} has no rungs, so there is nothing to report")
        return sorted(self.rungs, key=lambda rung: (math.isnan(rung.cross_entropy), rung.cross_entropy))

    def best(self) -> RungResult:
        """The rung that predicts the validation text best."""
        return self.ranked()[0]
