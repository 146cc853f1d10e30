"""A folder of tiny corpora in which a run of every case is trained once, when somebody first asks for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import pytest
from kinds import CASES, Case
from PIL import Image
from questions import SHADES
from safetensors.numpy import save_file

Run = TypeVar("Run")

TIMING = {"seconds", "tokens_per_second", "sampled", "crc32"}
"""The figures of a log in which two equal trainings differ."""

PARTS_OF_SPEECH = {"the": "D", "a": "D", "on": "P", "and": "C", "sat": "V", "fell": "V", "met": "V"}


def of_cases(cases: Iterable[Case]) -> pytest.MarkDecorator:
    """A test for each case."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


class Workshop(Generic[Run]):
    """Trains cases in a folder, each once and after those it is made of. `train` leaves the run of a case in
    `runs/`, below the folder."""

    def __init__(self, folder: Path, sentences: Sequence[str], train: Callable[[Case], Run]) -> None:
        self.folder, self._train = folder, train
        self._runs: dict[str, Run] = {}
        write_texts(folder, sentences)
        write_shades(folder / "shades")

    def run(self, case: Case) -> Run:
        """What `train` made of a case."""
        if case.name not in self._runs:
            for name in case.needs:
                self.run(next(other for other in CASES if other.name == name))
            self._runs[case.name] = self._train(case)
        return self._runs[case.name]


def write_texts(folder: Path, sentences: Sequence[str]) -> None:
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
    """Images of 8×8 pixels, a shade on the left and another on the right, with captions that say so, and features of
    four places of each: five pixels of every quarter."""
    folder.mkdir()
    random = np.random.default_rng(0)
    records, features = [], {}
    for number in range(60):
        left, right = random.choice(list(SHADES), 2)
        pixels = np.repeat([[SHADES[left]] * 4 + [SHADES[right]] * 4], 8, axis=0)
        image = Image.fromarray((pixels + random.integers(0, 15, pixels.shape)).astype(np.uint8))
        image.save(folder / f"{number}.png")
        quarters = np.asarray(image, np.float32).reshape(2, 4, 2, 4).swapaxes(1, 2).reshape(4, 16)
        features[f"{number}.png"] = quarters[:, :5] / 255
        records.append(json.dumps({"image": f"{number}.png", "caption": f"{left} left of {right}"}))
    (folder / "captions.jsonl").write_text("\n".join(records), encoding="utf-8")
    save_file({name: np.ascontiguousarray(each) for name, each in features.items()}, folder / "features.safetensors")
