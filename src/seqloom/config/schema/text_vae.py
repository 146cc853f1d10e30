"""The sequence VAE: a code behind each sentence."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seqloom.config.schema.base import NonNegative, Schema, Size
from seqloom.config.schema.language import EmbeddingConfig
from seqloom.config.schema.outputs import OutputConfig, SampledConfig, SoftmaxOutput
from seqloom.config.schema.seq2seq import (
    DecoderConfig,
    EncoderConfig,
    NoAttention,
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
)

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class TextBoundConfig(Schema):
    """The evidence lower bound, and what keeps the decoder from doing without the code (Bowman et al. 2016)."""

    beta: NonNegative = 1.0
    """Weight of the KL divergence; 1 is the bound itself."""
    warm_up: Share = 0.0
    """The part of the training over which the weight rises from 0 to `beta`."""
    free_bits: NonNegative = 0.0
    """Nats of KL divergence that each number of a code may have for nothing (Kingma et al. 2016)."""
    word_dropout: Share = 0.0
    """How likely a word that the decoder reads in training is replaced by `<unk>`: what it cannot read it must learn
    from the code."""


class TextVaeConfig(Schema):
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
    objective: TextBoundConfig = TextBoundConfig()
    """What training maximises."""
    test_samples: Size = 100
    """Codes drawn for each sentence where log p is estimated by importance sampling."""

    @model_validator(mode="after")
    def exact_output(self) -> TextVaeConfig:
        if isinstance(self.output, SampledConfig):
            raise ValueError(
                f"output.kind {self.output.kind} learns from few words, and the bound weighs log p of the words "
                "against the KL divergence: use softmax, class-softmax, tree-softmax or adaptive-softmax"
            )
        return self
