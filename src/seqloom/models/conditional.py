"""Models of text given something else: a sentence, an image."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from seqloom.data.batch import recent, shifted
from seqloom.models.autoregressive import Autoregressive
from seqloom.models.network import Network
from seqloom.nn import Embedding, OutputLayer, State
from seqloom.nn.decoders import Decoder, Reading
from seqloom.nn.encoders import Encoding
from seqloom.text.special import PAD, UNK


class Conditional(Network, Autoregressive):
    """p(y | x) = Π_t p(y_t | y_<t, x):  memory = encode(x),  h_t = decoder(y_<t, memory),  p(y_t | ...) = output(h_t)

    The encoder runs once per source. Every method that takes tokens takes the sources they belong to, one per row; a
    state belongs to sources, and may have several rows for each.
    """

    embedding: Embedding
    decoder: Decoder
    output: OutputLayer

    # ------------------------------------------------------------------------------------------------- the network

    @abstractmethod
    def source_of(self, batch: Any) -> Any:
        """The sources of a batch, as `encode` takes them."""

    @abstractmethod
    def encode(self, source: Any) -> Encoding:
        """What the encoder knows of the sources."""

    def begin(self, encoding: Encoding, source: Any) -> State:
        """The decoder's state before the first word, one row per source."""
        return self.decoder.start(encoding)

    def forward(self, inputs: Tensor, state: State) -> tuple[Reading, State]:
        """inputs [rows, time] -> what the decoder makes of them, and the state after them."""
        reading, state = self.decoder(self.embedding(inputs), state)
        return reading, state

    def predict(self, reading: Reading, state: State) -> Tensor:
        """log p of every word after each one read: [rows, time, vocabulary]."""
        return self.output.log_probs(reading.features)

    def judge(self, reading: Reading, state: State, targets: Tensor, places: Tensor | None = None) -> Tensor:
        """log p of the targets [rows, time], each after what was read up to it: [rows, time].

        places [n]: where those stand that count, row after row; what comes out elsewhere means nothing.
        """
        return self.output.log_prob_at(reading.features, targets, places)

    def loss(self, reading: Reading, state: State, batch: Any, smoothing: float) -> Tensor:
        """Σ -log p(target) over the targets of a batch, with label smoothing; the reading is of its inputs."""
        features = reading.features.flatten(0, 1).index_select(0, batch.places)
        targets = batch.targets.flatten().index_select(0, batch.places)
        before = None
        if self.output.history:
            words = recent(shifted(batch.targets), self.output.history)
            before = words.flatten(0, 1).index_select(0, batch.places)
        return self.output.loss(features, targets, smoothing, before)

    def side_loss(self, encoding: Encoding, batch: Any) -> Tensor | None:
        """What the model learns besides from a batch, a sum over its targets; nothing here."""
        return None

    # ------------------------------------------------------------------------------------------- the step protocol

    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences that are to be written; `source` has a row for each.

        Searches begin here, scores with `begin`: a model may narrow what it writes, not what it finds probable.
        """
        return self.begin(*self.encoded(size, source))

    def encoded(self, size: int, source: Any) -> tuple[Encoding, Any]:
        """What `begin` takes, of the sources of `size` sequences."""
        source = self.checked(source, size)
        return self.encode(source), source

    @abstractmethod
    def checked(self, source: Any, size: int) -> Any:
        """The sources where the model runs; an error if they are not `size` of what it reads."""

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read tokens [batch, time]; return log p(next | source, all read so far) [batch, vocabulary] and the state."""
        reading, after = self(tokens, state)
        return self.predict(reading.at(-1), state).squeeze(1), after

    @property
    def sequential(self) -> bool:
        """Whether the decoder takes word after word even when all are known."""
        return self.decoder.sequential

    @property
    def joins(self) -> bool:
        return self.decoder.joins

    def predictions(self, state: State, tokens: Tensor) -> Iterator[Tensor]:
        """log p(next | source, all read so far) [batch, vocabulary] after each of tokens [batch, time]."""
        reading, _ = self(tokens, state)
        return (self.predict(reading.at(step), state).squeeze(1) for step in range(tokens.size(1)))

    def reserve(self, state: State, steps: int) -> State:
        """The same state with room for so many steps, so that its tensors keep their shapes as it goes on."""
        return self.decoder.reserve(state, steps)

    def token_log_probs(self, tokens: Tensor, source: Any = None) -> Tensor:
        """log p of each token given its source and those before it, [batch, time]: natural log, 0 for `<pad>`."""
        reading, state = self._follow(tokens, source)
        return self.judge(reading, state, tokens).masked_fill(tokens == PAD, 0.0)

    def target_log_probs(self, batch: Any) -> tuple[Tensor, Tensor]:
        """log p of each target of a batch given its source, and the same with the factors of `<unk>` left out: [rows]
        each, float64."""
        tokens = batch.targets
        log_probs = self.token_log_probs(tokens, self.source_of(batch)).double()
        return log_probs.sum(1), log_probs.masked_fill(tokens == UNK, 0.0).sum(1)

    def attention(self, tokens: Tensor, source: Any) -> Tensor:
        """Where the decoder looked when it predicted each of tokens [batch, time]: [batch, time, places]."""
        return self._follow(tokens, source)[0].weights

    def _follow(self, tokens: Tensor, source: Any) -> tuple[Reading, State]:
        """Read targets from the beginning, each shifted by one."""
        state = self.begin(*self.encoded(len(tokens), source))
        reading, _ = self(shifted(tokens), state)
        return reading, state
