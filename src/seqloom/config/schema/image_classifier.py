"""A classifier of images."""

from __future__ import annotations

from typing import Literal

from seqloom.config.schema.base import ModelPart, Probability, Size
from seqloom.config.schema.data import ImageData
from seqloom.config.schema.objectives import OwnLossObjective


class ImageClassifierConfig(ModelPart):
    learns_from = ImageData
    objectives = (OwnLossObjective,)

    kind: Literal["image-classifier"] = "image-classifier"
    """A class for every image, by a small convolutional network; its features serve to judge models of images."""
    width: Size = 32
    """Channels of the first convolution; they double whenever the sides halve."""
    features: Size = 64
    """Length of the feature vector that the class is read from."""
    dropout: Probability = 0.3
    """Dropout on the features."""
