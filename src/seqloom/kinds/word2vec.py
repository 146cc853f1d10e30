"""Word vectors, learned pass by pass from the words around each word."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.arrays import check_seal
from seqloom.config import RunConfig
from seqloom.config.schema.text import RunText
from seqloom.config.schema.word2vec import Word2VecConfig
from seqloom.data.corpus import Corpus
from seqloom.data.materials import (
    TextMaterials,
    held_out_text,
    open_text,
    prepare_text,
    text_corpora,
    tokenizer_for,
)
from seqloom.data.store import TokenStore
from seqloom.errors import ConfigError, DataError, UserError
from seqloom.keywords import hinted
from seqloom.metrics.corpus_scores import Scored
from seqloom.metrics.words import word_analogies, word_similarity
from seqloom.models.ngram.parallel import cores
from seqloom.models.word2vec.fitting import LearnedBatch, count_tokens, learn_pass, mean_loss
from seqloom.models.word2vec.model import Word2Vec
from seqloom.models.word_vectors import Floats, Near, WordVectors
from seqloom.runs.capabilities import HasWordVectors
from seqloom.runs.folder import RunFolder
from seqloom.runs.kind import Kind, Report, Work
from seqloom.runs.language_model import TextAssets
from seqloom.runs.stages import Figures, Stage
from seqloom.runs.trained import Trained
from seqloom.runs.words import load_vectors, ordinary_words
from seqloom.text.stopwords import is_content_word
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.vocabulary import Vocabulary
from seqloom.text.words import WordTokenizer
from seqloom.training import Interrupted, Interrupts, Journal, Reporter
from seqloom.training.places import WEIGHTS

if TYPE_CHECKING:  # word vectors need no torch
    import torch

    from seqloom.training import Processes

MAPPED = 300  # words on the map of the report
LISTED = 12  # words whose neighbours it lists


class TrainedWordVectors(Trained, HasWordVectors):
    """Words with their vectors, the model they come from, and how it was trained.

    Word vectors give text no probability: they neither score nor generate.
    """

    model: Word2Vec
    assets: TextAssets

    @property
    def tokenizer(self) -> Tokenizer:
        """How text becomes words."""
        return self.assets.tokenizer

    @cached_property
    def vectors(self) -> WordVectors:
        """The vectors under their words."""
        return self.model.word_vectors(ordinary_words(self.tokenizer))

    @property
    def parameters(self) -> int:
        """How many numbers were learned."""
        return self.model.parameters

    @property
    def device(self) -> torch.device:
        """Word vectors stay on the processor."""
        import torch

        return torch.device("cpu")

    @hinted()
    def neighbours(self, word: str | Floats, n: int = 10) -> Near:
        """As `WordVectors.neighbours`."""
        return self.vectors.neighbours(word, n)

    def analogy(self, a: str, b: str, c: str, n: int = 1) -> Near:
        """As `WordVectors.analogy`."""
        return self.vectors.analogy(a, b, c, n)

    @hinted()
    def most_similar(self, positive: str | Sequence[str] = (), negative: str | Sequence[str] = (), n: int = 10) -> Near:
        """As `WordVectors.most_similar`."""
        return self.vectors.most_similar(positive, negative, n)

    def doesnt_match(self, words: Sequence[str]) -> str:
        """As `WordVectors.doesnt_match`."""
        return self.vectors.doesnt_match(words)

    def similarity(self, a: str, b: str) -> float:
        """As `WordVectors.similarity`."""
        return self.vectors.similarity(a, b)

    def figures(self, source: str | list[str] | None = None) -> dict[str, Scored]:
        """The loss on held-out text (`source`, else data.test, else what the run held out), and on the run's own files
        of likenesses and analogies; each with a signature."""
        figures = self.measure(source)
        if not figures:
            raise UserError(f"{self.path} held no text out: name some with --source")
        return figures

    def measure(self, source: str | list[str] | None = None) -> dict[str, Scored]:
        """The same; nothing, where there is nothing to measure by."""
        corpus = open_text(self.config.data, source) if source else held_out_text(self.config.data)
        figures = {"loss": Scored(self._loss(corpus), self.signature)} if corpus is not None else {}
        for name, judgement in judged(self.vectors, self.model.config).items():
            figures[name] = Scored(judgement.value, self.signed(judgement.signature))
        return figures

    def _loss(self, corpus: Corpus) -> float:
        if not np.any(self.model.outputs):
            raise UserError(f"{self.path} has vectors alone, from a file: a loss needs the output matrix as well")
        return mean_loss(self.model, TokenStore.of(corpus, self.tokenizer).tokens)

    @property
    def signature(self) -> str:
        """How the loss is computed, in a form to publish beside it."""
        config = self.model.config
        return self.signed(
            "nats per prediction",
            config.architecture,
            f"{config.negatives} negatives" if config.output == "negative-sampling" else "tree",
            f"window {config.window}",
            f"subsample {config.subsample:g}",
            f"vocabulary {len(self.vectors)}",
        )

    def content_words(self) -> Iterator[str]:
        """Words that carry meaning, frequent ones first."""
        for place in np.argsort(-self.model.counts, kind="stable").tolist():
            word = self.vectors.words[place]
            if is_content_word(word):
                yield word


class Word2VecKind(Kind[TextMaterials, TextAssets, TrainedWordVectors]):
    """Skip-gram and continuous bag of words."""

    config = Word2VecConfig
    assets = TextAssets
    trained = TrainedWordVectors
    next_step = "words neighbours {run} WORD"
    needs_torch = False

    def prepare(self, config: RunConfig, kept: TextAssets | None) -> tuple[TextMaterials, TextAssets]:
        tokenizer = kept.tokenizer if kept else None
        if tokenizer is None and config.model.start is not None and not isinstance(config.text, RunText):
            tokenizer = with_more_words(config, load_vectors(config.model.start).words)
        materials = prepare_text(config, tokenizer)
        return materials, TextAssets(materials.tokenizer)

    def build(self, config: RunConfig, assets: TextAssets) -> None:
        """The vectors begin with the first pass: they depend on how often the text has each word."""

    def stages(self, work: Work[TextMaterials, TextAssets]) -> Iterator[Passes]:
        yield Passes(work.config, work.data)

    def restore(self, folder: RunFolder, config: RunConfig, assets: TextAssets, device: str) -> Word2Vec:
        return Word2Vec.load(config.model, folder.weights_file, len(ordinary_words(assets.tokenizer)))[0]

    def report(self, trained: TrainedWordVectors) -> Report:
        from seqloom.reports.word_map import neighbours_section, word_map_section

        words = list(trained.content_words())
        near = [(word, [other for other, _ in trained.neighbours(word, 8)]) for word in words[:LISTED]]
        figures = {name: score.value for name, score in trained.measure().items()}
        return Report(
            {"words": len(trained.vectors), **figures},
            [neighbours_section(near, word_map_section(trained.vectors, words[:MAPPED]))],
        )


class Passes(Stage):
    """Passes over the text, in the first process. The model is saved after each: what was interrupted goes on from
    there."""

    def __init__(self, config: RunConfig, text: TextMaterials) -> None:
        self.run, self.text = config, text
        self.config: Word2VecConfig = config.model
        self.words = ordinary_words(text.tokenizer)
        self.threads = self.config.threads or cores()
        self.batches = -(-len(text.train) // self.config.batch)  # of one pass
        self.began = time.perf_counter()

    def fit(self, folder: Path, processes: Processes, reporter: Reporter) -> None:
        if processes.main:
            self._fit(folder, reporter)
        processes.wait()

    def _fit(self, folder: Path, reporter: Reporter) -> None:
        model, finished = self._begin(folder / WEIGHTS, reporter)
        if finished >= self.config.passes:
            return
        journal = Journal(folder, finished * self.batches)
        reporter.start("word2vec", finished * self.batches, self.config.passes * self.batches)
        try:
            with Interrupts() as interrupts:
                for number in range(finished, self.config.passes):
                    entry = self._pass(model, number, journal, reporter, interrupts)
                    try:
                        journal.write(entry | self._figures(model))
                    finally:  # a file of judgements that cannot be read costs no pass
                        model.save(folder / WEIGHTS, number + 1)
        finally:
            journal.close()
            reporter.stop()

    def _begin(self, weights: Path, reporter: Reporter) -> tuple[Word2Vec, int]:
        """The model of the last finished pass, or a new one; and how many passes it has seen."""
        if weights.is_file():
            check_seal(weights)
            return Word2Vec.load(self.config, weights, len(self.words))
        counts = count_tokens(self.text.train.tokens, len(self.words))
        if np.count_nonzero(counts) < 2:
            raise DataError("the training text has fewer than two words of the vocabulary: lower text.min_count")
        model = Word2Vec.begin(self.config, counts, self.run.seed)
        if self.config.start is not None:
            taken = take_over(model, self.words, Path(self.config.start))
            reporter.say(f"{taken:,} of {len(self.words):,} words begin with the vectors of {self.config.start}")
        reporter.say(f"{len(self.words):,} words, {len(self.text.train):,} tokens, {self.threads} threads")
        return model, 0

    def _pass(
        self, model: Word2Vec, number: int, journal: Journal, reporter: Reporter, interrupts: Interrupts
    ) -> dict[str, Any]:
        """Read the text once; gives what to log at the end of it."""
        text, first = self.text.train.tokens, self.config.first_rate
        fall = (self.config.final_rate - first) / self.config.passes  # of the rate, in one pass
        rates = (first + fall * number, first + fall * (number + 1))
        parts = learn_pass(model, text, self.config.batch, rates, (self.run.seed, number), self.threads)
        steps = range(number * self.batches + 1, (number + 1) * self.batches + 1)
        tokens = number * len(text)
        recent: list[LearnedBatch] = []  # since the last entry of the journal
        since = time.perf_counter()
        for step, part in zip(steps, parts, strict=True):
            tokens += part.tokens
            recent.append(part)
            now = time.perf_counter()
            entry = {
                "step": step,
                "tokens": tokens,
                "loss": sum(each.loss for each in recent) / max(1, sum(each.predictions for each in recent)),
                "tokens_per_second": sum(each.tokens for each in recent) / max(now - since, 1e-9),
                "seconds": now - self.began,
                "learning_rate": first + fall * tokens / len(text),
            }
            reporter.advance(step, f"loss {entry['loss']:.3f}  {entry['tokens_per_second']:,.0f} words/s")
            if step % self.run.training.log_every == 0 and step < steps[-1]:
                journal.write(entry)
                recent, since = [], now
            if interrupts.number is not None:
                raise Interrupted(f"stopped in pass {number + 1} of the text", interrupts.number)
        return entry

    def _figures(self, model: Word2Vec) -> Figures:
        """What is logged of the vectors after a pass."""
        figures: Figures = {}
        if self.text.valid is not None:
            figures["valid_loss"] = mean_loss(model, self.text.valid.tokens, self.threads)
        judgements = judged(model.word_vectors(self.words), self.config)
        figures |= {name: judgement.value for name, judgement in judgements.items()}
        return {name: value for name, value in figures.items() if math.isfinite(value)}


def judged(vectors: WordVectors, config: Word2VecConfig) -> dict[str, Scored]:
    """How well vectors agree with people, by the configuration's files of likenesses and analogies."""
    judgements = {}
    for path in config.similarity:
        likeness = word_similarity(vectors, path)
        signature = f"Spearman's rho; {likeness.pairs} pairs, {likeness.missing} left out; case ignored"
        judgements[f"similarity {Path(path).stem}"] = Scored(likeness.spearman, signature)
    for path in config.analogies:
        analogies = word_analogies(vectors, path)
        signature = f"3CosAdd; {analogies.asked} questions, {analogies.missing} left out; case ignored"
        judgements[f"analogies {Path(path).stem}"] = Scored(analogies.accuracy, signature)
    return judgements


