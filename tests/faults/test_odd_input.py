"""Odd words on the command line: an answer, or one sentence; never a traceback."""

from __future__ import annotations

import shlex
from itertools import cycle
from pathlib import Path

import actions
import pytest
from forks import Outcome
from kinds import FIRST, Case
from laboratory import Laboratory, ended
from odd_files import odd_files
from tally import Counting, Tally, Verdict
from workshop import of_cases

pytestmark = pytest.mark.faults

WORDS = (
    "",
    "nonsense",
    "train",
    "train ''",
    "train /",
    "train lstm --set",
    "train lstm --set =",
    "train lstm --set seed",
    "train lstm --set seed=x --out OUT",
    "train lstm --set model=3 --out OUT",
    "train lstm --set 'model={' --out OUT",
    "train lstm --set training.steps=1e400 --out OUT",
    "train lstm --set training.steps=99999999999999999999 --set data.train=sentences.txt --set data.valid=/ --out OUT",
    "train lstm --set data.train= --out OUT",
    "train lstm --set data.train=. --out OUT",
    "train lstm --set data.train=/dev/null --out OUT",
    "train lstm --set data.train=shades/0.png --out OUT",
    "train lstm --out sentences.txt",
    "train lstm --out sentences.txt/run",
    "train lstm --out OUT --resume",
    "train shades/0.png --out OUT",
    "train vae --set data.train=sentences.txt --out OUT",
    "train pairs --out OUT",
    "score",
    "score .",
    "score sentences.txt",
    "score nowhere",
    "evaluate /dev/null",
    "compare lstm lstm --out OUT",
    "compare lstm vae --out OUT",
    "compare lstm --vary seed --out OUT",
    "compare lstm --vary seed= --out OUT",
    "import nowhere --out OUT",
    "import sentences.txt --out OUT",
    "import shades/0.png --out OUT",
    "import sentences.txt --from word2vec --out OUT",
    "stats nowhere",
    "stats shades/0.png",
    "stats /dev/null",
    "anneal nowhere",
    "anneal sentences.txt",
    "anneal shades/0.png",
    "anneal /dev/null",
    "anneal random:0:0",
    "presets nonsense",
    "corpora nonsense",
)
"""Words after `seqloom`; `OUT` is a folder that is not there yet."""

ODD = ("", "/", "nowhere", "shades", "shades/0.png", "/dev/null", "-1", "1e400", "\udce4", "x" * 5000, "😀")
"""In the place of every argument of a verb in turn."""


def answered(outcome: Outcome) -> tuple[Verdict, object]:
    """An answer, or a refusal with an exit code that says so."""
    if outcome.ending != "done":
        return ended(outcome), outcome.value
    if "Traceback" in outcome.said:
        return "traceback", outcome.said
    return ("right" if outcome.value == 0 else "refused") if outcome.value in (0, 1, 2) else "silent", outcome.said


def ask(laboratory: Laboratory, words: list[str], folder: Path, trials: Tally) -> None:
    """Call `seqloom` with these words inside a folder: some of them make it write there."""
    verdict, said = answered(laboratory.server.call(actions.command, *words, inside=str(folder)))
    trials.add(shlex.join(words)[:200], verdict, said)


def test_odd_words_are_answered_or_refused(laboratory: Laboratory, tally: Counting) -> None:
    folder = laboratory.surroundings()
    with tally("odd input") as trials:
        for line in WORDS:
            ask(laboratory, shlex.split(line.replace("OUT", str(laboratory.new_folder()))), folder, trials)


def test_odd_files_are_refused(laboratory: Laboratory, tally: Counting, tmp_path: Path) -> None:
    folder = laboratory.surroundings()
    with tally("odd input") as trials:
        for number, odd in enumerate(odd for odd in odd_files() if odd.said is not None):
            place = tmp_path / str(number)
            place.mkdir()
            ask(laboratory, [*odd.command(odd.write(place)), "--out", str(place / "run")], folder, trials)


@of_cases(FIRST)
def test_odd_arguments_of_a_verb_are_answered_or_refused(
    case: Case, laboratory: Laboratory, tally: Counting, tmp_path: Path
) -> None:
    laboratory.reference(case)
    folder = laboratory.surroundings()
    with tally("odd input") as trials:
        odd = cycle(ODD)
        for verb in case.verbs:
            words = case.command(verb, tmp_path)
            for place in range(len(verb.split()), len(words)):
                ask(laboratory, [*words[:place], next(odd), *words[place + 1 :]], folder, trials)
