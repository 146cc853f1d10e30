"""A folder of tiny corpora in which a run of every case is trained once, when a test first asks for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, chdir, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import CASES, FIRST, Case
from PIL import Image
from questions import SHADES

import seqloom

PARTS_OF_SPEECH = {"the": "D", "a": "D", "on": "P", "and": "C", "sat": "V", "fell": "V", "met": "V"}


@dataclass(frozen=True)
class Run:
    """A trained case."""

    case: Case
    trained: Any
    """What `seqloom.train` returned."""

    @property
    def path(self) -> Path:
        return Path("runs") / self.case.name

    @cached_property
    def outputs(self) -> dict[str, Any]:
        return self.case.outputs(self.trained)


class Workshop:
    """Trains cases in a folder, each once and after those it is made of; the first case of each kind with a report."""

    def __init__(self, folder: Path, without_reports: Callable[[], AbstractContextManager[None]]) -> None:
        self.folder, self.without_reports = folder, without_reports
        self._runs: dict[str, Run] = {}

    def run(self, case: Case) -> Run:
        if case.name not in self._runs:
            for name in case.needs:
                self.run(next(other for other in CASES if other.name == name))
            with chdir(self.folder), nullcontext() if case in FIRST else self.without_reports():
                trained = seqloom.train(case.preset, case.settings, Path("runs") / case.name)
            self._runs[case.name] = Run(case, trained)
        return self._runs[case.name]


@pytest.fixture(scope="session")
def workshop(
    corpus_file: Path, without_reports: Callable[[], AbstractContextManager[None]], tmp_path_factory: Any
) -> Workshop:
    folder = tmp_path_factory.mktemp("workshop")
    sentences = corpus_file.read_text(encoding="utf-8").splitlines()
    write_texts(folder, sentences)
    write_shades(folder / "shades")
    return Workshop(folder, without_reports)


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest, workshop: Workshop) -> Run:
    """The run of the case that a test names."""
    return workshop.run(request.param)


def write_texts(folder: Path, sentences: list[str]) -> None:
    """The sentences as they are, backwards as the targets of pairs, word by word with tags, and with labels."""
    named = [f"name{number} {sentence}".split() for number, sentence in enumerate(sentences)]
    pairs = [" ".join(words) + "\t" + " ".join(reversed(words)) for words in named]
    tagged = [[f"{word} {PARTS_OF_SPEECH.get(word, 'N')}" for word in sentence.split()] for sentence in sentences]
    labelled = [("cat" if "cat" in sentence else "none") + "\t" + sentence for sentence in sentences]
    for name, lines in {
        "sentences.txt": sentences,
        "held-out.txt": sentences[10:20],
        "pairs.tsv": pairs,
        "tagged.txt": ["\n".join([*words, ""]) for words in tagged],
        "labelled.tsv": labelled,
    }.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_shades(folder: Path) -> None:
    """Images of 8×8 pixels, a shade on the left and another on the right, with captions that say so."""
    folder.mkdir()
    random = np.random.default_rng(0)
    records = []
    for number in range(60):
        left, right = random.choice(list(SHADES), 2)
        pixels = np.repeat([[SHADES[left]] * 4 + [SHADES[right]] * 4], 8, axis=0)
        image = Image.fromarray((pixels + random.integers(0, 15, pixels.shape)).astype(np.uint8))
        image.save(folder / f"{number}.png")
        records.append(json.dumps({"image": f"{number}.png", "caption": f"{left} left of {right}"}))
    (folder / "captions.jsonl").write_text("\n".join(records), encoding="utf-8")
