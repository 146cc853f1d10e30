"""The table of all faults that were tried: how many were survived, and what became of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal

CHAPTERS = ("kills", "kills twice", "damage", "stranger", "caches", "two at once", "disk", "signals", "odd input")
COLUMNS = ("tried", "survived", "lost bytes", "silent", "tracebacks")

Verdict = Literal["right", "refused", "stuck", "leftovers", "silent", "traceback", "crash", "hang"]
"""What came of a trial: the right answer; one sentence that refuses; a refusal where there was no reason for one; the
right answer beside files that should be gone; another answer; an error that is not for the user's eyes; a process that
died; one that never ended."""
SURVIVED = ("right", "refused")


@dataclass
class Tally:
    """The trials of one chapter in one test."""

    chapter: str
    verdicts: Counter[str] = field(default_factory=Counter)
    lost_bytes: int = 0
    complaints: list[str] = field(default_factory=list)

    def add(self, trial: str, verdict: Verdict, said: object = "", lost: int = 0) -> None:
        """Count a trial: what was tried, what came of it, and the bytes that had been saved before and are gone."""
        self.verdicts[verdict] += 1
        self.lost_bytes += lost
        if verdict not in SURVIVED or lost:
            self.complaints.append(f"{trial}: {verdict}, {lost} bytes lost: {said}")

    @property
    def row(self) -> dict[str, int]:
        """Its row of the table."""
        found = self.verdicts
        broken = found["traceback"] + found["crash"] + found["hang"]
        survived = sum(found[verdict] for verdict in SURVIVED)
        figures = (found.total(), survived, self.lost_bytes, found["silent"], broken)
        return dict(zip(COLUMNS, figures, strict=True))


Counting = Callable[[str], AbstractContextManager[Tally]]
"""Opens a block in which the trials of a chapter are counted; at its end, none of them may have gone wrong."""


def table(properties: Iterable[tuple[str, Any]]) -> list[str]:
    """The lines of a markdown table from what tests recorded: pairs of a chapter and a row."""
    rows: dict[str, Counter[str]] = {chapter: Counter() for chapter in CHAPTERS}
    for chapter, row in properties:
        if chapter in rows:
            rows[chapter].update(row)
    rows = {chapter: row for chapter, row in rows.items() if row["tried"]}
    if not rows:
        return []
    rows["all"] = sum(rows.values(), Counter())
    lines = [f"| {chapter} | {' | '.join(f'{row[each]:,}' for each in COLUMNS)} |" for chapter, row in rows.items()]
    return [f"| | {' | '.join(COLUMNS)} |", "|---|" + "--:|" * len(COLUMNS), *lines]
