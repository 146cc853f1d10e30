"""The sequence VAE: a code behind each sentence."""

from __future__ import annotations

from typing import Literal

from seqloom.config.schema.base import ModelPart, Size
from seqloom.config.schema.data import TextData
from seqloom.config.schema.language import EmbeddingConfig
from seqloom.config.schema.objectives import TextElboObjective
from seqloom.config.schema.outputs import OutputConfig, SampledConfig, SoftmaxOutput
from seqloom.config.schema.seq2seq import (
    DecoderConfig,
    EncoderConfig,
    NoAttention,
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
)


class TextVaeConfig(ModelPart):
    learns_from = TextData
    objectives = (TextElboObjective,)

    kind: Literal["text-vae"] = "text-vae"
    """A variational autoencoder of sentences: codes from a standard normal distribution, and a decoder that writes a
    sentence of each (Bowman et al. 2016)."""
    size: Size = 32
    """Numbers in a code."""
    embedding: EmbeddingConfig = EmbeddingConfig()
    """Of the words, one matrix for encoder and decoder."""
    encoder: EncoderConfig = RecurrentEncoderConfig()
    """Reads the sentence that a code is asked for."""
    decoder: DecoderConfig = RecurrentDecoderConfig(attention=NoAttention(), feed=True)
    """Writes. The code is all it sees of a sentence: what it begins with and, with `feed`, reads at every step; where
    it has attention, the one place to look at."""
    output: OutputConfig = SoftmaxOutput()
    test_samples: Size = 100
    """Codes drawn for each sentence where log p is estimated by importance sampling."""

    def check_keys(self) -> None:
        if isinstance(self.output, SampledConfig):
            raise ValueError(
                f"output.kind {self.output.kind} learns from few words, and the bound weighs log p of the words "
                "against the KL divergence: use softmax, class-softmax, tree-softmax or adaptive-softmax"
            )
