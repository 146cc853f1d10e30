"""Training word vectors into a run folder, pass by pass, and the report of it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.arrays import map_arrays
from seqloom.config import RunConfig
from seqloom.config.schema import RunText, Word2VecConfig
from seqloom.errors import ConfigError, DataError, UserError
from seqloom.metrics.words import word_analogies, word_similarity
from seqloom.models.ngram.parallel import cores
from seqloom.models.word2vec import Part, Word2Vec, count_tokens, learn_pass, mean_loss
from seqloom.reports import neighbours_section, training_section, word_map_section, write_run_report
from seqloom.runs.folder import RunFolder
from seqloom.runs.materials import Materials, corpora, prepare, tokenizer_for
from seqloom.runs.vectors import load_vectors, ordinary_words
from seqloom.runs.word_vectors import TrainedWordVectors
from seqloom.text import Tokenizer, Vocabulary, WordTokenizer
from seqloom.text.stopwords import is_stop_word
from seqloom.training import Interrupted, Interrupts, Journal, Processes, Reporter, read_metrics

MAPPED = 300  # words on the map of the report
LISTED = 12  # words whose neighbours it lists


def train_word2vec(
    config: RunConfig, tokenizer: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Learn, in the first process; a run that has a tokeniser already goes on after the last pass it finished."""
    if processes.main:
        materials = _materials(config, tokenizer)
        _Training(config, materials, folder, reporter).run()
    processes.wait()


