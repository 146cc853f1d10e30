"""Several processes that write into one folder at the same time: one of them does, and the others say who it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from signal import SIGKILL
from typing import Any

import actions
import pytest
from forks import Outcome
from kinds import CASES, Case
from laboratory import Laboratory, contents, ended
from tally import Counting, Tally, Verdict
from workshop import of_cases

pytestmark = pytest.mark.faults
REFUSAL = r"is being written by process \d+|holds a run already"
of_two = of_cases([case for case in CASES if case.name in ("lstm", "ngram")])


def together(laboratory: Laboratory, many: int, function: Callable[..., Any], *arguments: Any) -> list[Outcome]:
    """Call a function in so many children at the same time."""
    children = [laboratory.server.begin(function, *arguments) for _ in range(many)]
    return [child.end() for child in children]


def answered(outcomes: Sequence[Outcome]) -> tuple[Verdict, object]:
    """Each has done it, or names who is doing it, or finds it done."""
    for outcome in outcomes:
        if outcome.ending not in ("done", "refused"):
            return ended(outcome), outcome.value
        if outcome.ending == "refused" and not re.search(REFUSAL, outcome.value):
            return "stuck", outcome.value
    return "right", ""


def one_of(outcomes: Sequence[Outcome]) -> tuple[Verdict, object]:
    """One has done it, and none of the others."""
    verdict, said = answered(outcomes)
    done = sum(outcome.ending == "done" for outcome in outcomes)
    if verdict != "right" or done == 1:
        return verdict, said
    return "silent" if done else "stuck", f"{done} of them have done it"


def try_together(laboratory: Laboratory, case: Case, many: int, trials: Tally) -> None:
    """Train into one folder at the same time."""
    folder = laboratory.new_folder()
    outcomes = together(laboratory, many, actions.train, case.name, folder)
    verdict, said = one_of(outcomes)
    if verdict == "right":
        verdict, said = laboratory.compared(contents(folder), laboratory.reference(case).contents)
    trials.add(f"{case.name}, {many} at once", verdict, said)


@of_two
def test_one_of_two_trainings_is_refused(case: Case, laboratory: Laboratory, tally: Counting) -> None:
    with tally("two at once") as trials:
        try_together(laboratory, case, 2, trials)


@of_two
def test_one_of_eight_trainings_is_done(case: Case, laboratory: Laboratory, tally: Counting) -> None:
    with tally("two at once") as trials:
        for _ in range(15):
            try_together(laboratory, case, 8, trials)


def test_one_of_two_comparisons_is_done(laboratory: Laboratory, tally: Counting) -> None:
    alone = laboratory.new_folder()
    assert laboratory.server.call(actions.compare, alone).ending == "done"
    with tally("two at once") as trials:
        for _ in range(5):
            folder = laboratory.new_folder()
            verdict, said = one_of(together(laboratory, 2, actions.compare, folder))
            if verdict == "right":
                verdict, said = laboratory.compared(contents(folder), contents(alone))
            trials.add("two comparisons", verdict, said)


@of_two
def test_the_lock_of_a_killed_process_is_open_to_one_of_the_next(
    case: Case, laboratory: Laboratory, tally: Counting
) -> None:
    with tally("two at once") as trials:
        for _ in range(5):
            folder = laboratory.new_folder()
            killed = laboratory.train(case, folder, disturbance="kill", at=laboratory.reference(case).events * 3 // 4)
            assert (killed.value, (folder / ".lock").is_file()) == (-SIGKILL, True)
            children = [laboratory.server.begin(actions.train, case.name, folder, resume=True) for _ in range(4)]
            verdict, said = answered([child.end() for child in children])  # a later one may find nothing to do
            if verdict == "right":
                verdict, said = laboratory.compared(contents(folder), laboratory.reference(case).contents)
            trials.add(f"{case.name}, four after a kill", verdict, said)
