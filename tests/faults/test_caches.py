"""A damaged cache is built anew: the right run, always."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import actions
import pytest
from damage import ACCIDENTS, accidents
from kinds import CASES, Case
from laboratory import Laboratory
from tally import Counting, Tally
from workshop import of_cases

pytestmark = pytest.mark.faults
CACHING = ("lstm", "ngram", "word2vec", "pairs", "tagger-elmo")  # each fills it with something else
of_caching = of_cases([case for case in CASES if case.name in CACHING])


def try_caches(laboratory: Laboratory, case: Case, most: int, tmp_path: Path, trials: Tally) -> None:
    """Train with copies of a cache in which a file is damaged."""
    choose, whole = Random(f"{case.name} {most}"), tmp_path / "whole"
    laboratory.reference(case)  # and the runs that it is made of
    assert train(laboratory, case, whole) == ("right", "")
    assert any(whole.iterdir())
    for number, (file, way) in enumerate(accidents(whole, choose, most)):
        cache = shutil.copytree(whole, tmp_path / str(number))
        ACCIDENTS[way](cache / file, choose)
        verdict, said = train(laboratory, case, cache)
        trials.add(f"{case.name}: {file}: {way}", verdict, said)


def train(laboratory: Laboratory, case: Case, cache: Path) -> tuple[str, object]:
    folder = laboratory.new_folder()
    outcome = laboratory.server.call(actions.train_with_cache, cache, case.name, folder)
    return laboratory.result(case, folder, outcome)


@of_caching
def test_a_run_with_a_damaged_cache_is_the_right_one(
    case: Case, laboratory: Laboratory, tally: Counting, tmp_path: Path
) -> None:
    with tally("caches") as trials:
        try_caches(laboratory, case, 60, tmp_path, trials)
