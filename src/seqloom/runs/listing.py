"""Runs at a glance: what each is, how good, how large and how old, by its small files alone. No model is loaded."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seqloom.arrays import shapes_of
from seqloom.config import load_config
from seqloom.errors import CheckpointError, SeqloomError
from seqloom.runs.folder import RunFolder
from seqloom.runs.log import Figure, TrainingLog, training_files

DAY = 86400
SPANS = (("year", 365 * DAY), ("month", 30 * DAY), ("day", DAY), ("h", 3600), ("min", 60), ("s", 1))


@dataclass(frozen=True)
class Listed:
    """A run at a glance."""

    run: str
    kind: str
    parts: dict[str, str]
    """The kinds of the model's parts: features, output, ..."""
    data: str
    """The names of the files that it learned from."""
    figure: Figure | None
    """How good it is, by its best validation."""
    parameters: int | None
    """How many numbers its weights are; None before the first validation, when there are none yet."""
    bytes: int
    """All of the folder."""
    state: str
    changed: float
    """When a file of it was written last, in seconds since 1970."""

    @property
    def model(self) -> str:
        """The kind of the model, and those of the parts that it has."""
        return ", ".join([self.kind, *(f"{name} {kind}" for name, kind in self.parts.items() if kind != "none")])

    @property
    def age(self) -> float:
        """Seconds since the last change."""
        return max(0.0, time.time() - self.changed)

    def record(self) -> dict[str, Any]:
        """All of it for JSON."""
        return asdict(self) | {"age": self.age}


@dataclass(frozen=True)
class Damaged:
    """A run that cannot be read, and why."""

    run: str
    error: SeqloomError

    def record(self) -> dict[str, Any]:
        """The same for JSON."""
        return {"run": self.run, "error": str(self.error)}


def listed(path: str | Path) -> Listed:
    """A run at a glance."""
    folder = RunFolder.known(path)
    folder.check_plugins()
    state = folder.state
    config = load_config(folder.config_file)
    if state == "finished" and not folder.weights_file.is_file():
        raise CheckpointError(f"{folder.weights_file} is missing: bring it back from a copy, or train again")
    sizes = list(_sizes(folder.path))
    return Listed(
        str(path),
        config.model.kind,
        {name: part.kind for name, part in config.model if hasattr(part, "kind")},
        training_files(config),
        Figure.of(config.model, TrainingLog.of(folder.path).best),
        _parameters(folder) if folder.weights_file.is_file() else None,
        sum(size for size, _ in sizes),
        state,
        max((changed for _, changed in sizes), default=0.0),
    )


def _parameters(folder: RunFolder) -> int:
    """How many numbers a run learned: as its manifest says, or, until it is finished, by its weights."""
    counted = parameters_in(folder.weights_file)  # in any case: this refuses weights that are damaged
    return folder.manifest.parameters or counted


def parameters_in(weights: Path) -> int:
    """How many numbers a file of weights holds. What was not fitted is left out: whole numbers, which are places in
    tables and counts, and the means and variances of batch normalisation."""
    seen = ("running_mean", "running_var")
    return sum(
        math.prod(shape)
        for name, (dtype, shape) in shapes_of(weights).items()
        if dtype.startswith(("F", "BF")) and not name.endswith(seen)
    )


def listing(paths: Iterable[Path]) -> list[Listed | Damaged]:
    """Runs at a glance, those included that cannot be read."""

    def look(path: Path) -> Listed | Damaged:
        try:
            return listed(path)
        except SeqloomError as error:
            return Damaged(str(path), error)

    return [look(path) for path in paths]


ORDERS: dict[str, Callable[[Listed], Any]] = {
    "run": lambda run: run.run,
    "model": lambda run: run.model,
    "figure": lambda run: (run.figure is None, run.figure and (run.figure.name, run.figure.value)),
    "parameters": lambda run: (run.parameters is None, run.parameters or 0),
    "size": lambda run: run.bytes,
    "age": lambda run: -run.changed,
}
"""What runs can be sorted by; figures of one name stand together."""


def span(seconds: float) -> str:
    """A time span by its largest unit: 40 s, 3 min, 2 days."""
    unit, length = next((each for each in SPANS if seconds >= each[1]), SPANS[-1])
    number = int(seconds // length)
    return f"{number} {unit}{'s' if number > 1 and length >= DAY else ''}"


def _sizes(folder: Path) -> Iterator[tuple[int, float]]:
    """Size and time of each file; a training may take some away at this moment."""
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                status = Path(place, name).stat()
                yield status.st_size, status.st_mtime
