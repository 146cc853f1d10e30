"""Sequence to sequence: an encoder reads the source, a decoder writes the target."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from seqloom.data.buckets import PairBatch
from seqloom.models.autoregressive import Autoregressive
from seqloom.nn import Embedding, OutputLayer, State
from seqloom.nn.decoders import Decoder, Reading
from seqloom.nn.encoders import Encoder, Encoding
from seqloom.text.special import BOS, PAD


class Source(NamedTuple):
    """A batch of sources, and what `start` takes: tokens [batch, places] padded with `<pad>`, lengths [batch]."""

    tokens: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, batch: PairBatch) -> Self:
        """The sources of a batch of pairs."""
        return cls(batch.source, batch.source_lengths)


class Seq2Seq(nn.Module, Autoregressive):
    """p(y | x) = Π_t p(y_t | y_<t, x):  memory = encoder(x),  h_t = decoder(y_<t, memory),  p(y_t | ...) = output(h_t)

    The encoder runs once per source. Every method that takes tokens takes the sources they belong to, one per row; a
    state belongs to sources, and may have several rows for each.
    """

    def __init__(
        self, source_embedding: Embedding, encoder: Encoder, embedding: Embedding, decoder: Decoder, output: OutputLayer
    ) -> None:
        super().__init__()
        self.source_embedding, self.encoder = source_embedding, encoder
        self.embedding, self.decoder, self.output = embedding, decoder, output
        self.vocabulary_size = output.vocabulary_size

    # ------------------------------------------------------------------------------------------------- the network

    def encode(self, source: Source) -> Encoding:
        """What the encoder knows of the sources."""
        encoding: Encoding = self.encoder(self.source_embedding(source.tokens), source.lengths)
        return encoding

    def begin(self, encoding: Encoding, source: Source) -> State:
        """The decoder's state before the first word, one row per source."""
        return self.decoder.start(encoding)

    def forward(self, inputs: Tensor, state: State) -> tuple[Reading, State]:
        """inputs [rows, time] -> what the decoder makes of them, and the state after them."""
        reading, state = self.decoder(self.embedding(inputs), state)
        return reading, state

    def predict(self, reading: Reading, state: State) -> Tensor:
        """log p of every word after the last one read: [rows, vocabulary]."""
        return self.output.log_probs(reading.features[:, -1])

    def predict_all(self, reading: Reading, state: State) -> Tensor:
        """log p of every word after each one read: [rows, time, vocabulary]."""
        return self.output.log_probs(reading.features)

    def judge(self, reading: Reading, state: State, targets: Tensor) -> Tensor:
        """log p of the targets [rows, time], each after what was read up to it: [rows, time]."""
        return self.output.log_prob(reading.features, targets)

    def loss(self, reading: Reading, state: State, batch: PairBatch, smoothing: float) -> Tensor:
        """Σ -log p(target) over the targets of a batch, with label smoothing; the reading is of its inputs."""
        features = reading.features.flatten(0, 1).index_select(0, batch.places)
        return self.output.loss(features, batch.targets.flatten().index_select(0, batch.places), smoothing)

    def side_loss(self, encoding: Encoding, batch: PairBatch) -> Tensor | None:
        """What the model learns besides from a batch, a sum over its targets; nothing here."""
        return None

    # ------------------------------------------------------------------------------------------- the step protocol

    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences, of which source `Source` each is about, before anything was read."""
        if not isinstance(source, Source) or len(source.tokens) != size:
            raise ValueError("a sequence-to-sequence model starts from a Source, one row for each sequence")
        source = Source(source.tokens.to(self.device), source.lengths.to(self.device))
        return self.begin(self.encode(source), source)

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read tokens [batch, time]; return log p(next | source, all read so far) [batch, vocabulary] and the state."""
        reading, after = self(tokens, state)
        return self.predict(reading, state), after

    def reserve(self, state: State, steps: int) -> State:
        """The same state with room for so many steps, so that its tensors keep their shapes as it goes on."""
        return self.decoder.reserve(state, steps)

    def token_log_probs(self, tokens: Tensor, source: Any = None) -> Tensor:
        """log p of each token given its source and those before it, [batch, time]: natural log, 0 for `<pad>`."""
        reading, state = self._follow(tokens, source)
        return self.judge(reading, state, tokens).masked_fill(tokens == PAD, 0.0)

    def attention(self, tokens: Tensor, source: Source) -> Tensor:
        """Where the decoder looked when it predicted each of tokens [batch, time]: [batch, time, places]."""
        return self._follow(tokens, source)[0].weights

    def _follow(self, tokens: Tensor, source: Any) -> tuple[Reading, State]:
        """Read targets from the beginning, each shifted by one."""
        state = self.start(len(tokens), source)
        begin = torch.full_like(tokens[:, :1], BOS)
        reading, _ = self(torch.cat([begin, tokens[:, :-1]], dim=1), state)
        return reading, state

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return next(self.parameters()).device

    @property
    def parameter_count(self) -> int:
        """How many weights there are, tied ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())
