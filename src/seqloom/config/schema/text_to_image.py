"""Images from text: a text encoder, and a convolutional decoder of images that attends to the words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import ModelPart, Size
from seqloom.config.schema.data import CaptionData
from seqloom.config.schema.language import EmbeddingConfig
from seqloom.config.schema.latent import Activation
from seqloom.config.schema.objectives import ElboObjective, ImportanceObjective
from seqloom.config.schema.seq2seq import EncoderConfig, RecurrentEncoderConfig

if TYPE_CHECKING:
    from seqloom.config.schema.run import RunConfig


class TextToImageConfig(ModelPart):
    learns_from = CaptionData
    objectives = (ElboObjective, ImportanceObjective)

    kind: Literal["text-to-image"] = "text-to-image"
    """p(image | sentence): a variational autoencoder of which every part is given the sentence."""
    embedding: EmbeddingConfig = EmbeddingConfig(size=64)
    """Of the words."""
    encoder: EncoderConfig = RecurrentEncoderConfig(kind="gru", size=128)
    """What reads the sentence."""
    size: Size = 32
    """Numbers in a code z: what the sentence leaves open."""
    hidden: Size = 256
    """Units of the layer in which sentence and image meet before the code, and of that in which sentence and code meet
    before the image: what a number of the code changes may depend on what is said."""
    channels: Annotated[tuple[Size, ...], Field(min_length=1)] = (32, 64, 128)
    """Channels of the image encoder's layers, each halving height and width; the decoder has them in reverse, and the
    places of its smallest image are those that attend to the words."""
    heads: Size = 4
    """Of that attention; they share the last of `channels`."""
    activation: Activation = "relu"
    """What follows each layer."""
    head: Literal["softplus", "log-variance"] = "log-variance"
    """How the image encoder gives standard deviations: by a softplus, or as the logarithm of their squares."""
    pixels: Literal["bernoulli", "gaussian"] = "bernoulli"
    """The distribution of a pixel given code and sentence. Brightness is no 0 or 1: with `bernoulli` the bound is a
    cross-entropy, no likelihood. `gaussian`: normal with one learned deviation for all pixels."""
    test_samples: Size = 50
    """Codes drawn for each image where `log_prob` is estimated."""

    def check_keys(self) -> None:
        if self.channels[-1] % self.heads:
            raise ValueError(f"heads: {self.heads} heads cannot share {self.channels[-1]} channels equally")

    def check(self, run: RunConfig) -> None:
        run.data.check_pixels()
