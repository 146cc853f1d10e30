"""A sample of the fault suite that every test run tries: some faults of each kind of run, the same each time."""

from __future__ import annotations

from pathlib import Path
from random import Random
from signal import SIGTERM

from kinds import FIRST, Case
from laboratory import Laboratory
from tally import Counting
from test_caches import try_caches
from test_damage import try_accidents
from test_disks import try_full_disks
from test_kills import drawn, try_kills
from test_signals import try_signals
from test_strangers import try_strangers
from test_two_at_once import try_together
from workshop import of_cases


@of_cases(FIRST)
def test_a_run_outlives_some_faults(case: Case, laboratory: Laboratory, tally: Counting) -> None:
    reference = laboratory.reference(case)
    with tally("kills") as trials:
        try_kills(laboratory, case, trials, drawn(laboratory, case, 1, 1))
    with tally("damage") as trials:
        try_accidents(laboratory, case, reference.path, 1, trials)
    with tally("stranger") as trials:
        try_strangers(laboratory, case, 1, trials)


def test_a_training_outlives_its_surroundings(laboratory: Laboratory, tally: Counting, tmp_path: Path) -> None:
    case = FIRST[0]
    with tally("caches") as trials:
        try_caches(laboratory, case, 3, tmp_path, trials)
    with tally("two at once") as trials:
        try_together(laboratory, case, 2, trials)
    with tally("disk") as trials:
        try_full_disks(laboratory, case, trials, Random(0).sample(range(laboratory.reference(case).events), 3))
    with tally("signals") as trials:
        try_signals(laboratory, case, SIGTERM, 1, trials)
