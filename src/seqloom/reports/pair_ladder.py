"""What a comparison of several models of pairs (translators, summarisers, chat partners) found, one rung each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from seqloom.errors import DataError
from seqloom.reports.ladder import CurvePoint


@dataclass(frozen=True)
class PairRung:
    """One model of the ladder: its numbers, its learning curve and what it writes."""

    name: str
    description: str
    folder: str
    """The run folder, as the user would type it."""
    parameters: int
    perplexity: float
    """Validation, per target token, given the source."""
    bleu: float
    """Of the greedy outputs, 0 to 100."""
    beam_bleu: float
    chrf: float
    """Of the outputs of beam search, 0 to 100."""
    training_seconds: float
    training_speed: float
    """Target tokens per second."""
    greedy_speed: float
    """Sentences per second."""
    beam_speed: float
    curve: list[CurvePoint] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    """What beam search makes of the sources of `PairLadder.examples`, in their order."""


@dataclass(frozen=True)
class PairLadder:
    """All rungs of one comparison, on the same pairs under the same tokens."""

    title: str
    corpus: str
    tokenizer: str
    vocabulary_size: int
    training_pairs: int
    validation_pairs: int
    signature: str
    """sacreBLEU's: how BLEU was computed."""
    beam: int
    """The width of beam search."""
    rungs: list[PairRung]
    examples: list[tuple[str, str]] = field(default_factory=list)
    """Sources, each with its reference."""
    machine: str = ""
    """Processor or GPU, threads, versions."""

    def ranked(self) -> list[PairRung]:
        """The rungs, best first by the BLEU of beam search; those without one (NaN) last."""
        if not self.rungs:
            raise DataError(f"the comparison {self.title!r} has no rungs, so there is nothing to report")
        return sorted(self.rungs, key=lambda rung: (math.isnan(rung.beam_bleu), -rung.beam_bleu))

    def best(self) -> PairRung:
        """The rung whose outputs of beam search have the highest BLEU; one without (NaN) only if no other has one."""
        return self.ranked()[0]
