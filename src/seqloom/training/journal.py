"""`metrics.jsonl`: one JSON object per log point; TensorBoard events beside it on request."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from seqloom.errors import ConfigError, SeqloomError
from seqloom.files import write_text


class Journal:
    """Appends to `metrics.jsonl`. Opened at a step, it first forgets what was logged after that step."""

    def __init__(self, folder: Path, step: int = 0, tensorboard: bool = False) -> None:
        self.path = folder / "metrics.jsonl"
        entries = read_metrics(folder) if step else []
        # An average over checkpoints comes after the last step, and comes again when a finished run goes on.
        kept = [entry for entry in entries if entry["step"] <= step and "averaged_checkpoints" not in entry]
        write_text(self.path, "".join(json.dumps(entry) + "\n" for entry in kept))
        self._file: IO[str] = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 - open as long as training runs
        self._events = _events(folder) if tensorboard else None

    def write(self, entry: dict[str, Any]) -> None:
        """Log one object; it carries the `step`."""
        try:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()
        except OSError as error:
            raise SeqloomError(f"cannot write {self.path}: {error.strerror}; make room, then --resume") from error
        if self._events:
            for name, value in entry.items():
                if isinstance(value, int | float) and name != "step":
                    self._events.add_scalar(name, value, entry["step"])

    def close(self) -> None:
        """Close the files."""
        with suppress(OSError):  # what a full disk refused was reported by `write`
            self._file.close()
        if self._events:
            self._events.close()


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """All entries of a run's `metrics.jsonl`; a last line that a crash cut short is left out."""
    path = Path(folder) / "metrics.jsonl"
    if not path.is_file():
        return []
    entries = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return entries


def _events(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            "training.tensorboard needs the tensorboard package: pip install 'seqloom[track]', or set it to false"
        ) from error
    return SummaryWriter(folder / "tensorboard")