class _Training:
    """The passes of a run. The model is saved after each: what was interrupted goes on from there."""

    def __init__(self, config: RunConfig, materials: Materials, folder: RunFolder, reporter: Reporter) -> None:
        assert isinstance(config.model, Word2VecConfig)
        self.wanted, self.run_config, self.folder, self.reporter = config.model, config, folder, reporter
        self.materials = materials
        self.words = ordinary_words(materials.tokenizer)
        self.threads = self.wanted.threads or cores()
        self.began = time.perf_counter()
        self.batches = -(-len(materials.train) // self.wanted.batch)  # of one pass

    def run(self) -> None:
        model, finished = self._begin()
        self.folder.write(self.run_config, self.materials.tokenizer)
        if finished >= self.wanted.passes:
            return
        journal = Journal(self.folder.path, finished * self.batches)
        self.reporter.start("word2vec", finished * self.batches, self.wanted.passes * self.batches)
        try:
            with Interrupts() as interrupts:
                for number in range(finished, self.wanted.passes):
                    entry = self._pass(model, number, journal, interrupts)
                    model.save(self.folder.weights_file, passes=np.array([number + 1]))
                    journal.write(entry | self._figures(model))
        finally:
            journal.close()
            self.reporter.stop()

    def _begin(self) -> tuple[Word2Vec, int]:
        """The model of the last finished pass, or a new one; and how many passes it has seen."""
        if self.folder.weights_file.is_file():
            finished = int(map_arrays(self.folder.weights_file, ["passes"])["passes"][0])
            return Word2Vec.load(self.wanted, self.folder.weights_file), finished
        counts = count_tokens(self.materials.train.tokens, len(self.words))
        if np.count_nonzero(counts) < 2:
            raise DataError("the training text has fewer than two words of the vocabulary: lower text.min_count")
        model = Word2Vec.begin(self.wanted, counts, self.run_config.seed)
        if self.wanted.start is not None:
            taken = _take_over(model, self.words, Path(self.wanted.start))
            self.reporter.say(f"{taken:,} of {len(self.words):,} words begin with the vectors of {self.wanted.start}")
        self.reporter.say(f"{len(self.words):,} words, {len(self.materials.train):,} tokens, {self.threads} threads")
        return model, 0

    def _pass(self, model: Word2Vec, number: int, journal: Journal, interrupts: Interrupts) -> dict[str, Any]:
        """Read the text once; gives what to log at the end of it."""
        first, last, passes = self.wanted.first_rate, self.wanted.final_rate, self.wanted.passes
        fall = (last - first) / passes
        rates = (first + fall * number, first + fall * (number + 1))
        seed = (self.run_config.seed, number)
        tokens = self.materials.train.tokens
        watched = _Window(number * len(tokens))
        step = number * self.batches
        for part in learn_pass(model, tokens, self.wanted.batch, rates, seed, self.threads):
            step += 1
            entry = {"step": step, **watched.add(part)}
            entry["seconds"] = time.perf_counter() - self.began
            entry["learning_rate"] = first + fall * watched.tokens / len(tokens)
            self.reporter.advance(step, f"loss {entry['loss']:.3f}  {entry['tokens_per_second']:,.0f} words/s")
            if step % self.run_config.training.log_every == 0 and step < (number + 1) * self.batches:
                journal.write(entry)
                watched = _Window(watched.tokens)
            if interrupts.number is not None:
                raise Interrupted(
                    f"stopped in pass {number + 1}; --resume goes on from the end of pass {number}", interrupts.number
                )
        return entry

    def _figures(self, model: Word2Vec) -> dict[str, float]:
        """What is told of the vectors after a pass."""
        figures: dict[str, float] = {}
        if self.materials.valid is not None:
            figures["valid_loss"] = mean_loss(model, self.materials.valid.tokens, self.threads)
        vectors = model.word_vectors(self.words)
        for path in self.wanted.similarity:
            figures[f"similarity {Path(path).stem}"] = word_similarity(vectors, path).spearman
        for path in self.wanted.analogies:
            figures[f"analogies {Path(path).stem}"] = word_analogies(vectors, path).accuracy
        return {name: value for name, value in figures.items() if math.isfinite(value)}


class _Window:
    """Loss and speed since the last entry of the journal."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self._first, self._began = tokens, time.perf_counter()
        self._loss, self._predictions = 0.0, 0

    def add(self, part: Part) -> dict[str, Any]:
        self.tokens += part.tokens
        self._loss += part.loss
        self._predictions += part.predictions
        seconds = time.perf_counter() - self._began
        return {
            "tokens": self.tokens,
            "loss": self._loss / max(1, self._predictions),
            "tokens_per_second": (self.tokens - self._first) / max(seconds, 1e-9),
        }


def _materials(config: RunConfig, tokenizer: Tokenizer | None) -> Materials:
    """As `prepare` gives them; with vectors to go on from, their words are in the vocabulary too."""
    assert isinstance(config.model, Word2VecConfig)
    if tokenizer is None and config.model.start is not None and not isinstance(config.text, RunText):
        learned = tokenizer_for(config, corpora(config)[0])
        if not isinstance(learned, WordTokenizer):
            raise ConfigError("model.start has vectors of words: set text.kind to words or whitespace")
        tokenizer = _joined(learned, load_vectors(config.model.start).words)
    return prepare(config, tokenizer)


def _joined(tokenizer: WordTokenizer, words: list[str]) -> WordTokenizer:
    """The same tokeniser with more words, after its own."""
    known = tokenizer.vocabulary
    more = [word for word in words if word not in known]
    return type(tokenizer)(Vocabulary([*known.ordinary, *more]), tokenizer.lowercase)


def _take_over(model: Word2Vec, words: list[str], start: Path) -> int:
    """Copy the vectors of a run or file, and the outputs of a run trained with negative sampling; how many words."""
    found = load_vectors(start)
    size = model.config.size
    if found.size != size:
        raise UserError(f"the vectors of {start} have {found.size} numbers: set model.size={found.size}")
    rows = [row for row, word in enumerate(words) if word in found]
    there = [found.place(words[row]) for row in rows]
    model.vectors[rows, :size] = found.vectors[there]
    if start.is_dir() and model.config.output == "negative-sampling":
        folder = RunFolder.open(start)
        before = folder.config().model
        outputs = map_arrays(folder.weights_file, ["outputs"])["outputs"]
        if isinstance(before, Word2VecConfig) and before.output == "negative-sampling" and len(outputs):
            model.outputs[rows, :size] = outputs[there]
    return len(rows)


def report_word2vec(trained: TrainedWordVectors) -> None:
    """`report.html` of the run: its figures, its training, a map of frequent words and what is near some of them."""
    words = list(_content_words(trained))
    near = [(word, [other for other, _ in trained.neighbours(word, 8)]) for word in words[:LISTED]]
    data = trained.config.text_data
    held_out = data.test is not None or data.valid is not None or data.valid_fraction > 0
    figures = trained.figures() if held_out or trained.model.config.similarity else {}
    write_run_report(
        trained.path / "report.html",
        trained.path.name,
        (trained.path / "config.yaml").read_text(encoding="utf-8"),
        training_section(read_metrics(trained.path)),
        {"parameters": trained.parameters, "words": len(trained.vectors)}
        | {name: score.value for name, score in figures.items()},
        neighbours_section(near, word_map_section(trained.vectors, words[:MAPPED])),
    )


def _content_words(trained: TrainedWordVectors) -> Iterator[str]:
    """Frequent words that carry meaning."""
    order = np.argsort(-trained.model.counts, kind="stable")
    for place in order.tolist():
        word = trained.vectors.words[place]
        if not is_stop_word(word) and len(word) > 1:
            yield word
