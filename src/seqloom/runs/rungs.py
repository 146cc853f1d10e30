"""What the rungs of every ladder have in common: how their training went, on what and where."""

from __future__ import annotations

import platform
import statistics
from dataclasses import dataclass
from pathlib import Path

import torch

from seqloom.reports import CurvePoint
from seqloom.training import read_metrics


@dataclass(frozen=True)
class Course:
    """How a training went, by its log."""

    seconds: float
    """In all, validations included."""
    speed: float
    """Median of the tokens per second."""
    curve: list[CurvePoint]
    """Its validations."""

    @classmethod
    def of(cls, folder: Path) -> Course:
        """The course of a run."""
        metrics = read_metrics(folder)
        logged = [entry for entry in metrics if "tokens_per_second" in entry]
        validated = [entry for entry in metrics if "valid_loss" in entry]
        return cls(
            seconds=logged[-1]["seconds"],
            speed=statistics.median(entry["tokens_per_second"] for entry in logged),
            curve=[CurvePoint(entry["tokens"], entry["seconds"], entry["valid_loss"]) for entry in validated],
        )


def shown(files: str | list[str]) -> str:
    """The names of files, of aligned ones too, without their folders."""
    names = [files] if isinstance(files, str) else files
    return ", ".join(Path(name).name for entry in names for name in entry.split(","))


def machine() -> str:
    """What the speeds of a ladder were measured on."""
    processor = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    return f"{processor}, {torch.get_num_threads()} threads, torch {torch.__version__}"
