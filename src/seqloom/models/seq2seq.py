"""Sequence to sequence: an encoder reads the source, a decoder writes the target."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from torch import Tensor

from seqloom.data.pair_batches import PairBatch
from seqloom.models.conditional import Conditional
from seqloom.nn import Embedding, OutputLayer
from seqloom.nn.decoders import Decoder
from seqloom.nn.encoders import Encoder, Encoding


class Source(NamedTuple):
    """A batch of sources, and what `start` takes: tokens [batch, places] padded with `<pad>`, lengths [batch]."""

    tokens: Tensor
    lengths: Tensor
    codes: Tensor | None = None
    """[batch, size]: of models with a code, in units of its prior; none is the prior's mean."""

    @classmethod
    def of(cls, batch: PairBatch) -> Self:
        """The sources of a batch of pairs."""
        return cls(batch.source, batch.source_lengths)


class Seq2Seq(Conditional):
    """p(y | x) of a target y given a source x, both of words."""

    def __init__(
        self, source_embedding: Embedding, encoder: Encoder, embedding: Embedding, decoder: Decoder, output: OutputLayer
    ) -> None:
        super().__init__()
        self.source_embedding, self.encoder = source_embedding, encoder
        self.embedding, self.decoder, self.output = embedding, decoder, output
        self.vocabulary_size = output.vocabulary_size

    def source_of(self, batch: PairBatch) -> Source:
        return Source.of(batch)

    def encode(self, source: Source) -> Encoding:
        return self.encoder(self.source_embedding(source.tokens), source.lengths)

    def checked(self, source: Any, size: int) -> Source:
        if not isinstance(source, Source) or len(source.tokens) != size:
            raise ValueError("a sequence-to-sequence model starts from a Source, one row for each sequence")
        tokens, lengths, codes = source
        moved = None if codes is None else codes.to(self.device, self.dtype)
        return Source(tokens.to(self.device), lengths.to(self.device), moved)
