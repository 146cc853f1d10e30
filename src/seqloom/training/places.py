"""Where training leaves what it writes: the names of its files, and the checkpoints that are whole."""

from __future__ import annotations

from pathlib import Path

WEIGHTS = "model.safetensors"
CHECKPOINTS = "checkpoints"
REPORT = "report.html"
TRAINING = "training.safetensors"
HEADER = "checkpoint.json"


def checkpoints_in(folder: Path) -> list[Path]:
    """All finished checkpoints in a folder of them, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / HEADER).is_file())


def step_of(checkpoint: Path) -> int:
    """After how many steps a checkpoint was written."""
    return int(checkpoint.name.removeprefix("step-"))
