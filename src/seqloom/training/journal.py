"""`metrics.jsonl`: one JSON object per log point, each with its checksum; TensorBoard events beside it on request.

What a model wrote at its validations is kept in the same way, in `samples.jsonl`.
"""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from seqloom.errors import ConfigError, SeqloomError
from seqloom.files import disk_errors, write_text

METRICS = "metrics.jsonl"
SAMPLES = "samples.jsonl"


class Journal:
    """Appends to `metrics.jsonl`, or to another such file. Opened at a step, it first forgets what was logged after
    that step."""

    def __init__(self, folder: Path, step: int = 0, tensorboard: bool = False, name: str = METRICS) -> None:
        self.path = folder / name
        entries = read_journal(self.path) if step else []
        # An average over checkpoints comes after the last step, and comes again when a finished run goes on.
        kept = [entry for entry in entries if entry["step"] <= step and "averaged_checkpoints" not in entry]
        write_text(self.path, "".join(map(_line, kept)))
        with disk_errors(self.path):
            self._file: IO[str] = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 - open as long as training runs
        self._events = _events(folder) if tensorboard else None

    def write(self, entry: dict[str, Any]) -> None:
        """Log one object; it carries the `step`."""
        try:
            self._file.write(_line(entry))
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
    """All entries of a run's `metrics.jsonl`; a line that is not what was written is left out."""
    return read_journal(Path(folder) / METRICS)


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The same of any such file; no entries where there is none."""
    if not path.is_file():
        return []
    lines = path.read_bytes().splitlines()
    return [entry for entry in map(_entry, lines) if entry is not None]


def named_unit(unit: str) -> dict[str, str]:
    """For an entry, what its `tokens` are where they are something else: images, texts."""
    return {} if unit == "tokens" else {"unit": unit}


CHECKSUM = "crc32"


def _line(entry: dict[str, Any]) -> str:
    """An entry as a line, its checksum last."""
    return json.dumps({**entry, CHECKSUM: zlib.crc32(json.dumps(entry).encode())}) + "\n"


def _entry(line: bytes) -> dict[str, Any] | None:
    """What a line logs, or None if a crash cut it short or a disk damaged it."""
    try:
        entry = json.loads(line)
        checksum = entry.pop(CHECKSUM)
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return None
    return entry if checksum == zlib.crc32(json.dumps(entry).encode()) else None


def _events(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            "training.tensorboard needs the tensorboard package: pip install 'seqloom[track]', or set it to false"
        ) from error
    return SummaryWriter(folder / "tensorboard")
