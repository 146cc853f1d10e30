"""Sequence to sequence with copying: words of the source can be said again, also those nobody has seen before."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.data.pair_batches import PairBatch
from seqloom.models.seq2seq import Seq2Seq, Source
from seqloom.nn import Embedding, OutputLayer, State
from seqloom.nn.decoders import Decoder, Reading
from seqloom.nn.encoders import Encoder, Encoding
from seqloom.nn.linear import Linear
from seqloom.text.special import EOS, UNK

SMALLEST = 1e-30  # a probability that stands for 0: its logarithm is finite, and so are gradients


class CopyingSeq2Seq(Seq2Seq):
    """The pointer-generator (See et al. 2017, https://arxiv.org/abs/1704.04368, section 2.2):

    p(w) = g p_vocabulary(w) + (1 - g) Σ_{s: x_s = w} α_s,  g = σ(v · h + b)

    α is the decoder's attention. Tokens count on from the vocabulary for the words of a source that it does not know:
    `vocabulary_size + k` is the k-th such word of this source, which only copying can say. There are at most as many
    as places in the source, so distributions are over vocabulary_size + places words.
    """

    def __init__(
        self, source_embedding: Embedding, encoder: Encoder, embedding: Embedding, decoder: Decoder, output: OutputLayer
    ) -> None:
        super().__init__(source_embedding, encoder, embedding, decoder, output)
        self.gate = Linear(decoder.output_size, 1)

    def encode(self, source: Source) -> Encoding:
        return super().encode(Source(self._known(source.tokens), source.lengths))

    def begin(self, encoding: Encoding, source: Source) -> State:
        state = super().begin(encoding, source)
        state.shared["copy.tokens"] = source.tokens
        state.shared["copy.allowed"] = words_of(encoding, source)
        return state

    def forward(self, inputs: Tensor, state: State) -> tuple[Reading, State]:
        return super().forward(self._known(inputs), state)

    def predict(self, reading: Reading, state: State) -> Tensor:
        """log p of all words: [rows, time, vocabulary + places]; -inf beyond the unknown words of a source."""
        tokens, copied = self._copied(reading, state)
        generate, copy = self._gates(reading.features, copied)
        known = (self.output.log_probs(reading.features).float() + generate).exp()
        probabilities = F.pad(known.clamp(min=SMALLEST), (0, tokens.size(1)))
        shares = copied * copy.exp()
        probabilities.scatter_add_(2, tokens.unsqueeze(1).expand_as(shares), shares)
        return probabilities.log()

    def judge(self, reading: Reading, state: State, targets: Tensor, places: Tensor | None = None) -> Tensor:
        tokens, copied = self._copied(reading, state)
        generate, copy = self._gates(reading.features, copied)
        pointed = (copied * (tokens.unsqueeze(1) == targets.unsqueeze(2))).sum(2)
        named = self.output.log_prob_at(reading.features, self._known(targets), places) + generate.squeeze(2)
        named = named.masked_fill(targets >= self.vocabulary_size, math.log(SMALLEST))
        return torch.logaddexp(named, pointed.clamp(min=SMALLEST).log() + copy.squeeze(2))

    def loss(self, reading: Reading, state: State, batch: PairBatch, smoothing: float) -> Tensor:
        if smoothing:
            raise ValueError("label smoothing is for models without copying")
        log_probs = self.judge(reading, state, batch.targets, batch.places)
        return -log_probs.flatten().index_select(0, batch.places).sum()

    def _known(self, tokens: Tensor) -> Tensor:
        """The tokens as the vocabulary knows them."""
        return tokens.masked_fill(tokens >= self.vocabulary_size, UNK)

    def _copied(self, reading: Reading, state: State) -> tuple[Tensor, Tensor]:
        """The sources' tokens [rows, places], and how much of each place is copied [rows, time, places]."""
        copied = reading.weights * state.of_rows("copy.allowed").unsqueeze(1)
        return state.of_rows("copy.tokens"), copied / copied.sum(2, keepdim=True).clamp(min=SMALLEST)

    def _gates(self, features: Tensor, copied: Tensor) -> tuple[Tensor, Tensor]:
        """log g and log (1 - g), [rows, time, 1]; where nothing can be copied, g is 1."""
        gate = self.gate(features).float()
        nothing = copied.sum(2, keepdim=True) < 0.5
        generate = F.logsigmoid(gate).masked_fill(nothing, 0.0)
        return generate, F.logsigmoid(-gate).masked_fill(nothing, math.log(SMALLEST))


def words_of(encoding: Encoding, source: Source) -> Tensor:
    """Which places of the sources are words, [batch, places]: neither padding nor the end."""
    return encoding.mask & (source.tokens != EOS)


class SelectiveSeq2Seq(CopyingSeq2Seq):
    """Copying with content selection (Gehrmann et al. 2018, https://arxiv.org/abs/1808.10792, "bottom-up attention").

    A selector learns which words of a source stand in its target, q_s = σ(u · tanh(W m_s)). What is generated may copy
    only where q_s reaches `threshold`, and its steps are distributions over what is left. In training and in scores
    attention is free: a word that the selector missed is improbable, not impossible.
    """

    def __init__(
        self,
        source_embedding: Embedding,
        encoder: Encoder,
        embedding: Embedding,
        decoder: Decoder,
        output: OutputLayer,
        threshold: float = 0.1,
        weight: float = 1.0,
    ) -> None:
        super().__init__(source_embedding, encoder, embedding, decoder, output)
        self.threshold, self.weight = threshold, weight
        size = encoder.output_size
        self.selector = nn.Sequential(Linear(size, size), nn.Tanh(), Linear(size, 1))

    def selection(self, encoding: Encoding) -> Tensor:
        """q_s as logits, [batch, places]."""
        return self.selector(encoding.memory).squeeze(2).float()

    def start(self, size: int, source: Any = None) -> State:
        encoding, source = self.encoded(size, source)
        state = self.begin(encoding, source)
        state.shared["copy.allowed"] &= self.selection(encoding).sigmoid() >= self.threshold
        return state

    def side_loss(self, encoding: Encoding, batch: PairBatch) -> Tensor:
        """The selector's cross-entropy per source word, summed as if over the targets, so that both weigh alike."""
        words = words_of(encoding, Source.of(batch))
        used = (batch.source.unsqueeze(2) == batch.targets.unsqueeze(1)).any(2).float()
        losses = F.binary_cross_entropy_with_logits(self.selection(encoding), used, reduction="none")
        mean = (losses * words).sum() / words.sum().clamp(min=1)
        return self.weight * mean * batch.tokens
