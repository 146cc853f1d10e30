"""What a configuration with several tasks needs before training can begin: all of them, read and encoded."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema.tasks import PairTask, SpanTask
from seqloom.data.cache import cached_array
from seqloom.data.corpus import Corpus
from seqloom.data.materials import cached_tokenizer, open_pairs, open_text, pair_corpora, pair_encoder, text_corpora
from seqloom.data.pair_store import PairLimits, PairStore
from seqloom.data.pairs import PairCorpus
from seqloom.data.spans import SENTINELS, Corruption, SpanWindows, sentinels
from seqloom.data.store import TokenStore
from seqloom.data.stream import Sequences, Stream
from seqloom.data.tasks import Mixture, TaskExamples, mixing_shares
from seqloom.errors import ConfigError, DataError
from seqloom.text.kinds import train_tokenizer
from seqloom.text.marks import MarkedTokenizer
from seqloom.text.special import EOS
from seqloom.text.tokenizer import Tokenizer

CHUNK = 1 << 20  # tokens copied at a time


@dataclass(frozen=True)
class LearnedTask:
    """A task with its examples."""

    name: str
    share: float
    """Of all examples that are learned from."""
    train: Sequences
    valid: Sequences

    def __str__(self) -> str:
        size = self.train.totals if isinstance(self.train, PairStore) else f"{len(self.train):,} windows"
        return f"{self.name} {self.share:.1%} ({size})"


@dataclass(frozen=True)
class TaskMaterials:
    """A tokeniser with names for gaps, and all tasks under it."""

    tokenizer: Tokenizer
    tasks: Sequence[LearnedTask]

    def stream(self, batch_tokens: int, seed: int = 0, processes: int = 1) -> Stream:
        """The batches of all tasks, mixed."""
        train = [task.train for task in self.tasks]
        mixture = Mixture(train, [task.share for task in self.tasks], batch_tokens, processes)
        return Stream(TaskExamples(train), mixture, seed)


def prepare_tasks(config: RunConfig, tokenizer: Tokenizer | None = None) -> TaskMaterials:
    """Read all tasks, train a tokeniser on their texts unless one is given, and encode."""
    readers = [task_reader(task) for task in config.data.tasks]
    corpora = [reader.split() for reader in readers]
    if tokenizer is None:
        tokenizer = _tokenizer(config, readers, [train for train, _ in corpora])
    train = [reader.training(part, config, tokenizer) for reader, (part, _) in zip(readers, corpora, strict=True)]
    valid = [reader.examples(part, config, tokenizer) for reader, (_, part) in zip(readers, corpora, strict=True)]
    shares = mixing_shares(list(map(len, train)), [reader.task.share for reader in readers], config.data.limit)
    parts = zip([reader.task.name for reader in readers], shares, train, valid, strict=True)
    return TaskMaterials(tokenizer, [LearnedTask(*each) for each in parts])


class TaskReader(ABC):
    """How the files of a task become examples."""

    task: Any

    @abstractmethod
    def open(self, names: str | list[str]) -> Any:
        """The corpus of these files."""

    @abstractmethod
    def split(self) -> tuple[Any, Any]:
        """The corpus that is learned from, and the one that is held out."""

    def held_out(self, names: str | list[str] | None = None) -> Any:
        """The corpus of files; without files, the test or validation part."""
        names = names if names is not None else self.task.test
        return self.split()[1] if names is None else self.open(names)

    @abstractmethod
    def texts(self, corpus: Any) -> Iterable[str]:
        """All that a tokeniser has to know, prefix included."""

    @abstractmethod
    def examples(self, corpus: Any, config: RunConfig, tokenizer: Tokenizer) -> Sequences:
        """A corpus under a tokeniser."""

    def training(self, corpus: Any, config: RunConfig, tokenizer: Tokenizer) -> Sequences:
        """The same, to learn from."""
        return self.examples(corpus, config, tokenizer)


@dataclass(frozen=True)
class PairReader(TaskReader):
    """Pairs, with the prefix of the task before each source."""

    task: PairTask

    def open(self, names: str | list[str]) -> PairCorpus:
        return replace(open_pairs(self.task, names), prefix=self.task.prefix)

    def split(self) -> tuple[PairCorpus, PairCorpus]:
        train, valid = pair_corpora(self.task)
        return replace(train, prefix=self.task.prefix), replace(valid, prefix=self.task.prefix)

    def texts(self, corpus: PairCorpus) -> Iterable[str]:
        return corpus.texts()

    def examples(self, corpus: PairCorpus, config: RunConfig, tokenizer: Tokenizer) -> PairStore:
        return PairStore.of(corpus, pair_encoder(config, tokenizer, None))

    def training(self, corpus: PairCorpus, config: RunConfig, tokenizer: Tokenizer) -> PairStore:
        """Without those that are over the limits."""
        limits = PairLimits(self.task.max_length, self.task.max_ratio)
        return PairStore.of(corpus, pair_encoder(config, tokenizer, None), limits)


@dataclass(frozen=True)
class SpanReader(TaskReader):
    """Windows of a running text, which have gaps."""

    task: SpanTask

    @property
    def corruption(self) -> Corruption:
        """How spans are taken out."""
        return Corruption(self.task.length, self.task.rate, self.task.mean)

    def open(self, names: str | list[str]) -> Corpus:
        return open_text(self.task, names)

    def split(self) -> tuple[Corpus, Corpus]:
        train, valid = text_corpora(self.task)
        assert valid is not None  # a fraction of a task is always above 0
        return train, valid

    def texts(self, corpus: Corpus) -> Iterable[str]:
        return chain([self.task.prefix], corpus)

    def examples(self, corpus: Corpus, config: RunConfig, tokenizer: Tokenizer) -> SpanWindows:
        names = sentinels(self.corruption.gaps)
        if not isinstance(tokenizer, MarkedTokenizer) or not set(names) <= set(tokenizer.marks):
            raise ConfigError(
                f"windows of {self.task.length} tokens have gaps {names[0]} to {names[-1]}, and the tokeniser does not "
                f"know all of these: begin with a run that learned spans, or lower the length of task "
                f"{self.task.name!r}"
            )
        tokens = running_text(corpus, tokenizer.inner)  # in which nothing is taken for the name of a gap
        if len(tokens) < 2 * self.task.length:  # so that every epoch can cut it elsewhere
            raise DataError(
                f"{corpus}: {len(tokens):,} tokens to learn spans from or to validate on, and two windows have "
                f"{2 * self.task.length:,}: give more text, or lower the length of task {self.task.name!r}"
            )
        prefix = tokenizer.encode(self.task.prefix) if self.task.prefix else ()
        return SpanWindows(tokens, self.corruption, np.array(list(map(tokenizer.mark, names))), prefix)


def task_reader(task: SpanTask | PairTask) -> TaskReader:
    """What reads the files of a task."""
    return SpanReader(task) if isinstance(task, SpanTask) else PairReader(task)


def running_text(corpus: Corpus, tokenizer: Tokenizer) -> NDArray[np.integer]:
    """The tokens of a text one after the other, with nothing between its units."""
    store = TokenStore.of(corpus, tokenizer)
    shape = (store.totals.tokens - store.totals.units,)
    chunks = (store.tokens[first : first + CHUNK] for first in range(0, len(store), CHUNK))
    words = (chunk[chunk != EOS] for chunk in chunks)
    if not shape[0]:
        raise DataError(f"{corpus}: there is no text to learn from")
    recipe = f"{corpus.fingerprint}\n{tokenizer.document}"
    return cached_array("running", recipe, shape, TokenStore.dtype(tokenizer), words)


def _tokenizer(config: RunConfig, readers: Sequence[TaskReader], corpora: Sequence[Any]) -> Tokenizer:
    """The configuration's, trained on the texts of all tasks, with names for all gaps."""
    gaps = [reader.corruption.gaps for reader in readers if isinstance(reader, SpanReader)]
    names = sentinels(max([SENTINELS, *gaps]))

    def learn() -> Tokenizer:
        texts = (reader.texts(corpus) for reader, corpus in zip(readers, corpora, strict=True))
        learned = train_tokenizer(config.text, chain.from_iterable(texts))
        return learned if isinstance(learned, MarkedTokenizer) else MarkedTokenizer(learned, names)

    recipe = [
        len(names),
        [[reader.task.prefix, each.fingerprint] for reader, each in zip(readers, corpora, strict=True)],
    ]
    return cached_tokenizer(config.text, json.dumps(recipe), learn, ", ".join(map(str, corpora)))
