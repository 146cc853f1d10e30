"""Grid worlds: a map of fields to walk on, walls, and fields where the walk ends with a reward."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seqloom.errors import DataError, UserError, quoted, shown
from seqloom.models.decisions.process import DecisionProcess
from seqloom.text.reading import read_lines

ACTIONS = ("north", "east", "south", "west")
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
ARROWS = "↑→↓←"
WALL, FREE, START, GOOD, BAD = "#", ".", "S", "+", "-"
LARGEST = 2500  # fields: a process keeps a matrix of fields by fields for each action
EXAMPLES = {
    "four-by-three": "...+\n.#.-\nS...\n",  # Russell & Norvig, Artificial Intelligence, chapter on complex decisions
    "cliff": "............\n............\n............\nS----------+\n",  # Sutton & Barto, example 6.6
}


@dataclass(frozen=True)
class GridWorld:
    """Fields of a map. Each one that is no wall is a state, and one more state is where a walk has ended."""

    rows: tuple[str, ...]
    name: str = "grid"

    @property
    def fields(self) -> list[tuple[int, int]]:
        """Row and column of each state but the last."""
        return [
            (row, column) for row, line in enumerate(self.rows) for column, field in enumerate(line) if field != WALL
        ]

    @property
    def start(self) -> int | None:
        """The state where walks begin, if the map has one."""
        places = [state for state, (row, column) in enumerate(self.fields) if self.rows[row][column] == START]
        return places[0] if places else None

    def process(
        self, discount: float = 1.0, step: float = -0.04, slip: float = 0.2, good: float = 1.0, bad: float = -1.0
    ) -> DecisionProcess:
        """Walking on the map: a move costs `step`, and goes with probability `slip` to the left or the right of where
        it should; into a wall or off the map, it stays. On `+` and `-`, one receives `good` or `bad` and is done.
        """
        fields = self.fields
        number = {field: state for state, field in enumerate(fields)}
        states = len(fields) + 1
        transitions, rewards = np.zeros((states, len(MOVES), states)), np.zeros((states, len(MOVES)))
        transitions[-1, :, -1] = 1.0
        for state, (row, column) in enumerate(fields):
            field = self.rows[row][column]
            if field in (GOOD, BAD):
                transitions[state, :, -1] = 1.0
                rewards[state] = good if field == GOOD else bad
                continue
            rewards[state] = step
            for action in range(len(MOVES)):
                for turn, chance in ((0, 1 - slip), (1, slip / 2), (-1, slip / 2)):
                    down, right = MOVES[(action + turn) % len(MOVES)]
                    transitions[state, action, number.get((row + down, column + right), state)] += chance
        return DecisionProcess(transitions, rewards, discount)


def open_grid(source: str) -> GridWorld:
    """The map of a file, or an example by its name."""
    if source in EXAMPLES and not Path(source).exists():
        return _checked(EXAMPLES[source].splitlines(), source)
    if not Path(source).exists():
        raise UserError(f"{quoted(source)}: there is no such file; give a map, or an example: {', '.join(EXAMPLES)}")
    return _checked([line.rstrip() for line in read_lines(Path(source))], source)


def _checked(lines: list[str], source: str) -> GridWorld:
    while lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        unknown = set(line) - {WALL, FREE, START, GOOD, BAD}
        if unknown or len(line) != len(lines[0]):
            reason = (
                f"{shown(min(unknown))} is no field"
                if unknown
                else f"it has {len(line)} fields, the first line {len(lines[0])}"
            )
            raise DataError(
                f"{source}, line {number}: {reason}; a map has lines of equal length of . (free), # (wall), S (start), "
                "+ and - (the ends)"
            )
    grid = GridWorld(tuple(lines), Path(source).stem)
    fields = "".join(lines).replace(WALL, "")
    if not set(fields) & {GOOD, BAD}:
        raise DataError(f"{source}: the map has no end, + or -, to walk to")
    if len(fields) > LARGEST:
        raise DataError(f"{source}: the map has {len(fields):,} fields, and may have {LARGEST:,}")
    return grid
