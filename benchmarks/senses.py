"""python -m benchmarks.senses RUN [--picture FILE.svg]

The two senses of *bear*: forty sentences of English novels of 1839-1927 (`bear.tsv`), half of them about an animal,
half about enduring or carrying. An ELMo run gives each occurrence a vector; those of one sense should be nearer to each
other than to the rest. A static vector is the same for all.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import seqloom
from seqloom.runs.capabilities import Embeds, able
from seqloom.text.words import split_words

SENTENCES = Path(__file__).parent / "bear.tsv"
WORD = "bear"


@dataclass(frozen=True)
class Separation:
    """How far the senses are apart in one layer."""

    layer: int
    within: float
    """Mean cosine of two occurrences of one sense."""
    across: float
    """Mean cosine of two occurrences of different senses."""
    nearest: float
    """Share of occurrences whose nearest neighbour has the same sense."""


def occurrences(model: Embeds) -> tuple[list[str], NDArray[np.float32]]:
    """The senses, and the vectors of the word in every layer, [layers, sentences, size]."""
    rows = [line.split("\t") for line in SENTENCES.read_text(encoding="utf-8").splitlines()]
    sentences = [split_words(text) for _, text in rows]
    vectors = model.embed(sentences, "layers")
    places = [words.index(WORD) for words in sentences]
    found = [layers[:, place] for layers, place in zip(vectors, places, strict=True)]
    return [sense for sense, _ in rows], np.stack(found, axis=1)


def separation(senses: list[str], vectors: NDArray[np.float32]) -> list[Separation]:
    """The senses' distances, layer by layer."""
    same = np.equal.outer(senses, senses)
    others = ~np.eye(len(senses), dtype=bool)
    found = []
    for layer, points in enumerate(vectors):
        unit = points / np.linalg.norm(points, axis=1, keepdims=True)
        cosine = unit @ unit.T
        alike = np.where(others, cosine, -np.inf).round(6)
        best = alike == alike.max(1, keepdims=True)  # all are, where all vectors are the same
        nearest = float(((best & same).sum(1) / best.sum(1)).mean())
        found.append(Separation(layer, float(cosine[same & others].mean()), float(cosine[~same].mean()), nearest))
    return found


def picture(senses: list[str], points: NDArray[np.float32], path: Path) -> None:
    """The occurrences on the two principal components of their vectors."""
    from matplotlib.figure import Figure

    from seqloom.reports.style import save

    centred = points - points.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    plane = centred @ axes[:2].T
    figure = Figure(figsize=(5.0, 3.6), layout="constrained")
    axis = figure.subplots()
    for sense, marker in zip(sorted(set(senses)), "o^", strict=True):
        chosen = [index for index, other in enumerate(senses) if other == sense]
        axis.scatter(plane[chosen, 0], plane[chosen, 1], marker=marker, label=sense)
    axis.set_xlabel("first principal component")
    axis.set_ylabel("second")
    axis.legend(frameon=False)
    save(figure, path)


def main() -> None:
    """Print one line for each layer; draw the last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    senses, vectors = occurrences(able(seqloom.load(arguments.run), Embeds))
    for layer in separation(senses, vectors):
        print(json.dumps(asdict(layer)))
    if arguments.picture:
        picture(senses, vectors[-1], arguments.picture)


if __name__ == "__main__":
    main()
