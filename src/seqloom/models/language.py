"""The deep sequence model: an embedding layer, a feature layer and an output layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from seqloom.config.schema.language import LanguageModelConfig
from seqloom.data.batch import shifted
from seqloom.models.autoregressive import Autoregressive
from seqloom.models.network import Network
from seqloom.nn import Embedding, FeatureLayer, OutputLayer, State, build_features
from seqloom.nn.output import OutputLayout, build_output
from seqloom.text.special import PAD


class LanguageModel(Network, Autoregressive):
    """p(x_t | x_1, ..., x_{t-1}) = output(h_t),  h_t = features(e_1, ..., e_{t-1}),  e_i = embedding(x_i)

    (Bengio et al. 2003; every later neural language model changes one of the three layers.)
    """

    def __init__(self, embedding: Embedding, features: FeatureLayer, output: OutputLayer, vocabulary_size: int) -> None:
        super().__init__()
        self.embedding, self.features, self.output = embedding, features, output
        self.vocabulary_size = vocabulary_size

    def forward(self, inputs: Tensor, state: State | None = None, begins: Tensor | None = None) -> tuple[Tensor, State]:
        """inputs [batch, time] -> features [batch, time, size] and the state after them; from the start if none.

        begins [batch, time]: where in its row the unit of each place begins, for features that can keep units apart.
        """
        vectors = self.embedding(inputs)
        if state is None:
            state = self.features.start(len(inputs), vectors)
        features, state = self.features(vectors, state) if begins is None else self.features(vectors, state, begins)
        return features, state

    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences before anything was read."""
        return self.features.start(size, next(self.parameters()))

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read tokens [batch, time]; return log p(next | all read so far) [batch, vocabulary] and the new state."""
        features, state = self(tokens, state)
        return self.output.log_probs(features[:, -1]), state

    def read_scores(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """As `read`, with scores s instead: log p = s - log Σ exp s."""
        features, state = self(tokens, state)
        return self.output.scores(features[:, -1]), state

    @property
    def sequential(self) -> bool:
        """Whether the network takes word after word even when all are known."""
        return self.features.sequential

    @property
    def joins(self) -> bool:
        return self.features.joins

    def predictions(self, state: State, tokens: Tensor) -> Iterator[Tensor]:
        """log p(next | all read so far) [batch, vocabulary] after each of tokens [batch, time]."""
        features, _ = self(tokens, state)
        return map(self.output.log_probs, features.unbind(1))

    def reserve(self, state: State, steps: int) -> State:
        """The same state with room for so many steps, so that its tensors keep their shapes as it goes on."""
        return self.features.reserve(state, steps)

    def token_log_probs(self, tokens: Tensor, source: Any = None) -> Tensor:
        """log p of each token given those before it in its row, [batch, time]: natural log, 0 for `<pad>`."""
        features, _ = self(shifted(tokens))
        return self.output.log_prob(features, tokens).masked_fill(tokens == PAD, 0.0)


def build_language_model(
    config: LanguageModelConfig, vocabulary_size: int, layout: OutputLayout | None = None
) -> LanguageModel:
    """The model that a configuration describes, with fresh weights; `layout`: as for `build_output`."""
    embedding = Embedding(config.embedding, vocabulary_size)
    features = build_features(config.features, config.embedding.size)
    output = build_output(config.output, features.output_size, vocabulary_size, layout, embedding.weight)
    return LanguageModel(embedding, features, output, vocabulary_size)
