"""One text that is being written: what was asked for, what is there of it, and when it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from seqloom.decoding import Greedy, Sampler
from seqloom.decoding.limits import IMPOSSIBLE
from seqloom.decoding.top import refuse_nan, top
from seqloom.runs.generation import Beginning
from seqloom.text.special import EOS

Ending = Literal["stop", "length"]


class Likely(NamedTuple):
    """A token that could stand at some place."""

    token: int
    text: str
    log_prob: float


class Said(NamedTuple):
    """One token of a text."""

    token: int
    text: str
    """As a person reads it."""
    log_prob: float
    """Under the model as it is."""
    likeliest: list[Likely]
    """The likeliest tokens at its place, if asked for."""


class Piece(NamedTuple):
    """What is new of a text."""

    number: int
    """Of the text among those of its request."""
    text: str
    said: list[Said]
    ending: Ending | None
    """Why it has ended, if it has."""


@dataclass(frozen=True)
class Wish:
    """What a text shall be like, beyond what `Decoding` says."""

    stop: tuple[str, ...] = ()
    """Where one of these appears, the text ends before it."""
    bias: dict[int, float] = field(default_factory=dict)
    """What is added to log p of tokens before one is chosen."""
    presence_penalty: float = 0.0
    """Taken from the log p of tokens that were written already."""
    frequency_penalty: float = 0.0
    """The same, as often as they were written."""
    likeliest: int = 0
    """How many alternatives to give beside each token."""

    @property
    def changes(self) -> bool:
        """Whether it changes what is chosen from."""
        return bool(self.bias or self.presence_penalty or self.frequency_penalty)

    @cached_property
    def biases(self) -> tuple[Tensor, Tensor]:
        """The tokens of `bias`, and what is added to each: made once, for every token of every text takes them."""
        return torch.tensor(list(self.bias)), torch.tensor(list(self.bias.values()), dtype=torch.float64)


class Written:
    """A text that is being written."""

    def __init__(self, number: int, beginning: Beginning, wish: Wish, tell: Callable[[Piece], None]) -> None:
        self.number, self.beginning, self.wish, self.tell = number, beginning, wish, tell
        self.tokens: list[int] = []
        self.log_prob = 0.0
        self.ending: Ending | None = None
        self._text = beginning.unfolding()
        self._held = ""  # what may be the beginning of a stop
        self._silent: list[Said] = []  # tokens that were said, of which nothing can be read yet

    @property
    def kind(self) -> tuple[object, ...]:
        """What it has in common with those of which tokens are chosen together."""
        decoding = self.beginning.decoding
        greedy = decoding.strategy == "greedy"
        options = () if greedy else (decoding.temperature, decoding.top_k, decoding.top_p)
        return greedy, options, self.beginning.limits

    def changed(self, log_probs: Tensor) -> Tensor:
        """What its next token is chosen from, of log p [vocabulary]."""
        log_probs = log_probs.clone()
        if self.wish.bias:
            tokens, amounts = self.wish.biases
            log_probs.index_add_(0, tokens.to(log_probs.device), amounts.to(log_probs))
        if self.wish.presence_penalty or self.wish.frequency_penalty:
            counts = Counter(self.tokens)
            often = torch.tensor(list(counts.values()), dtype=torch.float64)
            penalties = self.wish.presence_penalty + often * self.wish.frequency_penalty
            tokens = torch.tensor(list(counts), dtype=torch.long)
            log_probs.index_add_(0, tokens.to(log_probs.device), -penalties.to(log_probs))
        return log_probs

    def say(self, token: int, log_prob: float, likeliest: list[tuple[int, float]]) -> None:
        """Take in the next token, and tell what can be read of it."""
        if log_prob == IMPOSSIBLE:
            token = EOS
        self.tokens.append(token)
        self.log_prob += log_prob
        names = self.beginning.writer.tokens([token, *(other for other, _ in likeliest)])
        others = [Likely(other, name, value) for name, (other, value) in zip(names[1:], likeliest, strict=True)]
        self._silent.append(Said(token, names[0], log_prob, others))
        if token == EOS:
            self.ending = "stop"
        elif len(self.tokens) >= self.beginning.limits.max_length:
            self.ending = "length"
        new = self._text.add([token]) + (self._text.end() if self.ending else "")
        text = self._until_stop(self._held + new)
        if text or self.ending:
            self.tell(Piece(self.number, text, self._silent, self.ending))
            self._silent = []

    def _until_stop(self, text: str) -> str:
        """What can be told of a text: all before a stop, but for an end that may be the beginning of one."""
        places = [place for stop in self.wish.stop if (place := text.find(stop)) >= 0]
        if places:
            self.ending, self._held = "stop", ""
            return text[: min(places)]
        held = 0
        if not self.ending:
            for stop in self.wish.stop:
                longest = min(len(stop) - 1, len(text))
                held = max(held, next((size for size in range(longest, 0, -1) if stop.startswith(text[-size:])), 0))
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


def choose(sequences: Sequence[Written], log_probs: Tensor) -> None:
    """Let each sequence say the next token of its row of log p [sequences, vocabulary].

    A draw depends on the seed, the number of the text and the step alone, so not on what else is chosen beside it.
    """
    by_kind: dict[tuple[object, ...], list[int]] = {}
    for row, sequence in enumerate(sequences):
        by_kind.setdefault(sequence.kind, []).append(row)
    for rows in by_kind.values():
        some = [sequences[row] for row in rows]
        own = log_probs if len(rows) == len(sequences) else log_probs[torch.tensor(rows, device=log_probs.device)]
        _choose_alike(some, own)


def _choose_alike(sequences: list[Written], log_probs: Tensor) -> None:
    first = sequences[0].beginning
    lengths = torch.tensor([len(sequence.tokens) for sequence in sequences])
    allowed = first.limits.restrict(log_probs, lengths)
    weighed = allowed
    if any(sequence.wish.changes for sequence in sequences):
        rows = zip(sequences, allowed, strict=True)
        weighed = torch.stack([sequence.changed(row) if sequence.wish.changes else row for sequence, row in rows])
    decoding = first.decoding
    chooser: Greedy | Sampler = Greedy()
    if decoding.strategy != "greedy":
        seeds = tuple(sequence.beginning.decoding.seed for sequence in sequences)
        chooser = Sampler(decoding.temperature, decoding.top_k, decoding.top_p, seeds)
    numbers = torch.tensor([sequence.number for sequence in sequences])
    chosen = chooser.choose(weighed, numbers, lengths)
    likely = allowed.gather(1, chosen[:, None]).squeeze(1).double().cpu()
    refuse_nan(likely.isnan())
    wanted = max(sequence.wish.likeliest for sequence in sequences)
    best = _likeliest(allowed, wanted) if wanted else [[]] * len(sequences)
    for sequence, token, value, others in zip(sequences, chosen.tolist(), likely.tolist(), best, strict=True):
        sequence.say(token, value, others[: sequence.wish.likeliest])


def _likeliest(log_probs: Tensor, count: int) -> list[list[tuple[int, float]]]:
    """The likeliest tokens of each row, and log p of each; none that is impossible."""
    values, tokens = top(log_probs, min(count, log_probs.shape[1]))
    rows = zip(tokens.tolist(), values.tolist(), strict=True)
    return [[(token, value) for token, value in zip(*row, strict=True) if value > IMPOSSIBLE] for row in rows]
