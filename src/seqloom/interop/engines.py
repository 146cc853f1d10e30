"""What exports to other engines share: which models they take, what those are tried on, and when they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from seqloom.data.ragged import Ragged, padded
from seqloom.decoding import Greedy, Limits
from seqloom.decoding import generate as decode
from seqloom.errors import SeqloomError, UserError
from seqloom.models.language import LanguageModel
from seqloom.models.seq2seq import Seq2Seq, Source
from seqloom.runs.trained import Trained
from seqloom.text.special import EOS, SPECIALS
from seqloom.text.tokenizer import Tokenizer

TRIED = 8  # sequences that an exported model is tried on
LONGEST_TRIED = 12  # tokens of each


def transformer(trained: Trained, engine: str) -> LanguageModel | Seq2Seq:
    """The network of a run that other engines can represent: a Transformer under a softmax, of texts or of pairs. What
    else a configuration asks for is refused by its key and value."""
    config = trained.config.model
    if trained.kind == "language":
        needed = {"features.kind": "transformer", "output.kind": "softmax"}
    elif trained.kind == "seq2seq":
        needed = {
            "encoder.kind": "transformer",
            "decoder.kind": "transformer",
            "output.kind": "softmax",
            "decoder.attention.kind": "none",
            "copying.kind": "none",
            "latent.kind": "none",
        }
    else:
        raise trained.lacking(f"and {engine} takes Transformers that write: of kind 'language' or 'seq2seq'")
    for key, only in needed.items():
        value: Any = config
        for name in key.split("."):
            value = getattr(value, name)
        if value != only:
            raise unrepresentable(trained, engine, f"model.{key}", value)
    model: LanguageModel | Seq2Seq = trained.model
    return model


def unrepresentable(trained: Trained, engine: str, key: str, value: object) -> UserError:
    """The error that an engine has no place for what a configuration asks for."""
    return UserError(f"{trained.path} has {key}={value}, which {engine} cannot represent")


def spelled(tokenizer: Tokenizer) -> list[str]:
    """A name for every token, all of them different: special symbols by theirs, others as they are read, with the
    number behind what would be there twice."""
    names: dict[str, int] = {}
    for number, token in enumerate([*SPECIALS, *tokenizer.tokens(range(len(SPECIALS), tokenizer.size))]):
        names[token if token not in names else f"{token}#{number}"] = number
    if len(names) != tokenizer.size:
        raise SeqloomError("two tokens would be spelled alike; this should not happen")
    return list(names)


@dataclass(frozen=True)
class Trial:
    """Sequences that two engines must find equally probable. Tokens are drawn at random: any text may come."""

    sources: Sequence[list[int]]
    """Each ending in `<eos>`; none for a language model."""
    targets: Sequence[list[int]]
    """Each ending in `<eos>`."""

    @classmethod
    def of(cls, model: LanguageModel | Seq2Seq) -> Trial:
        """Short ones, of the tokens that a model knows."""
        random = np.random.default_rng(0)
        targets = _drawn(random, model.vocabulary_size)
        if not isinstance(model, Seq2Seq):
            return cls([], targets)
        return cls(_drawn(random, model.source_embedding.vocabulary_size), targets)

    @cached_property
    def source(self) -> Source | None:
        """The sources as a model takes them."""
        return Source(*_batch(self.sources)) if self.sources else None

    @torch.inference_mode()
    def log_probs(self, model: LanguageModel | Seq2Seq) -> list[list[float]]:
        """log p of each token of each target, by our own model."""
        tokens, lengths = _batch(self.targets)
        found = model.token_log_probs(tokens.to(model.device), self.source).cpu()
        return [row[:length].tolist() for row, length in zip(found, lengths.tolist(), strict=True)]

    def written(self, model: LanguageModel | Seq2Seq) -> list[list[int]]:
        """What our own model writes greedily: after the beginnings of the targets, or for the sources."""
        found = decode(model, self.prompts, Greedy(), Limits(LONGEST_TRIED, unknown=False), self.source)
        return [list(hypothesis.tokens) for hypothesis in found]

    @property
    def prompts(self) -> list[list[int]]:
        """What is to be gone on from."""
        return [[] for _ in self.sources] if self.sources else [target[:2] for target in self.targets]


def _drawn(random: np.random.Generator, size: int) -> list[list[int]]:
    lengths = random.integers(2, LONGEST_TRIED, TRIED)
    return [[*random.integers(len(SPECIALS), size, length).tolist(), EOS] for length in lengths]


def _batch(rows: Sequence[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    return padded(Ragged.of_rows(rows), np.arange(len(rows)))


@dataclass(frozen=True)
class Agreement:
    """How far two engines are apart on a trial."""

    difference: float
    """The largest between log-probabilities of single tokens, in nats."""
    same: int
    """How many of the texts that both wrote greedily are the same."""
    tried: int
    scale: float = 1.0
    """The largest log-probability without its sign, or 1: what rounding is measured by."""

    @classmethod
    def of(
        cls, ours: Trial, model: LanguageModel | Seq2Seq, log_probs: list[list[float]], written: list[list[int]]
    ) -> Agreement:
        """What another engine said of our trial, beside what we say."""
        known = ours.log_probs(model)
        pairs = zip(known, log_probs, strict=True)
        apart = [abs(one - other) for rows in pairs for one, other in zip(*rows, strict=True)]
        scale = max(1.0, *(-each for row in known for each in row))
        same = [one == other for one, other in zip(ours.written(model), written, strict=True)]
        return cls(max(apart), sum(same), len(same), scale)

    def check(self, engine: str, tolerance: float, exact: bool) -> None:
        """An error where the two are further apart than rounding explains.

        tolerance: as a share of the scale; exact: whether all texts must be the same.
        """
        allowed = tolerance * self.scale
        if self.difference > allowed or (exact and self.same < self.tried) or np.isnan(self.difference):
            raise SeqloomError(
                f"the model that was written for {engine} is not the same: log-probabilities differ by up to "
                f"{self.difference:.2g} ({allowed:.2g} are allowed), and {self.same} of {self.tried} texts are the "
                "same; nothing was kept. Please report it with the configuration of the run"
            )
