"""ELMo: two language models, one of which reads backwards, and the vectors in between."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema import CharacterInput, ElmoConfig
from seqloom.data.sentences import SentenceBatch, spelling_of
from seqloom.models.autoregressive import Autoregressive
from seqloom.nn import Embedding, OutputLayer, State
from seqloom.nn.characters import CharacterCnn
from seqloom.nn.dropout import Dropout
from seqloom.nn.encoders import reverse, reversed_order
from seqloom.nn.output import Plan, build_output
from seqloom.nn.residual_lstm import ResidualLstm
from seqloom.text.special import BOS, PAD
from seqloom.text.vocabulary import Vocabulary


class Elmo(nn.Module, Autoregressive):
    """log p(x_1, ..., x_T) from either end (Peters et al. 2018, https://arxiv.org/abs/1802.05365):

        Σ_t log p(x_t | x_1, ..., x_{t-1}; Θ_x, Θ→, Θ_s)  +  Σ_t log p(x_t | x_{t+1}, ..., x_T; Θ_x, Θ←, Θ_s)

    The input layer Θ_x and the output layer Θ_s are shared, the LSTMs Θ→ and Θ← are not. A sentence stands between
    `<bos>` and `<eos>`; each direction predicts all but the symbol that it begins with. The forward direction by itself
    is a language model like any other: sequences are drawn from it and scored by it.
    """

    def __init__(
        self,
        words: Embedding | CharacterCnn,
        ahead: ResidualLstm,
        back: ResidualLstm,
        output: OutputLayer,
        dropout: float,
        spelling: NDArray[Any] | None,
    ) -> None:
        super().__init__()
        self.words, self.ahead, self.back, self.output = words, ahead, back, output
        self.dropout = Dropout(dropout)
        self.vocabulary_size = output.vocabulary_size
        self.spelling: Tensor | None
        codes = None if spelling is None else torch.from_numpy(spelling).long()
        self.register_buffer("spelling", codes, persistent=False)  # it follows from the vocabulary

    @property
    def width(self) -> int:
        """How long the vectors of `layers` are."""
        return 2 * self.ahead.size

    # ----------------------------------------------------------------------------------------- from both directions

    def directions(self, batch: SentenceBatch) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The words' own vectors [batch, time, size], and what the layers of either direction make of them."""
        vectors = F.embedding(batch.places, self.words(batch.words))
        order = reversed_order(torch.arange(vectors.size(1), device=vectors.device) < batch.lengths.unsqueeze(1))
        ahead, _ = self.ahead(vectors)
        back, _ = self.back(reverse(vectors, order))
        return vectors, ahead, [reverse(layer, order) for layer in back]

    def layers(self, batch: SentenceBatch) -> Tensor:
        """[layers + 1, batch, time, width]: layer 0 is the word by itself, twice; layer j is [h→_j, h←_j]."""
        vectors, ahead, back = self.directions(batch)
        pairs = zip([vectors, *ahead], [vectors, *back], strict=True)
        return torch.stack([torch.cat([left.float(), right.float()], dim=-1) for left, right in pairs])

    def loss(self, batch: SentenceBatch) -> Tensor:
        """-log p of all words of both directions, or what the output layer minimises in its stead."""
        _, ahead, back = self.directions(batch)
        here, there = batch.steps, batch.steps + 1
        targets = batch.targets.flatten()
        forward = self.output.loss(self.dropout(_picked(ahead[-1], here)), targets[there])
        return forward + self.output.loss(self.dropout(_picked(back[-1], there)), targets[here])

    def log_probs_both_ways(self, batch: SentenceBatch) -> tuple[Tensor, Tensor]:
        """log p of every word forwards and backwards, [words predicted] each, in the order of `batch.steps`."""
        _, ahead, back = self.directions(batch)
        here, there = batch.steps, batch.steps + 1
        targets = batch.targets.flatten()
        forward = self.output.log_prob(_picked(ahead[-1], here), targets[there])
        return forward, self.output.log_prob(_picked(back[-1], there), targets[here])

    # --------------------------------------------------------------------------------- forwards, by the step protocol

    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences before anything was read."""
        return self.ahead.start(size, next(self.parameters()))

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read tokens [batch, time]; return log p(next | all read so far) [batch, vocabulary] and the new state."""
        layers, state = self.ahead(self._vectors(tokens), state)
        return self.output.log_probs(layers[-1][:, -1]), state

    def token_log_probs(self, tokens: Tensor, source: Any = None) -> Tensor:
        """log p of each token given those before it in its row, [batch, time]: natural log, 0 for `<pad>`."""
        begin = torch.full_like(tokens[:, :1], BOS)
        layers, _ = self.ahead(self._vectors(torch.cat([begin, tokens[:, :-1]], dim=1)))
        return self.output.log_prob(layers[-1], tokens).masked_fill(tokens == PAD, 0.0)

    def _vectors(self, tokens: Tensor) -> Tensor:
        if self.spelling is None:
            vectors: Tensor = self.words(tokens)
            return vectors
        distinct, places = tokens.unique(return_inverse=True)
        return F.embedding(places, self.words(self.spelling[distinct]))

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return next(self.parameters()).device

    @property
    def parameter_count(self) -> int:
        """How many weights there are, tied ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())


def build_elmo(config: ElmoConfig, vocabulary: Vocabulary, plan: Plan | None = None) -> Elmo:
    """The model that a configuration describes, with fresh weights; `plan`: as for `build_output`."""
    size, known = config.size, len(vocabulary)
    words: Embedding | CharacterCnn
    if isinstance(config.input, CharacterInput):
        words = CharacterCnn(size, **config.input.model_dump(exclude={"kind", "max_length"}))
        matrix = words.characters  # of no word; the configuration sees to it that no layer wants to share it
    else:
        words = Embedding(known, size)
        matrix = words.weight
    ahead, back = (ResidualLstm(size, config.layers, config.cells, config.dropout) for _ in range(2))
    output = build_output(config.output, size, known, plan, matrix)
    return Elmo(words, ahead, back, output, config.dropout, spelling_of(vocabulary, characters_read(config)))


def characters_read(config: ElmoConfig) -> int | None:
    """How many characters of a word the model reads; None when it reads whole words."""
    return config.input.max_length if isinstance(config.input, CharacterInput) else None


def _picked(features: Tensor, places: Tensor) -> Tensor:
    return features.flatten(0, 1).index_select(0, places)