def with_more_words(config: RunConfig, words: list[str]) -> WordTokenizer:
    """The tokeniser of a configuration with more words after its own: those whose vectors training goes on from."""
    tokenizer = tokenizer_for(config.text, text_corpora(config.data)[0])
    if not isinstance(tokenizer, WordTokenizer):
        raise ConfigError("model.start has vectors of words: set text.kind to words or whitespace")
    known = tokenizer.vocabulary
    more = [word for word in words if word not in known]
    return type(tokenizer)(Vocabulary([*known.ordinary, *more]), tokenizer.lowercase)


def take_over(model: Word2Vec, words: list[str], start: Path) -> int:
    """Copy the vectors of a run or file, and the outputs of a run trained with negative sampling; how many words."""
    given = load_vectors(start)
    size = model.config.size
    if given.size != size:
        raise UserError(f"the vectors of {start} have {given.size} numbers: set model.size={given.size}")
    rows = [row for row, word in enumerate(words) if word in given]
    there = [given.place(words[row]) for row in rows]
    model.vectors[rows, :size] = given.vectors[there]
    if start.is_dir() and model.config.output == "negative-sampling":
        folder = RunFolder.open(start)
        before: Word2VecConfig = folder.config.model
        if before.output == "negative-sampling":
            model.outputs[rows] = Word2Vec.load(before, folder.weights_file, len(given))[0].outputs[there]
    return len(rows)


KIND = Word2VecKind()
