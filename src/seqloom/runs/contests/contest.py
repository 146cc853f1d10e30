"""A contest: how runs that share a yardstick are trained on equal terms, measured and ranked."""

from __future__ import annotations

import json
import math
import platform
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from seqloom.config import RunConfig
from seqloom.reports.ladder import PARAMETERS, PASSES, SECONDS, SEEN, CurvePoint, Ladder, Measure, Rung, Samples
from seqloom.runs.kind import kind_named
from seqloom.runs.log import TrainingLog, training_files
from seqloom.runs.trained import Trained

SIZE = Measure(PARAMETERS, "parameters", "", "lower", "param-\neters", decimals=0)
TIME = Measure(SECONDS, "training", "s", "lower", "train\ns", decimals=1)
SPEED = Measure("training_speed", "training", "tokens/s", "higher", "train\ntok/s", decimals=0)
VALIDATIONS = 5  # of a training by steps, at least


@dataclass(frozen=True)
class Entrant:
    """What takes part: a configuration to be trained, or a run that is finished."""

    name: str
    config: RunConfig
    run: Path | None = None


class Contest(ABC):
    """A comparison of runs that share a yardstick. All are measured on what the host validates on: never on test data,
    which must be unseen when one of the runs is chosen."""

    presets: ClassVar[tuple[str, ...]] = ()
    """What is compared when nothing is named."""
    same_data: ClassVar[tuple[str, ...]]
    """The keys of `data` that say what is learned from, and what is held out of it."""

    @classmethod
    def host(cls, entrants: Sequence[Entrant]) -> Entrant:
        """Whose data, tokenisers and seed hold for all, in whatever order they are named.

        A finished run's, since it stays as it is; else those of a model that trains by steps, whose vocabulary must
        not be too large, while counts take any; then what most have. What held nothing out comes last: there is nothing
        to measure others on. Where even that does not decide, the settings themselves are put in order.
        """
        terms = {entrant.name: cls._terms(entrant.config) for entrant in entrants}
        all_terms = list(terms.values())

        def rank(entrant: Entrant) -> tuple[Any, ...]:
            data, own = entrant.config.data, terms[entrant.name]
            nothing_held_out = data.valid is None and not data.valid_fraction
            counted = not entrant.config.model.objectives
            return nothing_held_out, entrant.run is None, counted, -all_terms.count(own), own

        return min(entrants, key=rank)

    @classmethod
    def _terms(cls, config: RunConfig) -> str:
        """What all must share, as text."""
        texts = [part and part.model_dump(mode="json") for part in (config.text, config.target_text)]
        return json.dumps([*texts, [getattr(config.data, key) for key in cls.same_data], config.seed], sort_keys=True)

    @staticmethod
    def asking(host: Entrant, entrants: Sequence[Entrant]) -> list[Entrant]:
        """Whose configurations say how much there is to learn from, where the user does not: that of a finished host,
        which learned from so much; else all that train by steps, and the one that asks for most decides."""
        if host.run is not None and host.config.model.objectives:
            return [host]
        return [entrant for entrant in entrants if entrant.config.model.objectives]

    @classmethod
    @abstractmethod
    def on_equal_terms(cls, host: Entrant, entrants: Sequence[Entrant], tokens: int | None) -> dict[str, RunConfig]:
        """What to train: for all that is not finished the host's data, tokenisers and seed, and as much to learn from
        (`tokens`, where given). Refuses what cannot be compared."""

    size: float
    """How much there is to learn from: tokens, or images."""

    def __init__(self, first: Any) -> None:
        self.first = first
        """The run of the host."""
        self.elsewhere: list[str] = []
        """Runs that did not learn from what the host did, or held something else out."""

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
        budget = {SEEN: log.seen, PASSES: log.passes(math.nan if name in self.elsewhere else self.size)}
        curve = [CurvePoint(entry["tokens"], entry["seconds"], entry["valid_loss"]) for entry in log.validations]
        return Rung(
            name,
            trained.config.description,
            str(trained.path),
            {**values, **costs, **budget},
            curve,
            samples,
            bound,
            kind_named(trained.kind).deterministic,
            trained.config.seed,
        )

    def notes(self) -> list[str]:
        """What to know of runs that did not learn from what the host did."""
        if not self.elsewhere:
            return []
        return [
            f"All are measured on what {self.first.path} validates on. These learned from other data, or held another "
            f"part of them out, and may have seen some of it: {', '.join(self.elsewhere)}."
        ]

    @property
    def corpus(self) -> str:
        """What the host learned from."""
        return training_files(self.first.config)


def with_steps(config: RunConfig, steps: float, per_epoch: float) -> RunConfig:
    """The configuration of a training of so many steps, of which so many are a pass over the data."""
    whole = max(1, round(steps))
    training = config.training.model_copy(update={"steps": whole, "epochs": None})
    return validated_often(config.model_copy(update={"training": training}), whole, per_epoch)


def validated_often(config: RunConfig, steps: float, per_epoch: float) -> RunConfig:
    """The configuration with as many validations as a curve needs to be one."""
    most = max(1, int(steps / VALIDATIONS))
    if (config.training.validate_every or round(per_epoch)) <= most:
        return config
    return config.model_copy(update={"training": config.training.model_copy(update={"validate_every": most})})


def machine() -> str:
    """What speeds were measured on."""
    import torch

    processor = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    threads = torch.get_num_threads()
    return f"{processor}, {threads} thread{'s' * (threads > 1)}, torch {torch.__version__}"
