"""A run as one watches it: what its folder tells while it is trained in another process, and afterwards."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from seqloom.config import load_config
from seqloom.config.schema.training import TrainingConfig
from seqloom.reports.logged import LOGGED, Panel, name_of
from seqloom.runs.folder import MANIFEST, RunFolder
from seqloom.runs.log import Entry, Figure, TrainingLog, gathered
from seqloom.training.journal import METRICS, SAMPLES, read_journal, read_metrics

RECENT = 5  # entries whose speed counts as that of now
VALIDATIONS = 3  # whose samples are shown
POINTS = 500  # of a line, at most

Point = tuple[int, float]


@dataclass(frozen=True)
class Watched:
    """How far a run is."""

    run: str
    name: str
    kind: str | None
    """None while the run is only beginning."""
    state: str
    """beginning, training, stopped or finished"""
    stage: str | None = None
    """Of a run with several, the one that was logged last."""
    step: int = 0
    steps: int | None = None
    """How many there will be; None where nobody knows."""
    epoch: float | None = None
    tokens_per_second: float | None = None
    """Of late: the median of the last few entries."""
    unit: str = "tokens"
    """What is counted as tokens."""
    seconds: float = 0.0
    """How long it was trained."""
    left: float | None = None
    """How many seconds there will be still, at the mean pace until now."""
    best: Figure | None = None
    panels: list[dict[str, Any]] = field(default_factory=list)
    """{"title", "lines": [{"name", "points": [[step, value], ...]}]}, as the report draws them."""
    samples: list[Entry] = field(default_factory=list)
    """What it wrote at its last validations: {"step", "input", "text"} each."""

    @property
    def goes_on(self) -> bool:
        """Whether there may be more to see."""
        return self.state in ("beginning", "training")

    def record(self) -> dict[str, Any]:
        """All of it for JSON."""
        return asdict(self)


def watched(path: str | Path) -> Watched:
    """How far the run in a folder is, now."""
    folder = RunFolder(Path(path))
    folder.check_there()
    name = folder.path.resolve().name
    state = folder.state
    if not folder.begun:
        return Watched(str(path), name, None, state)
    folder.check_plugins()
    config = load_config(folder.config_file)
    entries, samples = _logged(folder)
    log = TrainingLog.by_stages(entries)
    if not entries:
        return Watched(str(path), name, config.model.kind, state, steps=config.training.steps)
    stage = log.stages[-1]
    last = stage[-1]
    by_steps = bool(config.model.objectives) and "stage" not in last
    epoch = next((entry["epoch"] for entry in reversed(stage) if "epoch" in entry), None)
    steps = total_steps(config.training, stage) if by_steps else None
    speeds = [entry["tokens_per_second"] for entry in stage if "tokens_per_second" in entry]
    return Watched(
        str(path),
        name,
        config.model.kind,
        state,
        last.get("stage"),
        last["step"],
        steps,
        epoch,
        statistics.median(speeds[-RECENT:]) if speeds else None,
        next((entry["unit"] for entry in stage if "unit" in entry), "tokens"),
        log.seconds,
        seconds_left(config.training, steps, last) if state == "training" else None,
        Figure.of(config.model, log.best),
        [_record(panel) for panel in LOGGED[name_of(stage)].panels(stage)],
        _latest(samples),
    )


def total_steps(training: TrainingConfig, stage: Sequence[Entry]) -> int | None:
    """How many steps a training has: as the configuration says, or as many as its epochs have by the log."""
    if training.steps:
        return training.steps
    passes = next((entry for entry in reversed(stage) if entry.get("epoch")), None)
    return None if passes is None else max(1, round((training.epochs or 1) * passes["step"] / passes["epoch"]))


def seconds_left(training: TrainingConfig, steps: int | None, last: Entry) -> float | None:
    """How long the other steps take at the mean pace until now, validations included; not beyond the clock."""
    bounds = []
    if steps is not None and last["step"] and "seconds" in last:
        bounds.append((steps - last["step"]) * last["seconds"] / last["step"])
    if training.minutes is not None and "seconds" in last:
        bounds.append(60 * training.minutes - last["seconds"])
    return max(0.0, min(bounds)) if bounds else None


def thinned(points: Sequence[Point], most: int = POINTS) -> list[Point]:
    """A line of at most so many points, that looks the same: the first, the last, and of equal parts between them the
    lowest and the highest, in their order."""
    if len(points) <= most:
        return list(points)
    inner, parts = range(1, len(points) - 1), (most - 2) // 2
    kept = {0, len(points) - 1}
    for part in range(parts):
        bucket = inner[part * len(inner) // parts : (part + 1) * len(inner) // parts]
        kept |= {min(bucket, key=lambda place: points[place][1]), max(bucket, key=lambda place: points[place][1])}
    return [points[place] for place in sorted(kept)]


def _latest(samples: list[Entry]) -> list[Entry]:
    """Those of the last validations."""
    steps = sorted({entry["step"] for entry in samples})[-VALIDATIONS:]
    return [entry for entry in samples if entry["step"] in steps]


def _record(panel: Panel) -> dict[str, Any]:
    lines = [
        {"name": line.name, "points": [list(each) for each in thinned([*zip(line.steps, line.values, strict=True)])]}
        for line in panel.lines
    ]
    return {"title": panel.title, "lines": lines}


def _logged(folder: RunFolder) -> tuple[list[Entry], list[Entry]]:
    """What was logged and written until now. While stages in folders of their own are fitted, it stands there: of two,
    the log of the later one was written later."""
    logs = [file for file in folder.path.glob(f"*/{METRICS}") if not (file.parent / MANIFEST).is_file()]
    if logs and not folder.finished:
        return gathered([file.parent for file in sorted(logs, key=lambda file: file.stat().st_mtime_ns)])
    return read_metrics(folder.path), read_journal(folder.path / SAMPLES)
