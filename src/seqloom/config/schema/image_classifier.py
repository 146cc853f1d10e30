"""A classifier of images."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import ModelPart, Probability, Schema, Size
from seqloom.config.schema.captioner import VitEncoderConfig
from seqloom.config.schema.data import ImageData
from seqloom.config.schema.objectives import OwnLossObjective


class HalvingEncoderConfig(Schema):
    kind: Literal["convolution"] = "convolution"
    """5×5 convolutions, each of which halves the sides, until they are short."""
    width: Size = 32
    """Channels of the first convolution; they double whenever the sides halve."""


class ImageClassifierConfig(ModelPart):
    learns_from = ImageData
    objectives = (OwnLossObjective,)

    kind: Literal["image-classifier"] = "image-classifier"
    """A class for every image, by a small network; its features serve to judge models of images."""
    encoder: Annotated[HalvingEncoderConfig | VitEncoderConfig, Field(discriminator="kind")] = HalvingEncoderConfig()
    """Reads the image."""
    features: Size = 64
    """Length of the feature vector that the class is read from."""
    dropout: Probability = 0.3
    """Dropout on the features."""
