"""Captioners: an image encoder, a decoder that looks at what it encoded, an output layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import Probability, Schema, Size
from seqloom.config.schema.data import CaptionData
from seqloom.config.schema.language import EmbeddingConfig
from seqloom.config.schema.seq2seq import DecoderConfig, RecurrentDecoderConfig, WritingConfig
from seqloom.config.schema.transformer import InnerActivation, TransformerShape

if TYPE_CHECKING:
    from seqloom.config.schema.run import RunConfig


class CnnEncoderConfig(Schema):
    kind: Literal["cnn"] = "cnn"
    """Convolutions, whose grid of features the decoder reads (Xu et al. 2015)."""
    channels: Annotated[tuple[Size, ...], Field(min_length=1)] = (32, 64, 128)
    """Of each stage; a stage halves height and width. The last is the size of the memory."""
    dropout: Probability = 0.0
    """Dropout on the features."""
    positions: Literal["learned", "sinusoidal"] = "learned"
    """How the decoder learns where a place is: a vector for each, or waves down and across."""


class VitEncoderConfig(TransformerShape):
    kind: Literal["vit"] = "vit"
    """Patches of the image, read by a Transformer as if they were words (Dosovitskiy et al. 2021)."""
    patch: Size = 8
    """Width and height of a patch in pixels; a divisor of the image's."""
    size: Size = 128
    """Size of the vectors between layers, and of what comes out; a multiple of `heads`, unless `head_size` is given."""
    activation: InnerActivation = "gelu"
    """φ of the position-wise network W₂ φ(W₁ x); `gelu-tanh` is the approximation of GPT-2."""
    positions: Literal["learned", "sinusoidal"] = "learned"
    """How the network learns where a patch is: a vector for each, or waves down and across."""


class FeaturesEncoderConfig(Schema):
    kind: Literal["features"] = "features"
    """What another encoder says of each place (`data.features`): each vector normed and projected."""
    size: Size = 256
    """Size of the memory."""
    dropout: Probability = 0.0
    """Dropout on the features, before they are projected."""
    positions: Literal["learned", "sinusoidal"] = "learned"
    """How the decoder learns where a place is: a vector for each, or waves down and across."""


ImageEncoderConfig = Annotated[CnnEncoderConfig | VitEncoderConfig | FeaturesEncoderConfig, Field(discriminator="kind")]


class CaptionerConfig(WritingConfig):
    learns_from = CaptionData

    kind: Literal["captioner"] = "captioner"
    """p(caption | image): an image encoder, and a decoder that writes what is there."""
    encoder: ImageEncoderConfig = CnnEncoderConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    """Of the captions' words."""
    decoder: DecoderConfig = RecurrentDecoderConfig()

    def check(self, run: RunConfig) -> None:
        super().check(run)
        if (self.encoder.kind == "features") != (run.data.features is not None):
            raise ValueError(
                "model.encoder.kind=features reads the file that data.features names, and no other encoder does: "
                "set both, or neither"
            )
