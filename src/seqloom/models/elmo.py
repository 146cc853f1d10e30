"""ELMo: two language models, one of which reads backwards, and the vectors in between."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.config.schema.elmo import CharacterInput, ElmoConfig
from seqloom.config.schema.language import EmbeddingConfig
from seqloom.data.batch import shifted
from seqloom.data.sentences import SentenceBatch, spelling_of
from seqloom.models.autoregressive import Autoregressive
from seqloom.models.network import Network
from seqloom.nn import Embedding, State
from seqloom.nn.characters import CharacterCnn
from seqloom.nn.dropout import Dropout
from seqloom.nn.encoders import reverse, reversed_order
from seqloom.nn.output import OutputLayout, build_output
from seqloom.nn.residual_lstm import ResidualLstm
from seqloom.text.special import PAD
from seqloom.text.vocabulary import Vocabulary


class Elmo(Network, Autoregressive):
    """log p(x_1, ..., x_T) from either end (Peters et al. 2018, https://arxiv.org/abs/1802.05365):

        Σ_t log p(x_t | x_1, ..., x_{t-1}; Θ_x, Θ→, Θ_s)  +  Σ_t log p(x_t | x_{t+1}, ..., x_T; Θ_x, Θ←, Θ_s)

    The input layer Θ_x and the output layer Θ_s are shared, the LSTMs Θ→ and Θ← are not. A sentence stands between
    `<bos>` and `<eos>`; each direction predicts all but the symbol that it begins with. The forward direction by itself
    is a language model like any other: sequences are drawn from it and scored by it.
    """

    def __init__(self, config: ElmoConfig, vocabulary: Vocabulary, layout: OutputLayout | None = None) -> None:
        """`layout`: as for `build_output`."""
        super().__init__()
        self.vocabulary_size = len(vocabulary)
        self.words: Embedding | CharacterCnn
        if isinstance(config.input, CharacterInput):
            self.words = CharacterCnn(config.size, **config.input.model_dump(exclude={"kind", "max_length"}))
            matrix = self.words.characters  # of no word; the configuration sees to it that no layer wants to share it
        else:
            self.words = Embedding(EmbeddingConfig(size=config.size), len(vocabulary))
            matrix = self.words.weight
        self.ahead = ResidualLstm(config.size, config.layers, config.cells, config.dropout)
        self.back = ResidualLstm(config.size, config.layers, config.cells, config.dropout)
        self.output = build_output(config.output, config.size, len(vocabulary), layout, matrix)
        self.dropout = Dropout(config.dropout)
        self.spelling: Tensor | None
        spelling = spelling_of(vocabulary, characters_read(config))
        codes = None if spelling is None else torch.from_numpy(spelling).long()
        self.register_buffer("spelling", codes, persistent=False)  # it follows from the vocabulary

    # ----------------------------------------------------------------------------------------- from both directions

    def directions(self, batch: SentenceBatch) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The words' own vectors [batch, time, size], and what the layers of either direction make of them."""
        vectors = F.embedding(batch.word_index, self.words(batch.words))
        order = reversed_order(torch.arange(vectors.size(1), device=vectors.device) < batch.lengths.unsqueeze(1))
        ahead, _ = self.ahead(vectors)
        back, _ = self.back(reverse(vectors, order))
        return vectors, ahead, [reverse(layer, order) for layer in back]

    def layers(self, batch: SentenceBatch) -> Tensor:
        """[layers + 1, batch, time, 2 · size]: layer 0 is the word by itself, twice; layer j is [h→_j, h←_j]."""
        vectors, ahead, back = self.directions(batch)
        pairs = zip([vectors, *ahead], [vectors, *back], strict=True)
        return torch.stack([torch.cat([left.float(), right.float()], dim=-1) for left, right in pairs])

    def loss(self, batch: SentenceBatch) -> Tensor:
        """-log p of all words of both directions, or what the output layer minimises in its stead."""
        forward, backward = (self.output.loss(self.dropout(known), words) for known, words in self._predicted(batch))
        return forward + backward

    def log_probs_both_ways(self, batch: SentenceBatch) -> tuple[Tensor, Tensor]:
        """log p of every word forwards and backwards, [words predicted] each, in the order of `batch.steps`."""
        forward, backward = (self.output.log_prob(known, words) for known, words in self._predicted(batch))
        return forward, backward

    def _predicted(self, batch: SentenceBatch) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Forwards and backwards: what is known before each word [words predicted, size], and the words."""
        _, ahead, back = self.directions(batch)
        here, there = batch.steps, batch.steps + 1
        targets = batch.targets.flatten()
        before, after = ahead[-1].flatten(0, 1), back[-1].flatten(0, 1)
        return (before.index_select(0, here), targets[there]), (after.index_select(0, there), targets[here])

    # --------------------------------------------------------------------------------- forwards, by the step protocol

    @property
    def joins(self) -> bool:
        return self.spelling is None  # else each step spells the distinct words of all rows, however many these are

    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences before anything was read."""
        return self.ahead.start(size, next(self.parameters()))

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read tokens [batch, time]; return log p(next | all read so far) [batch, vocabulary] and the new state."""
        layers, state = self.ahead(self._vectors(tokens), state)
        return self.output.log_probs(layers[-1][:, -1]), state

    def token_log_probs(self, tokens: Tensor, source: Any = None) -> Tensor:
        """log p of each token given those before it in its row, [batch, time]: natural log, 0 for `<pad>`."""
        layers, _ = self.ahead(self._vectors(shifted(tokens)))
        return self.output.log_prob(layers[-1], tokens).masked_fill(tokens == PAD, 0.0)

    def _vectors(self, tokens: Tensor) -> Tensor:
        if self.spelling is None:
            return self.words(tokens)
        distinct, places = tokens.unique(return_inverse=True)
        return F.embedding(places, self.words(self.spelling[distinct]))


def characters_read(config: ElmoConfig) -> int | None:
    """How many characters of a word the model reads; None when it reads whole words."""
    return config.input.max_length if isinstance(config.input, CharacterInput) else None
