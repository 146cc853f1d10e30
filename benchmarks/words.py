"""Word vectors beside gensim: the same words, threads and parameters, in turns."""

from __future__ import annotations

import gzip
import math
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from gensim.models import Word2Vec as Gensim
from numpy.typing import NDArray

from benchmarks.tables import Table, number
from seqloom.config.schema.word2vec import Word2VecConfig
from seqloom.metrics.words import word_analogies, word_similarity
from seqloom.models.word2vec.fitting import count_tokens, learn_pass
from seqloom.models.word2vec.model import Word2Vec
from seqloom.models.word_vectors import WordVectors
from seqloom.text.special import EOS
from seqloom.text.vocabulary import Vocabulary

LETTERS = re.compile("[a-z]+")
LONGEST = 10_000  # words of a sentence that gensim reads; the others it drops without a word
SIZE, WINDOW, NEGATIVES, MIN_COUNT, SUBSAMPLE = 100, 5, 5, 5, 1e-3
GENSIM_RATE = 0.025  # that it takes of itself, for every architecture


@dataclass(frozen=True)
class WordSizes:
    """What is measured."""

    threads: int = 2
    passes: Sequence[int] = (1, 5)
    seeds: Sequence[int] = (1, 2, 3)
    words: float = math.inf
    """Read no more of the text than this."""


@dataclass(frozen=True)
class Words:
    """A text, as sentences for gensim and as tokens for seqloom."""

    sentences: list[list[str]]
    vocabulary: Vocabulary
    tokens: NDArray[np.uint32]

    @property
    def count(self) -> int:
        return sum(map(len, self.sentences))


@dataclass(frozen=True)
class Outcome:
    """One training: words a second, and how good the vectors are, in the order of the files."""

    speed: float
    scores: tuple[float, ...]


Trainer = Callable[[Words, Word2VecConfig, int, int], tuple[float, WordVectors]]


def run_words(
    data: Path, similarity: Sequence[Path], analogies: Sequence[Path], sizes: WordSizes, say: Callable[[str], None]
) -> Iterator[Table]:
    """A table per architecture and output."""
    text = read_words(data, sizes.words)
    say(f"{text.count:,} words, {len(text.vocabulary.ordinary):,} of them distinct and seen {MIN_COUNT} times")
    for architecture, output in (
        ("skip-gram", "negative-sampling"),
        ("cbow", "negative-sampling"),
        ("skip-gram", "tree"),
    ):
        config = Word2VecConfig.model_validate({"architecture": architecture, "output": output, "passes": 1})
        train_ours(text, config, 0, sizes.threads, limit=1000)  # compiled before it is timed
        trainers: dict[str, Trainer] = {"seqloom": train_ours, "gensim": train_gensim}
        if config.first_rate != GENSIM_RATE:
            trainers[f"gensim, rate {config.first_rate:g}"] = partial(train_gensim, rate=config.first_rate)
        rows = []
        for passes in sizes.passes if output != "tree" else sizes.passes[:1]:
            config = config.model_copy(update={"passes": passes})
            sides: dict[str, list[Outcome]] = {name: [] for name in trainers}
            for seed in sizes.seeds:
                for name, train in trainers.items():
                    speed, vectors = train(text, config, seed, sizes.threads)
                    scores = (
                        *(word_similarity(vectors, path).spearman for path in similarity),
                        *(100 * word_analogies(vectors, path).accuracy for path in analogies),
                    )
                    sides[name].append(Outcome(speed, scores))
                    say(f"{architecture} {output} {passes} {name} {seed}: {speed:,.0f} words/s {scores}")
            rows += _rows(passes, sides, [3] * len(similarity) + [1] * len(analogies))
        files = [path.stem for path in similarity] + [f"{path.stem} %" for path in analogies]
        yield Table(
            f"{architecture}, {output}",
            f"{text.count:,} words, vocabulary {len(text.vocabulary.ordinary):,}; {SIZE} dimensions, window {WINDOW}, "
            f"{NEGATIVES} negatives, sub-sampling {SUBSAMPLE:g}, {sizes.threads} threads; the first learning rate is "
            f"{config.first_rate:g}, and gensim's own {GENSIM_RATE:g} where none is named. Median speed of training "
            f"alone, mean ± deviation of the scores, over {len(sizes.seeds)} seeds, in turns; gensim is given "
            "sentences in memory.",
            ["passes", "", "words/s", "seqloom / it", *files],
            rows,
        )


