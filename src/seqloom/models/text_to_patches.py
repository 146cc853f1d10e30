"""Images from text, patch by patch: sequence to sequence, with a codebook of patches for a target vocabulary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.config.schema.language import EmbeddingConfig
from seqloom.config.schema.text_to_patches import TextToPatchesConfig
from seqloom.data.codebook import FIRST
from seqloom.decoding.limits import IMPOSSIBLE
from seqloom.models.seq2seq import Seq2Seq
from seqloom.nn import Embedding, State
from seqloom.nn.build import build_decoder, build_encoder
from seqloom.nn.decoders import Reading
from seqloom.nn.output.softmax import Softmax
from seqloom.nn.positions import GridPositions


class TextToPatches(Seq2Seq):
    """p(x | c) = Π_t p(k_t | k_<t, c) of the codes k_1, ..., k_T of an image x, row after row, given a sentence c (as
    the prior of van den Oord et al. 2017, https://arxiv.org/abs/1711.00937, and DALL-E, Ramesh et al. 2021,
    https://arxiv.org/abs/2102.12092).

    All images have T codes, and nothing else can be written: the probabilities of all sequences of T codes add up to 1.
    """

    output: Softmax

    def __init__(
        self, config: TextToPatchesConfig, grid: tuple[int, int], vocabulary_size: int, target_vocabulary_size: int
    ) -> None:
        """For images of a grid of patches, rows by columns; special symbols are counted in both vocabularies."""
        encoder = build_encoder(config.encoder, config.embedding.size)
        size = config.decoder.size
        super().__init__(
            Embedding(config.embedding, vocabulary_size),
            encoder,
            Embedding(EmbeddingConfig(size=size), target_vocabulary_size),
            build_decoder(config.decoder, size, encoder.output_size),
            Softmax(size, target_vocabulary_size - FIRST, bias=torch.zeros(target_vocabulary_size - FIRST)),
        )
        self.vocabulary_size = target_vocabulary_size
        self.places = GridPositions(size, *grid)

    def begin_at(self, frequencies: Tensor) -> None:
        """Begin with the distribution of the codes, whose frequencies [codes] these are."""
        assert self.output.bias is not None
        self.output.bias.data.copy_(frequencies.log())

    def forward(self, inputs: Tensor, state: State) -> tuple[Reading, State]:
        """The decoder reads the code before, and which place comes next."""
        return self.decoder(self.places.embed(self.embedding(inputs), state.position), state)

    def predict(self, reading: Reading, state: State) -> Tensor:
        return F.pad(super().predict(reading, state), (FIRST, 0), value=IMPOSSIBLE)

    def judge(self, reading: Reading, state: State, targets: Tensor, places: Tensor | None = None) -> Tensor:
        return super().judge(reading, state, (targets - FIRST).clamp(min=0), places)  # of `<pad>` nobody asks

    def loss(self, reading: Reading, state: State, batch: Any, smoothing: float) -> Tensor:
        features = reading.features.flatten(0, 1).index_select(0, batch.places)
        targets = batch.targets.flatten().index_select(0, batch.places)
        return self.output.loss(features, targets - FIRST, smoothing)
