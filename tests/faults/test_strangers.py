"""A run made by a stranger, sealed with the right checksums: an answer, whatever it is, or one sentence."""

from __future__ import annotations

from random import Random

import actions
import pytest
from damage import STRANGERS, of_a_stranger
from kinds import FIRST, Case
from laboratory import Laboratory, ended
from tally import Counting, Tally
from workshop import of_cases

pytestmark = pytest.mark.faults


def try_strangers(laboratory: Laboratory, case: Case, times: int, trials: Tally) -> None:
    """Change files of copies of a run, one each, and ask them."""
    run, choose = laboratory.reference(case).path, Random(f"{case.name} {times}")
    files = of_a_stranger(run)
    for number in range(times):
        file, copy = files[number % len(files)], laboratory.copy(run)
        done = STRANGERS[file.suffix](copy / file, choose)
        outcome = laboratory.server.call(actions.seal_and_ask, case.name, copy)
        trials.add(f"{case.name}: {file}: {done}", ended(outcome), outcome.value)


@of_cases(FIRST)
def test_a_changed_run_of_a_stranger_answers_or_is_refused(case: Case, laboratory: Laboratory, tally: Counting) -> None:
    reference = laboratory.reference(case)
    unchanged = laboratory.server.call(actions.seal_and_ask, case.name, laboratory.copy(reference.path))
    assert unchanged.value == reference.answers  # else all that follows would be refused for its seal
    with tally("stranger") as trials:
        try_strangers(laboratory, case, 80, trials)