def _rows(passes: int, sides: dict[str, list[Outcome]], digits: list[int]) -> list[list[str]]:
    """A row per side; each ratio is that of ours to the side's speed, seed by seed."""
    rows = []
    for name, side in sides.items():
        ratios = [mine.speed / other.speed for mine, other in zip(sides["seqloom"], side, strict=True)]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})" if name != "seqloom" else ""
        speed = number(statistics.median(outcome.speed for outcome in side))
        scores = zip(*(outcome.scores for outcome in side), strict=True)
        rows.append([str(passes), name, speed, ratio, *map(_spread, scores, digits)])
    return rows


def _spread(values: Sequence[float], digits: int) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {spread:.{digits}f}"


def read_words(data: Path, most: float = math.inf) -> Words:
    """Lower-case words of Latin letters, a line a sentence; from a text file or a folder of them.

    A longer line than gensim reads is several sentences, for both sides.
    """
    files = sorted(path for path in data.iterdir() if ".txt" in path.suffixes) if data.is_dir() else [data]
    sentences: list[list[str]] = []
    counts: dict[str, int] = {}
    total = 0
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else open(file, encoding="utf-8") as text:
            for line in text:
                words = LETTERS.findall(line.lower())
                if not words or total >= most:
                    continue
                sentences += [words[start : start + LONGEST] for start in range(0, len(words), LONGEST)]
                total += len(words)
                for word in words:
                    counts[word] = counts.get(word, 0) + 1
    vocabulary = Vocabulary.from_counts(counts, MIN_COUNT)
    tokens = np.fromiter(_ids(sentences, vocabulary), np.uint32, total + len(sentences))
    return Words(sentences, vocabulary, tokens)


def _ids(sentences: list[list[str]], vocabulary: Vocabulary) -> Iterator[int]:
    for words in sentences:
        yield from vocabulary.ids(words)
        yield EOS


def train_ours(
    text: Words, config: Word2VecConfig, seed: int, threads: int, limit: int | None = None
) -> tuple[float, WordVectors]:
    """Words a second, and the vectors."""
    tokens = text.tokens[:limit]
    model = Word2Vec.begin(config, count_tokens(text.tokens, len(text.vocabulary.ordinary)), seed)
    fall = (config.final_rate - config.first_rate) / config.passes
    list(learn_pass(model, tokens[:10], 10, (0.0, 0.0), (0,), 1))  # tables are made once, as gensim makes its own
    began = time.perf_counter()
    for done in range(config.passes):
        rates = (config.first_rate + fall * done, config.first_rate + fall * (done + 1))
        list(learn_pass(model, tokens, config.batch, rates, (seed, done), threads))
    seconds = time.perf_counter() - began
    return config.passes * text.count / seconds, model.word_vectors(text.vocabulary.ordinary)


def train_gensim(
    text: Words, config: Word2VecConfig, seed: int, threads: int, rate: float = GENSIM_RATE
) -> tuple[float, WordVectors]:
    """The same by gensim."""
    tree = config.output == "tree"
    model = Gensim(
        vector_size=config.size,
        window=config.window,
        min_count=MIN_COUNT,
        sg=int(config.architecture == "skip-gram"),
        hs=int(tree),
        negative=0 if tree else config.negatives,
        sample=config.subsample,
        alpha=rate,
        min_alpha=config.final_rate,
        workers=threads,
        seed=seed,
    )
    model.build_vocab(text.sentences)
    began = time.perf_counter()
    model.train(text.sentences, total_examples=model.corpus_count, epochs=config.passes)
    seconds = time.perf_counter() - began
    return config.passes * text.count / seconds, WordVectors(model.wv.index_to_key, model.wv.vectors)
