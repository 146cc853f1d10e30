"""What a run can tell of its training: its log in a few numbers, and all of it in a sentence."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from seqloom.config import RunConfig
from seqloom.config.schema.base import ModelPart
from seqloom.reports.numbers import MISSING, compact, duration, rounded
from seqloom.runs.folder import RunFolder
from seqloom.runs.kind import kind_named
from seqloom.runs.trained import Trained
from seqloom.training.journal import SAMPLES, read_journal, read_metrics
from seqloom.training.places import CHECKPOINTS, checkpoints_in, step_of

Entry = dict[str, Any]


@dataclass(frozen=True)
class TrainingLog:
    """The entries of a run's `metrics.jsonl`, stage by stage; none of a run that was imported."""

    stages: list[list[Entry]]

    @classmethod
    def of(cls, run: Path) -> TrainingLog:
        """Read the log of a run folder."""
        return cls.by_stages(read_metrics(run))

    @classmethod
    def by_stages(cls, entries: Sequence[Entry]) -> TrainingLog:
        """Entries that say of which stage they are, if there are several."""
        return cls([list(stage) for _, stage in groupby(entries, lambda entry: entry.get("stage"))])

    @property
    def seconds(self) -> float:
        """How long training took, validations included."""
        return self._sum("seconds")

    @property
    def seen(self) -> float:
        """How many tokens or images all stages learned from together, each as often as it came."""
        return self._sum("tokens")

    def passes(self, size: float = math.nan) -> float:
        """How often the training data were read: by the trainer's own count, else as they have `size` tokens."""
        counted = self._sum("epoch")
        return counted if math.isfinite(counted) else self.seen / size

    def _sum(self, key: str) -> float:
        """The largest number of each stage, all together; NaN where none was logged."""
        logged = [[entry[key] for entry in stage if key in entry] for stage in self.stages]
        return sum(map(max, filter(None, logged))) if any(logged) else math.nan

    @property
    def speed(self) -> float:
        """Tokens or images per second, the median."""
        speeds = [
            entry["tokens_per_second"] for stage in self.stages for entry in stage if "tokens_per_second" in entry
        ]
        return statistics.median(speeds) if speeds else math.nan

    @property
    def validations(self) -> list[Entry]:
        """The learning curve; none of several stages, whose losses are of several things."""
        return [entry for entry in self.stages[0] if "valid_loss" in entry] if len(self.stages) == 1 else []

    @property
    def best(self) -> Entry:
        """The validation of the last stage whose weights were kept; where nothing says it, that of the lowest loss, the
        last one of equals."""
        last = self.stages[-1] if self.stages else [{}]
        kept = [entry for entry in last if entry.get("best")]
        found = kept[-1] if kept else min(reversed(last), key=lambda entry: entry.get("valid_loss", math.inf))
        return {key: value for key, value in found.items() if key != "best"}


def gathered(stages: Sequence[Path]) -> tuple[list[Entry], list[Entry]]:
    """What stages in folders of their own logged, and the texts they wrote, one stage after another: their steps are
    counted on, and each entry says of which stage it is."""
    entries: list[Entry] = []
    samples: list[Entry] = []
    before = 0
    for stage in stages:
        logged = read_metrics(stage)
        for all_of_them, own in ((entries, logged), (samples, read_journal(stage / SAMPLES))):
            all_of_them += [{**entry, "stage": stage.name, "step": before + entry["step"]} for entry in own]
        saved = list(map(step_of, checkpoints_in(stage / CHECKPOINTS)))  # where the log has lost its end
        before += max([entry["step"] for entry in logged] + saved, default=0)
    return entries, samples


@dataclass(frozen=True)
class Figure:
    """How good a model is, in one number."""

    name: str
    """In the log."""
    value: float
    title: str
    """What people call it."""
    text: str
    """The same with its number."""

    @classmethod
    def of(cls, model: ModelPart, best: Entry) -> Figure | None:
        """That of a validation; None where nothing was measured."""
        for name, text in model.figures.items():
            if isinstance(value := best.get(name), int | float):
                return cls(name, value, text.partition(" {")[0], text.format(value))
        return None


def headline(trained: Trained, best: Entry) -> str:
    """How good the model is, by its best validation; empty where nothing was held out."""
    figure = Figure.of(trained.config.model, best)
    return f"validation {figure.text}" if figure else ""


def in_a_sentence(trained: Trained) -> str:
    """What a run is, on what data, how long it was trained, and how good it is."""
    config, log = trained.config, TrainingLog.of(trained.path)
    what = config.description.partition(";")[0] or f"a model of kind {trained.kind}"  # ";" what a preset has by default
    passes = compact(rounded(log.passes()))
    often = "" if passes == MISSING else f", {passes} {'pass' if passes == '1' else 'passes'} over it"
    good = headline(trained, log.best) or "nothing was held out to measure it on"
    return (
        f"{what[:1].upper()}{what[1:]}, trained on {training_files(config)} for {duration(log.seconds)}{often}: {good}."
    )


def commands(trained: Trained) -> list[tuple[str, str]]:
    """What to do with a run next: what for, and what to type."""
    kind, run, training = kind_named(trained.kind), shlex.quote(str(trained.path)), trained.config.training
    held_out = bool(headline(trained, TrainingLog.of(trained.path).best))
    measured = ("Measure it", f"evaluate {run}" if held_out else f"evaluate {run} --source FILE")
    todo = [("Use it", kind.next_step.format(run=run)), ("Try it in a browser", f"serve {run}"), measured]
    if trained.config.model.objectives:
        longer = f"steps={2 * training.steps}" if training.steps else f"epochs={2 * (training.epochs or 1):g}"
        again = f"train --resume --out {run} --set training.{longer}"
        todo.append(("Train it for twice as long", again))
    if kind.contest is not None:
        todo.append(("Compare it with another model on the same data", f"compare {run} PRESET"))
    verbs, plugins = ", ".join(["evaluate", *trained.verbs]), RunFolder(trained.path).plugin_options
    return [*((what, f"seqloom {command}{plugins}") for what, command in todo), ("All that it is for", verbs)]


def training_files(config: RunConfig) -> str:
    """The names of the files that a run learned from, without their folders."""
    files = [value for key, value in config.leaves().items() if key.startswith("data.") and key.endswith(".train")]
    names = [name for each in files for name in ([each] if isinstance(each, str) else each)]
    return ", ".join(Path(name).name for entry in names for name in entry.split(","))
