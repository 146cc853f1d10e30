"""A small convolutional classifier of images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqloom.config.schema.image_classifier import ImageClassifierConfig
from seqloom.data.image_batches import ImageBatch

SMALLEST = 8  # sides shorter than this are not halved


class ImageClassifier(nn.Module):
    """p(class | image): 5×5 convolutions, each of which halves the sides, a feature vector, a softmax.

    The features are what samples of other models are compared with real images by: two images of one kind of thing
    lie near to each other in them, as they do not in pixels.
    """

    def __init__(self, config: ImageClassifierConfig, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        channels, height, width = shape
        filters = config.width
        layers: list[nn.Module] = []
        while not layers or min(height, width) >= SMALLEST:
            layers += [nn.Conv2d(channels, filters, 5, stride=2, padding=2, bias=False)]
            layers += [nn.BatchNorm2d(filters), nn.ReLU()]
            height, width = (height + 1) // 2, (width + 1) // 2
            channels, filters = filters, 2 * filters
        layers += [nn.Flatten(), nn.Linear(channels * height * width, config.features), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.features, classes)

    def features(self, images: Tensor) -> Tensor:
        """[rows, channels, height, width] from 0 to 1 -> [rows, features]."""
        return self.body(2 * images - 1)

    def log_probs(self, images: Tensor) -> Tensor:
        """log p of every class, [rows, classes]."""
        return torch.log_softmax(self.output(self.dropout(self.features(images))), dim=1)

    def loss(self, batch: ImageBatch) -> Tensor:
        """-log p of the classes of a batch, summed."""
        assert batch.labels is not None
        return nn.functional.nll_loss(self.log_probs(batch.images), batch.labels, reduction="sum")
