"""A small classifier of images."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.image_classifier import HalvingEncoderConfig, ImageClassifierConfig
from seqloom.data.image_batches import ImageBatch
from seqloom.nn.image_encoders import VitEncoder
from seqloom.nn.image_layers import Shape

SMALLEST = 8  # sides shorter than this are not halved


class ImageClassifier(nn.Module):
    """p(class | image): convolutions or a vision Transformer, a feature vector, a softmax.

    The features are what samples of other models are compared with real images by: two images of one kind of thing
    lie near to each other in them, as they do not in pixels.
    """

    def __init__(self, config: ImageClassifierConfig, shape: Shape, classes: int) -> None:
        super().__init__()
        self.body: Convolutions | Patches
        if isinstance(config.encoder, HalvingEncoderConfig):
            self.body = Convolutions(config.encoder, shape, config.features)
        else:
            self.body = Patches(VitEncoder(config.encoder, shape), config.features)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.features, classes)

    def features(self, images: Tensor) -> Tensor:
        """[rows, channels, height, width] from 0 to 1 -> [rows, features]."""
        return self.body(images)

    def log_probs(self, images: Tensor) -> Tensor:
        """log p of every class, [rows, classes]."""
        return torch.log_softmax(self.output(self.dropout(self.features(images))), dim=1)

    def loss(self, batch: ImageBatch) -> Tensor:
        """-log p of the classes of a batch, summed."""
        assert batch.labels is not None
        return F.nll_loss(self.log_probs(batch.images), batch.labels, reduction="sum")


class Convolutions(nn.Sequential):
    """5×5 convolutions, each of which halves the sides, and a layer that reads all that is left."""

    def __init__(self, config: HalvingEncoderConfig, shape: Shape, features: int) -> None:
        channels, height, width = shape
        filters = config.width
        layers: list[nn.Module] = []
        while not layers or min(height, width) >= SMALLEST:
            layers += [nn.Conv2d(channels, filters, 5, stride=2, padding=2, bias=False)]
            layers += [nn.BatchNorm2d(filters), nn.ReLU()]
            height, width = (height + 1) // 2, (width + 1) // 2
            channels, filters = filters, 2 * filters
        super().__init__(*layers, nn.Flatten(), nn.Linear(channels * height * width, features), nn.ReLU())

    def forward(self, images: Tensor) -> Tensor:
        """[rows, channels, height, width] from 0 to 1 -> [rows, features]."""
        return super().forward(2 * images - 1)


class Patches(nn.Module):
    """ReLU(W m + b) of the mean m of what a vision Transformer says of the patches (Dosovitskiy et al. 2021)."""

    def __init__(self, encoder: VitEncoder, features: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.project = nn.Linear(encoder.output_size, features)

    def forward(self, images: Tensor) -> Tensor:
        """[rows, channels, height, width] from 0 to 1 -> [rows, features]."""
        return F.relu(self.project(self.encoder(images).last))
