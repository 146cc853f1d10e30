"""A contest: how runs that share a yardstick are trained on equal terms, measured and ranked."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from seqloom.config import RunConfig
from seqloom.reports.ladder import PARAMETERS, SECONDS, CurvePoint, Ladder, Measure, Rung, Samples
from seqloom.runs.kind import kind_named
from seqloom.runs.log import TrainingLog, training_files
from seqloom.runs.trained import Trained

SIZE = Measure(PARAMETERS, "parameters", "", "lower", "param-\neters", decimals=0)
TIME = Measure(SECONDS, "training", "s", "lower", "train\ns", decimals=1)
SPEED = Measure("training_speed", "training", "tokens/s", "higher", "train\ntok/s", decimals=0)


@dataclass(frozen=True)
class Entrant:
    """What takes part: a configuration to be trained, or a run that is finished."""

    name: str
    config: RunConfig
    run: Path | None = None


class Contest(ABC):
    """A comparison of runs that share a yardstick. All are measured on what the first one validates on: never on test
    data, which must be unseen when one of the runs is chosen."""

    presets: ClassVar[tuple[str, ...]] = ()
    """What is compared when nothing is named."""
    same_data: ClassVar[tuple[str, ...]]
    """The keys of `data` that say what is learned from, and what is held out of it."""

    @classmethod
    @abstractmethod
    def on_equal_terms(cls, entrants: Sequence[Entrant], tokens: int | None) -> dict[str, RunConfig]:
        """What to train: for all that is not finished the first one's data, tokenisers and seed, and as much to learn
        from (`tokens`, where given). Refuses what cannot be compared."""

    def __init__(self, first: Any) -> None:
        self.first = first
        self.elsewhere: list[str] = []
        """Runs that did not learn from what the first one did, or held something else out."""

    @abstractmethod
    def rung(self, name: str, trained: Any) -> Rung:
        """Measure a run."""

    @abstractmethod
    def ladder(self, rungs: Sequence[Rung]) -> Ladder:
        """All of them together."""

    def measured(
        self, name: str, trained: Trained, values: dict[str, float], samples: Samples, bound: bool = False
    ) -> Rung:
        """A rung with what was measured, and what all have: their costs, by the log."""
        if any(getattr(trained.config.data, key) != getattr(self.first.config.data, key) for key in self.same_data):
            self.elsewhere.append(name)
        log = TrainingLog.of(trained.path)
        costs = {SIZE.key: trained.parameters, TIME.key: log.seconds, SPEED.key: log.speed}
        curve = [CurvePoint(entry["tokens"], entry["seconds"], entry["valid_loss"]) for entry in log.validations]
        return Rung(
            name,
            trained.config.description,
            str(trained.path),
            {**values, **costs},
            curve,
            samples,
            bound,
            kind_named(trained.kind).deterministic,
        )

    def notes(self) -> list[str]:
        """What to know of runs that did not learn from what the first one did."""
        if not self.elsewhere:
            return []
        return [
            f"All are measured on what {self.first.path} validates on. These learned from other data, or held another "
            f"part of them out, and may have seen some of it: {', '.join(self.elsewhere)}."
        ]

    @property
    def corpus(self) -> str:
        """What the first one learned from."""
        return training_files(self.first.config)


def with_steps(config: RunConfig, steps: float) -> RunConfig:
    """The configuration of a training of so many steps."""
    training = config.training.model_copy(update={"steps": max(1, round(steps)), "epochs": None})
    return config.model_copy(update={"training": training})


def machine() -> str:
    """What speeds were measured on."""
    processor = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    return f"{processor}, {torch.get_num_threads()} threads, torch {torch.__version__}"
