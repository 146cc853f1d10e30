"""What a comparison of several models found, one rung each. The same for all families of models: which measures there
are, and which of them ranks, is part of the data."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from seqloom.errors import DataError
from seqloom.metrics.seeds import LEVEL, Readings, welch
from seqloom.reports.columns import Better, Column
from seqloom.reports.numbers import rounded, significant, spread
from seqloom.reports.pictures import Pixels

Samples = Sequence[str] | Pixels
"""What a model made: texts, or images."""
PARAMETERS = "parameters"
SECONDS = "training_seconds"
"""The costs that every rung has among its values."""
SEEN = "seen"
PASSES = "passes"
"""How many tokens or images each learned from, and how often it read all that there are; NaN where nobody knows."""

KNOWLEDGE = "minimal_pairs"
"""The accuracy on minimal pairs, where these were judged; that on a phenomenon is `minimal_pairs: its name`."""


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

    def column(self, rungs: Sequence[Rung], marks: Sequence[str] = ()) -> Column:
        """The values of all rungs, with what stands before them and how far seeds are apart."""
        values = [rung.values[self.key] for rung in rungs]
        apart = [rung.deviation(self.key) for rung in rungs]
        return Column(self.title, self.unit, values, self.better, self.short, self.decimals, self.digits, marks, apart)


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
    deterministic: bool = False
    """Whether every seed gives the same model."""
    seed: int = 0
    runs: Sequence[Rung] = ()
    """Of a model that was trained with several seeds, the rung of each. Values and curve are then means of theirs, and
    folder and samples the first one's."""

    @classmethod
    def joined(cls, runs: Sequence[Rung]) -> Rung:
        """One rung of those of the same model with several seeds."""
        first, *others = runs
        if not others:
            return first
        values = {key: statistics.mean(run.values[key] for run in runs) for key in first.values}
        return replace(first, values=values, curve=_mean_curve([run.curve for run in runs]), runs=runs)

    def readings(self, key: str) -> Readings:
        """What all seeds gave."""
        return Readings.of([run.values[key] for run in self.runs or [self]], self.deterministic)

    def deviation(self, key: str) -> float | None:
        """How far the seeds are apart, where there are several."""
        return self.readings(key).deviation if self.runs else None


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: a, b and c."""
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


def _mean_curve(curves: Sequence[Sequence[CurvePoint]]) -> list[CurvePoint]:
    """The means of the validations that all have in common."""
    return [
        CurvePoint(
            points[0].tokens,
            statistics.mean(point.seconds for point in points),
            statistics.mean(point.loss for point in points),
        )
        for points in zip(*curves, strict=False)  # one may have stopped early
        if len({point.tokens for point in points}) == 1
    ]


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
    data: str = "text"
    """What all of that is together: they read so many passes over it."""
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
    command: str = ""
    """What asked for the comparison."""
    phenomena: Mapping[str, int] = field(default_factory=dict)
    """What minimal pairs were about, and how many there were of each; nothing where none were judged."""

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
        """The same as text, with its deviation."""
        text = significant(self.value(rung), self.yardstick.measure.digits)
        deviation = rung.deviation(self.yardstick.measure.key)
        if deviation is not None:
            text += f"\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{spread(deviation, len(text.partition('.')[2]))}"
        return self._bound(rung) + text

    @property
    def seeds(self) -> int:
        """With how many seeds its models were trained."""
        return max([1, *(len(rung.runs) for rung in self.rungs)])

    @cached_property
    def chances(self) -> Mapping[str, float]:
        """How often chance alone would set a rung so far apart from the best, by its name: p of Welch's t-test. Nothing
        of rungs of which a single run with a seed is known."""
        if self.seeds == 1:
            return {}
        best, key = self.best(), self.yardstick.measure.key
        tested = {rung.name: welch(best.readings(key), rung.readings(key)) for rung in self.rungs if rung is not best}
        return {name: p for name, p in tested.items() if p is not None}

    def alike(self) -> list[Rung]:
        """The rungs that cannot be told apart from the best, in their order."""
        return [rung for rung in self.ranked() if self.chances.get(rung.name, 0.0) >= LEVEL]

    def shortfall(self) -> str:
        """A sentence of warning where models that train by steps have not seen all data once; else nothing."""
        trained = [rung for rung in self.rungs if not rung.deterministic]
        short = [rung for rung in trained if rounded(rung.values.get(PASSES, math.nan)) < 1]
        if not short:
            return ""
        shares = sorted({rounded(rung.values[PASSES]) for rung in short})
        share = " to ".join(f"{each:g}" for each in dict.fromkeys((shares[0], shares[-1])))
        who = "the networks" if len(short) == len(trained) > 1 else listed([rung.name for rung in short])
        return (
            f"Less than one pass: {who} saw only {share} of the {self.data}, so this says how models begin to learn, "
            "not what they can."
        )

    def columns(self) -> list[Column]:
        """The table, column by column."""
        columns, alike = [], {rung.name for rung in self.alike()}
        for measure in self.measures:
            marks: list[str] = []
            if measure is self.yardstick.measure:
                marks = [("≈ " if rung.name in alike else "") + self._bound(rung) for rung in self.rungs]
            if measure.better is not None or len({rung.values[measure.key] for rung in self.rungs}) > 1:
                columns.append(measure.column(self.rungs, marks))
        return columns

    def _bound(self, rung: Rung) -> str:
        if not rung.bound:
            return ""
        return "≥ " if self.yardstick.measure.better == "higher" else "≤ "

    @property
    def next_command(self) -> str:
        """What to type next."""
        return self.commands[0].line(self.best().folder)
