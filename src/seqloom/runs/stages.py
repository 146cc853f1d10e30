"""Stages: what is fitted in a run, one after another. Nearly every kind of run has one."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom.config.schema.training import TrainingConfig
from seqloom.training import Journal, Reporter
from seqloom.training.journal import named_unit
from seqloom.training.places import WEIGHTS

if TYPE_CHECKING:  # what is computed at once needs no torch
    from torch import nn

    from seqloom.data.stream import Stream
    from seqloom.training import Objective, Processes, Trainer
    from seqloom.training.trainer import Samples

Figures = dict[str, float]


class Stage(ABC):
    """Something to fit into a folder, where it leaves `model.safetensors` and `metrics.jsonl`."""

    name: str = "training"

    @abstractmethod
    def fit(self, folder: Path, processes: Processes, reporter: Reporter) -> None:
        """Fit to the end, whatever part of it was done before."""


@dataclass
class Steps(Stage):
    """A training by the one trainer. Afterwards the model has the weights that validated best."""

    model: nn.Module
    objective: Objective
    batches: Stream
    validate: Callable[[], Figures]
    training: TrainingConfig
    name: str = "training"
    loss: str = "valid_loss"
    """What its validation loss is called while it goes on, where people have a name for it."""
    decides: str = "valid_loss"
    """The figure of a validation that says which weights are best: of losses the lowest, of others the highest."""
    taught: bool = False
    """Whether the model begins with what another run learned, which is measured before the first step."""
    samples: Samples | None = None
    """What it writes after a validation, for people who watch; nothing where it writes no texts."""

    def trainer(self, folder: Path, processes: Processes, reporter: Reporter) -> Trainer:
        """What makes the steps."""
        from seqloom.training import Trainer

        parts = self.model, self.objective, self.batches, self.validate, self.training
        return Trainer(*parts, folder, processes, reporter, self.loss, self.decides, self.samples)

    def fit(self, folder: Path, processes: Processes, reporter: Reporter) -> None:
        from seqloom.training import load_model_weights, load_weights

        trainer = self.trainer(folder, processes, reporter)
        if not trainer.resume() and self.taught:
            trainer.measure()
        trainer.fit()
        load_model_weights(self.model, load_weights(folder / WEIGHTS), str(folder / WEIGHTS))


@dataclass(frozen=True)
class Computed:
    """What came of a computation."""

    save: Callable[[Path], None]
    """Writes the weights into a file."""
    entries: list[dict[str, Any]]
    """What to log, the last entry with all figures."""


@dataclass
class Computation(Stage):
    """A model that is computed at once, in the first process: counted, solved, or iterated to its end. Nothing is kept
    of one that was interrupted: it is computed again."""

    compute: Callable[[Reporter], Computed]
    name: str = "training"

    def fit(self, folder: Path, processes: Processes, reporter: Reporter) -> None:
        if processes.main:
            computed = self.compute(reporter)
            journal = Journal(folder)
            for entry in computed.entries:
                journal.write(entry)
            journal.close()
            computed.save(folder / WEIGHTS)
        processes.wait()


class Stopwatch:
    """Times a computation, for the one entry of its log."""

    def __init__(self) -> None:
        self.began = time.perf_counter()

    def entry(self, tokens: int, unit: str = "tokens", **figures: Any) -> dict[str, Any]:
        """An entry of the log: so many tokens until now, or what people call them here, and more figures."""
        seconds = time.perf_counter() - self.began
        speed = {"tokens_per_second": tokens / seconds, **named_unit(unit)}
        return {"step": 1, "tokens": tokens, "seconds": seconds, **speed, **figures}


def saving(model: nn.Module) -> Callable[[Path], None]:
    """What writes the weights of a torch model into a file."""
    from seqloom.training import model_weights
    from seqloom.training.checkpoints import save_weights

    return lambda path: save_weights(model_weights(model), path)
