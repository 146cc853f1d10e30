"""What a comparison of several models found, one rung each. The same for all families of models: which measures there
are, and which of them ranks, is part of the data."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seqloom.errors import DataError
from seqloom.reports.columns import Better, Column
from seqloom.reports.numbers import significant
from seqloom.reports.pictures import Pixels

Samples = Sequence[str] | Pixels
"""What a model made: texts, or images."""
PARAMETERS = "parameters"
SECONDS = "training_seconds"
"""The costs that every rung has among its values."""


@dataclass(frozen=True)
class Measure:
    """Something that was measured of every rung: a column of the table."""

    key: str
    """Its name among the values of a rung, and in JSON."""
    title: str
    unit: str
    better: Better | None
    """Which values are good. Where none is, the column is shown only if the rungs differ."""
    short: str
    """A heading of few characters, for the terminal."""
    decimals: int = 2
    """At most so many."""
    digits: int = 3
    """As many as count, of the smallest value."""

    def column(self, values: Sequence[float], marks: Sequence[str]) -> Column:
        """The values of all rungs, with what stands before them."""
        return Column(self.title, self.unit, values, self.better, self.short, self.decimals, self.digits, marks)


@dataclass(frozen=True)
class Yardstick:
    """The measure that ranks, and how it is spoken of."""

    measure: Measure
    name: str
    """What a model may lack: "No other model has a finite perplexity"."""
    axis: str
    """Beside the axis of a plot."""
    logarithmic: bool
    """Whether ratios count, not differences."""
    wins: str
    """What the best rung does: "predicts the validation text best"."""
    alone: str
    """What a rung without others does: "predicts the validation text with"."""
    score: str
    """A value in a sentence: "perplexity {}"."""
    failed: str
    """The sentence for a ladder of which no rung has a finite value."""


@dataclass(frozen=True)
class Command:
    """Something to do with the best run."""

    what: str
    verb: str
    arguments: str = ""

    def line(self, folder: str) -> str:
        """What to type."""
        return f"seqloom {self.verb} {shlex.quote(folder)} {self.arguments}".rstrip()


@dataclass(frozen=True)
class CurvePoint:
    """One validation during training."""

    tokens: int
    """Tokens or images learned from until then."""
    seconds: float
    loss: float


@dataclass(frozen=True)
class Rung:
    """One model of the ladder: its numbers, its learning curve and what it makes."""

    name: str
    description: str
    folder: str
    """The run folder, as the user would type it."""
    values: Mapping[str, float]
    """By the key of their measure; what is no column stands in JSON all the same."""
    curve: Sequence[CurvePoint] = ()
    samples: Samples = ()
    """In the order of `Ladder.rows`."""
    bound: bool = False
    """Whether its value under the yardstick is only a bound: the truth may be better, never worse."""


@dataclass(frozen=True)
class Ladder:
    """All rungs of one comparison, on the same data."""

    title: str
    facts: Mapping[str, str]
    """What was compared, for a reader."""
    record: Mapping[str, Any]
    """The same for JSON."""
    measures: Sequence[Measure]
    yardstick: Yardstick
    rungs: Sequence[Rung]
    unit: str = "token"
    """What models learn from, and what a loss is per."""
    rows: Sequence[str] = ()
    """What the samples of all rungs began with: prompts, sources."""
    row_title: str = "Prompt"
    reference: tuple[str, Samples] | None = None
    """What samples are to be compared with, and its heading."""
    notes: Sequence[str] = ()
    """How to read the numbers, in paragraphs."""
    caption: str = ""
    """A line below the table in the terminal."""
    commands: Sequence[Command] = ()
    """What to do with the best run, the first thing to try first."""

    def ranked(self) -> list[Rung]:
        """The rungs, best first by the yardstick; those without a value (NaN) last."""
        if not self.rungs:
            raise DataError(f"the comparison {self.title!r} has no rungs, so there is nothing to report")
        sign = 1 if self.yardstick.measure.better == "lower" else -1
        return sorted(self.rungs, key=lambda rung: (math.isnan(self.value(rung)), sign * self.value(rung)))

    def best(self) -> Rung:
        """The first of them."""
        return self.ranked()[0]

    def value(self, rung: Rung) -> float:
        """What a rung reaches under the yardstick."""
        return rung.values[self.yardstick.measure.key]

    def shown(self, rung: Rung) -> str:
        """The same as text."""
        return self._mark(rung) + significant(self.value(rung), self.yardstick.measure.digits)

    def columns(self) -> list[Column]:
        """The table, column by column."""
        columns = []
        for measure in self.measures:
            values = [rung.values[measure.key] for rung in self.rungs]
            marks = [self._mark(rung) for rung in self.rungs] if measure is self.yardstick.measure else ()
            if measure.better is not None or len(set(values)) > 1:
                columns.append(measure.column(values, marks))
        return columns

    def _mark(self, rung: Rung) -> str:
        if not rung.bound:
            return ""
        return "≥ " if self.yardstick.measure.better == "higher" else "≤ "

    @property
    def next_command(self) -> str:
        """What to type next."""
        return self.commands[0].line(self.best().folder)
