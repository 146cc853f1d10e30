"""How long the runs of a comparison will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from seqloom.config import RunConfig
from seqloom.runs.folder import RunFolder
from seqloom.runs.kind import Work, kind_named
from seqloom.runs.stages import Stage, Steps
from seqloom.training import Processes, Silent


class Timetable:
    """What is expected of each run, in seconds, at the pace of those that are done.

    Nothing is expected (None) of a run that cannot be foreseen: it counts as no time at all.
    """

    def __init__(self, expected: Sequence[float | None], clock: Callable[[], float] = time.monotonic) -> None:
        self.expected, self._clock = [seconds or 0.0 for seconds in expected], clock
        self._begun: list[float] = []

    def begin(self) -> None:
        """The next run begins; the one before it is done, trained and measured."""
        self._begun.append(self._clock())

    def left(self, first: int = 0) -> float:
        """Seconds that the runs from the one of this number on will take."""
        return self._pace() * sum(self.expected[first:])

    def _pace(self) -> float:
        """How many times longer the runs that are done took than what was expected of them."""
        took = [after - before for before, after in zip(self._begun, self._begun[1:], strict=False)]
        known = [(took, expected) for took, expected in zip(took, self.expected, strict=False) if expected]
        return sum(took for took, _ in known) / sum(expected for _, expected in known) if known else 1.0


def foreseen(config: RunConfig, processes: Processes) -> float | None:
    """About how many seconds a training will take, by a few steps of a model that is thrown away.

    None where a few steps do not tell: what is computed at once, or in several stages.
    """
    if not config.model.objectives:
        return None
    training = config.training.model_copy(update={"compile": False})  # it would take longer than all that is timed
    config = config.model_copy(update={"training": training})
    kind = kind_named(config.model.kind)
    data, assets = kind.prepare(config, None)
    with TemporaryDirectory() as folder:
        model, silent = kind.build(config, assets), Silent()
        work = Work(config, data, assets, model, RunFolder(Path(folder)), processes, silent)
        stage = next(kind.stages(work))
        if not isinstance(stage, Steps) or stage.name != Stage.name:
            return None
        return stage.trainer(Path(folder), processes, silent).rehearse()
