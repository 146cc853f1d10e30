"""SIGINT, SIGTERM and SIGHUP at any moment of a training: the exit code says so, no traceback, and the run goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from signal import SIGHUP, SIGINT, SIGTERM, Signals

import actions
import pytest
from forks import Child, Outcome
from kinds import CASES, Case
from laboratory import Laboratory, ended
from tally import Counting, Tally, Verdict
from workshop import of_cases

pytestmark = pytest.mark.faults
of_two = of_cases([case for case in CASES if case.name in ("lstm", "ngram")])
of_signals = pytest.mark.parametrize("number", [SIGINT, SIGTERM, SIGHUP], ids=lambda number: number.name)


def stopped(outcome: Outcome, number: Signals) -> tuple[Verdict, object]:
    """A program that a signal ends has the code that shells know, without a traceback; or it was done already."""
    if "Traceback" in outcome.said:
        return "traceback", outcome.said
    if outcome.ending == "crash" and outcome.value == -number:  # before training began: shells say 128 + number too
        return "right", ""
    if outcome.ending != "done":
        return ended(outcome), outcome.value
    return ("right", "") if outcome.value in (0, 128 + number) else ("silent", f"exit code {outcome.value}")


def try_signals(laboratory: Laboratory, case: Case, number: Signals, times: int, trials: Tally) -> None:
    """Send a training a signal at random moments, and go on with it."""
    laboratory.reference(case)
    moments = Random(f"{case.name} {number}")
    began = time.monotonic()
    laboratory.train(case, laboratory.new_folder())
    seconds = time.monotonic() - began
    for _ in range(times):
        folder = laboratory.new_folder()
        child = laboratory.server.begin(actions.train_command, case.name, folder)
        until(folder.exists, child)
        time.sleep(moments.uniform(0, seconds))
        child.signal(number)
        verdict, said = stopped(child.end(), number)
        if verdict == "right":
            verdict, said = laboratory.result(case, folder, laboratory.go_on(case, folder))
        trials.add(f"{case.name}, {number.name}", verdict, said)


def until(happened: Callable[[], bool], child: Child) -> None:
    """Wait for something that a child does; one that fails before does not do it any more."""
    while not happened() and child.alive:
        time.sleep(0.001)


@of_two
@of_signals
def test_a_signal_at_any_moment_ends_a_training_that_can_go_on(
    case: Case, number: Signals, laboratory: Laboratory, tally: Counting
) -> None:
    with tally("signals") as trials:
        try_signals(laboratory, case, number, 12, trials)
