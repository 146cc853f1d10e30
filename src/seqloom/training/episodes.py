"""Generation as a decision process: a state is what was read and written so far, an action is the next word."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.data.batch import PaddedBatch, places_of, sent, shifted
from seqloom.data.windows import TokenBatch
from seqloom.decoding.graphs import GraphSteps
from seqloom.decoding.rollout import Choose, Choosing, Rollout, best, rollout
from seqloom.models.conditional import Conditional
from seqloom.models.language import LanguageModel
from seqloom.nn import State
from seqloom.nn.decoders import Reading
from seqloom.text import open_words
from seqloom.text.special import BOS, EOS, PAD
from seqloom.text.tokenizer import Tokenizer
from seqloom.training.objectives import Texts

Writer = LanguageModel | Conditional
VALIDATED = 1000  # examples that a validation writes, at most
PROMPT = 8  # tokens of a window that are given, where the configuration does not say it


class Judged(NamedTuple):
    """What a network makes of texts, word by word."""

    log_probs: Tensor
    """[rows, time]: log p of each word, 0 for `<pad>`."""
    features: Tensor
    """[rows, time, size]: what the network knew when it was to write each word."""


class Episodes(ABC):
    """The texts to be written in a batch: what they begin with, how a network reads them, what is right.

    Rows of tokens have equally many texts for each example, one after the other.
    """

    def __init__(self, model: Any, batch: Any, tokenizer: Tokenizer, texts: Texts | None) -> None:
        self.model, self.batch, self.tokenizer, self.texts = model, batch, tokenizer, texts
        self.choosing: Callable[[Choose], Choosing | GraphSteps] = partial(Choosing, model)
        """The model as it writes: on a GPU, its steps may be recorded."""

    @abstractmethod
    def write(self, samples: int, longest: int, choose: Choose, given: Tensor | None = None) -> Rollout:
        """So many texts for each example, by the model; `given`: what those of each example begin with."""

    @abstractmethod
    def features(self, network: Any, tokens: Tensor) -> Tensor:
        """What a network knew when it was to write each of tokens [rows, time]: [rows, time, size]."""

    @abstractmethod
    def judge(self, network: Any, tokens: Tensor, texts: Tensor) -> Judged:
        """What a network makes of texts, which may be another one than the model, but of its shape.

        tokens [rows, time] are where the network is, and `texts` are the same on the processor, which need not wait for
        a GPU to see where they end.
        """

    @abstractmethod
    def spelled(self, tokens: Tensor) -> list[str]:
        """Tokens [rows, time] as texts."""

    @property
    @abstractmethod
    def truth(self) -> Tensor:
        """The true tokens [examples, time], `<pad>` behind the end."""

    @property
    def longest(self) -> int:
        """Tokens that a text may have, where nobody says it: 10 more than twice as many as the longest true one."""
        return 2 * self.truth.size(1) + 10

    @property
    @abstractmethod
    def references(self) -> list[tuple[str, ...]]:
        """The texts that count as right, of each example."""

    @property
    @abstractmethod
    def sources(self) -> list[str]:
        """What each example is given."""


class PairEpisodes(Episodes):
    """Targets, each given a source."""

    model: Conditional
    batch: PaddedBatch

    @cached_property
    def _state(self) -> State:
        return self._begun(self.model)

    def _begun(self, network: Conditional) -> State:
        source = network.source_of(self.batch)
        return network.begin(network.encode(source), source)

    def write(self, samples: int, longest: int, choose: Choose, given: Tensor | None = None) -> Rollout:
        state = _repeated(self._state.detach(), len(self.truth), samples)
        words = self.truth.new_full((samples * len(self.truth), 1), BOS)
        if given is not None:
            given = given.repeat_interleave(samples, 0)
        return rollout(self.choosing(choose), state, words, longest, given)

    def features(self, network: Conditional, tokens: Tensor) -> Tensor:
        reading, _ = self._read(network, tokens)
        return reading.features

    def judge(self, network: Conditional, tokens: Tensor, texts: Tensor) -> Judged:
        places = sent(places_of(texts), tokens.device)
        reading, state = self._read(network, tokens)
        log_probs = network.judge(reading, state, tokens, places)
        return Judged(log_probs.masked_fill(tokens == PAD, 0.0), reading.features)

    def _read(self, network: Conditional, tokens: Tensor) -> tuple[Reading, State]:
        """What a network makes of texts, and the state that it began with."""
        begun = self._state if network is self.model else self._begun(network)
        state = _repeated(begun, len(self.truth), len(tokens) // len(self.truth))
        reading, _ = network(shifted(tokens), state)
        return reading, state

    def spelled(self, tokens: Tensor) -> list[str]:
        rows = _unpadded(tokens)
        if int(tokens.max()) < self.tokenizer.size:
            return [self.tokenizer.decode(row) for row in rows]
        _, _, words = open_words.encode_sources(self.tokenizer, self.sources)  # those that are copied
        each = len(rows) // len(words)
        return [open_words.decode(self.tokenizer, row, words[place // each]) for place, row in enumerate(rows)]

    @property
    def truth(self) -> Tensor:
        return self.batch.targets

    @property
    def references(self) -> list[tuple[str, ...]]:
        assert self.texts is not None
        return self.texts.references(self.batch.numbers)

    @cached_property
    def sources(self) -> list[str]:
        assert self.texts is not None
        return self.texts.sources(self.batch.numbers)


class TextEpisodes(Episodes):
    """Windows of running text: the first words of each are given, and what follows is written."""

    model: LanguageModel
    batch: TokenBatch

    def __init__(self, model: Any, batch: Any, tokenizer: Tokenizer, texts: Texts | None, prompt: int) -> None:
        super().__init__(model, batch, tokenizer, texts)
        self.prompt = batch.inputs[:, :prompt]

    def write(self, samples: int, longest: int, choose: Choose, given: Tensor | None = None) -> Rollout:
        words = self.prompt.repeat_interleave(samples, 0)
        if given is not None:
            given = given.repeat_interleave(samples, 0)
        return rollout(self.choosing(choose), self.model.start(len(words)), words, longest, given)

    def features(self, network: LanguageModel, tokens: Tensor) -> Tensor:
        prompts = self.prompt.repeat_interleave(len(tokens) // len(self.prompt), 0)
        features, _ = network(torch.cat([prompts, tokens[:, :-1]], dim=1))
        return features[:, prompts.size(1) - 1 :]

    def judge(self, network: LanguageModel, tokens: Tensor, texts: Tensor) -> Judged:
        places = sent(places_of(texts), tokens.device)
        features = self.features(network, tokens)
        return Judged(network.output.log_prob_at(features, tokens, places), features)

    def spelled(self, tokens: Tensor) -> list[str]:
        return [self.tokenizer.decode(row) for row in _unpadded(tokens)]

    @cached_property
    def truth(self) -> Tensor:
        following = self.batch.targets[:, self.prompt.size(1) - 1 :]
        over = (following == EOS).cumsum(1) - (following == EOS).long()  # ends before this word
        return following.masked_fill(over > 0, PAD)

    @property
    def references(self) -> list[tuple[str, ...]]:
        return [(text,) for text in self.spelled(self.truth)]

    @property
    def sources(self) -> list[str]:
        return self.spelled(self.prompt)


def episodes_of(model: Writer, batch: Any, tokenizer: Tokenizer, texts: Texts | None, prompt: int) -> Episodes:
    """What is to be written in a batch."""
    if isinstance(model, Conditional):
        return PairEpisodes(model, batch, tokenizer, texts)
    return TextEpisodes(model, batch, tokenizer, texts, prompt)


@torch.no_grad()
def written_greedily(
    model: Writer, batches: Iterable[Any], tokenizer: Tokenizer, texts: Texts | None, prompt: int
) -> tuple[list[str], list[tuple[str, ...]], list[str]]:
    """What a model writes for the examples of some batches, a thousand at most, with their references and sources."""
    outputs: list[str] = []
    references: list[tuple[str, ...]] = []
    sources: list[str] = []
    for batch in batches:
        episodes = episodes_of(model, batch.to(model.device), tokenizer, texts, prompt)
        outputs += episodes.spelled(episodes.write(1, episodes.longest, best).tokens)
        references += episodes.references
        sources += episodes.sources
        if len(outputs) >= VALIDATED:
            break
    return outputs, references, sources


@contextmanager
def writing(model: nn.Module) -> Iterator[None]:
    """Without dropout, for a moment."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _unpadded(tokens: Tensor) -> list[list[int]]:
    """Tokens [rows, time], each row up to its last one that is not `<pad>`."""
    ends = ((tokens != PAD) * torch.arange(1, tokens.size(1) + 1, device=tokens.device)).amax(1)
    return [row[:end] for row, end in zip(tokens.tolist(), ends.tolist(), strict=True)]


def _repeated(state: State, examples: int, samples: int) -> State:
    """The state with `samples` rows for each of its rows; what rows know of their source is not repeated."""
    if samples == 1:
        return state.map_rows(torch.clone)  # a state is consumed by who reads it, and this one is read twice
    device = next(iter([*state.values(), *state.shared.values()])).device
    sources = torch.arange(examples, device=device)
    return state.reorder(sources.repeat_interleave(samples), sources)
