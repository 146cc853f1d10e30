"""`kill -9` while something else than a training is written: done again, it ends as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import actions
import pytest
from forks import Outcome
from kinds import of_kind
from laboratory import Laboratory, contents, ended
from tally import Counting, Tally

from seqloom.files import TEMPORARY

pytestmark = pytest.mark.faults


def try_again(
    laboratory: Laboratory, what: str, call: Callable[..., Any], place: str, most: int, trials: Tally
) -> None:
    """Kill what a function writes at some events of it, call it again, and compare with what it writes undisturbed.

    `call` gets a place to write to, in a folder of its own.
    """
    whole = laboratory.new_folder()
    whole.mkdir(parents=True)
    done = call(whole / place)
    assert done.ending == "done", done
    events = range(1, len(done.value) + 1)
    for at in events if len(events) <= most else sorted(Random(what).sample(events, most)):
        folder = laboratory.new_folder()
        folder.mkdir()
        killed = call(folder / place, disturbance="kill", at=at)
        assert killed.ending == "crash", killed
        again = call(folder / place)
        verdict, said = ended(again), again.value
        if verdict in ("right", "refused"):  # refused, where all was there already but for giving back the lock
            verdict, said = laboratory.compared(left_by(folder / place, again), contents(whole))
        trials.add(f"{what} killed at {at}: {done.value[at - 1]}", verdict, f"{said} {again.value}"[:300])


def left_by(place: Path, outcome: Outcome) -> dict[str, Any]:
    """What is to be compared: all but the lock that a refused process had no business with, and what lies beside a
    file and bears the name of what was not finished."""
    ignored = ".lock" if outcome.ending == "refused" else None
    return {
        name: content
        for name, content in contents(place.parent).items()
        if Path(name).name != ignored and not (place.is_file() and name.startswith(TEMPORARY))
    }


@pytest.mark.parametrize(
    ("verb", "source", "place"),
    [("import", "runs/ngram.arpa", "run"), ("export", "runs/ngram", "model.arpa"), ("report", "", "report.html")],
)
def test_a_killed_transfer_can_be_done_again(
    verb: str, source: str, place: str, laboratory: Laboratory, tally: Counting
) -> None:
    reference = laboratory.reference(of_kind("ngram")[0])
    laboratory.server.call(actions.transfer, "export", reference.path, f"{reference.path}.arpa")

    def call(path: Path, **options: Any) -> Any:
        return laboratory.server.call(actions.transfer, verb, source, path, **options)

    with tally("kills") as trials:
        try_again(laboratory, verb, call, place, 100, trials)


def test_a_killed_comparison_can_be_made_again(laboratory: Laboratory, tally: Counting) -> None:
    def call(path: Path, **options: Any) -> Any:
        return laboratory.server.call(actions.compare, path, **options)

    with tally("kills") as trials:
        try_again(laboratory, "compare", call, "ladder", 60, trials)
