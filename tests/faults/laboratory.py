"""Where faults are tried: a workshop whose runs are trained by children, and what became of a run after a fault."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import actions
from forks import Outcome, Server
from kinds import Case
from tally import Verdict
from workshop import TIMING, Workshop

from seqloom.training import read_metrics

ANSWERS = "normaliser.json"
"""What a run keeps of its answers: whether it is there depends on who asked."""


@dataclass(frozen=True)
class Reference:
    """The run that nothing disturbed."""

    path: Path
    events: int
    """How many file events its training has."""
    contents: Mapping[str, Any]
    answers: str


class Laboratory:
    """Trains cases without a disturbance, once each, and tries faults on others."""

    def __init__(self, folder: Path, sentences: Sequence[str], server: Server) -> None:
        self.server = server
        self._workshop = Workshop(folder, sentences, self._train)
        for shared in ("runs", "trials"):  # else the first run in each would have an event more than the others
            (folder / shared).mkdir(exist_ok=True)
        self._numbers = count()

    def reference(self, case: Case) -> Reference:
        """The run of a case that nothing disturbed."""
        return self._workshop.run(case)

    def new_folder(self) -> Path:
        """A folder that is not there yet."""
        return self._workshop.folder / "trials" / str(next(self._numbers))

    def copy(self, run: Path) -> Path:
        """A copy of a run, to be damaged."""
        return shutil.copytree(run, self.new_folder())

    def surroundings(self) -> Path:
        """A copy of the workshop's corpora beside its runs, for commands that may write anywhere."""
        copy = self.new_folder()
        shutil.copytree(self._workshop.folder, copy, ignore=shutil.ignore_patterns("runs", "trials"))
        (copy / "runs").symlink_to(self._workshop.folder / "runs")
        return copy

    def train(self, case: Case, folder: Path, **options: Any) -> Outcome:
        """Train a case into a folder, in a child."""
        return self.server.call(actions.train, case.name, folder, **options)

    def ask(self, case: Case, folder: Path, **options: Any) -> Outcome:
        """Ask the run in a folder all that a case can be asked."""
        return self.server.call(actions.ask, case.name, folder, **options)

    def go_on(self, case: Case, folder: Path, **options: Any) -> Outcome:
        """Resume a run; where nothing of it is there yet, that is refused, and it is trained."""
        nothing = not (folder / "run.json").exists()
        outcome = self.train(case, folder, resume=True, **options)
        if outcome.ending == "refused" and nothing:
            return self.train(case, folder, **options)
        return outcome

    def loads(self, case: Case, folder: Path) -> tuple[Verdict, Any]:
        """What loading an interrupted run comes to: a finished one answers as it should."""
        outcome = self.ask(case, folder, only_finished=True)
        if outcome.ending == "done" and outcome.value not in (None, self.reference(case).answers):
            return "silent", "other answers"
        return ended(outcome), outcome.value

    def result(self, case: Case, folder: Path, outcome: Outcome) -> tuple[Verdict, Any]:
        """What a training that was disturbed came to, compared with one that was not."""
        if outcome.ending != "done":
            return ended(outcome, refused="stuck"), outcome.value
        return self.compared(contents(folder), self.reference(case).contents)

    @staticmethod
    def compared(found: Mapping[str, Any], expected: Mapping[str, Any]) -> tuple[Verdict, Any]:
        """Whether a folder holds what it should, all of it and nothing else."""
        wrong = [name for name in expected if found.get(name) != expected[name]]
        if wrong:
            return "silent", f"other content in {', '.join(wrong)}"
        left = found.keys() - expected.keys()
        return ("leftovers", ", ".join(sorted(left))) if left else ("right", "")

    def _train(self, case: Case) -> Reference:
        path = self._workshop.folder / "runs" / case.name
        trained = self.train(case, path)
        assert trained.ending == "done", trained
        found = contents(path)  # before it is asked: some runs keep answers that take long
        asked = self.ask(case, path)
        assert asked.ending == "done", asked
        return Reference(path, len(trained.value), found, asked.value)


def ended(outcome: Outcome, refused: Verdict = "refused") -> Verdict:
    """The verdict on an ending alone."""
    if outcome.ending == "done":
        return "right"
    return refused if outcome.ending == "refused" else outcome.ending


def contents(folder: Path, names: Iterable[str] | None = None) -> dict[str, Any]:
    """All that is in a folder by name, or only what is named, times aside."""
    paths = sorted(folder.rglob("*")) if names is None else [path for name in names if (path := folder / name).exists()]
    return {str(path.relative_to(folder)): _content(path) for path in paths if path.name != ANSWERS}


def _content(path: Path) -> Any:
    if path.is_dir():
        return "a folder"
    if path.name == "metrics.jsonl":
        return [untimed(entry) for entry in read_metrics(path.parent)]
    if path.name == "checkpoint.json":
        return untimed(json.loads(path.read_text(encoding="utf-8")).get("progress"))
    return path.read_bytes()


def untimed(document: Any) -> Any:
    """An object of a JSON file without times, and without a checksum in which times take part."""
    if not isinstance(document, dict):
        return document
    return {key: value for key, value in document.items() if key not in (*TIMING, "seal")}


def newest_checkpoints(folder: Path) -> dict[Path, tuple[str, int]]:
    """The newest whole checkpoint of each training in a folder, with its bytes."""
    found = {}
    for path in sorted(folder.rglob("step-*/checkpoint.json")):
        step = path.parent
        found[step.parent.relative_to(folder)] = step.name, sum(file.stat().st_size for file in step.iterdir())
    return found


def lost_bytes(before: Mapping[Path, tuple[str, int]], after: Mapping[Path, tuple[str, int]]) -> int:
    """The bytes of checkpoints that had been saved, and are gone without a newer one."""
    return sum(size for place, (name, size) in before.items() if after.get(place, ("", 0))[0] < name)
