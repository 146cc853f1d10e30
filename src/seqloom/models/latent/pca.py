"""Principal component analysis."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from seqloom.errors import ConfigError
from seqloom.models.latent.coder import Coder
from seqloom.nn.image_layers import Shape


class Pca(Coder):
    """The linear code that loses least: z = W(x - m), x̂ = m + Wᵀz, the rows of W the first right singular vectors.

    With X = UΣVᵀ the centred images, the variance along component i is Σᵢ² / (n - 1).
    """

    mean: Tensor
    components: Tensor
    variances: Tensor

    def __init__(self, size: int, shape: Shape) -> None:
        super().__init__(shape, size)
        pixels = math.prod(shape)
        if size > pixels:
            raise ConfigError(f"model.size is {size}, but images of {pixels} pixels have no more components than that")
        self.mean = torch.nn.Parameter(torch.zeros(pixels), requires_grad=False)
        self.components = torch.nn.Parameter(torch.zeros(size, pixels), requires_grad=False)
        self.variances = torch.nn.Parameter(torch.zeros(size), requires_grad=False)

    @torch.no_grad()
    def fit(self, images: Tensor) -> Pca:
        """Compute the components of images [rows, channels, height, width], exactly."""
        size = len(self.components)
        if len(images) <= size:
            raise ConfigError(f"model.size is {size}: more than {size} images are needed, and there are {len(images)}")
        pixels = images.flatten(1).double()
        mean = pixels.mean(0)
        # X = QR: the singular values and right singular vectors of the small R are those of X.
        triangle = torch.linalg.qr(pixels - mean, mode="r").R
        _, values, vectors = torch.linalg.svd(triangle, full_matrices=False)
        largest = vectors.gather(1, vectors.abs().argmax(1, keepdim=True))
        vectors = vectors * largest.sign()  # the sign of a component means nothing: let its largest number be positive
        self.mean.copy_(mean)
        self.components.copy_(vectors[:size])
        self.variances.copy_(values[:size] ** 2 / (len(pixels) - 1))
        return self

    def transform(self, images: Tensor) -> Tensor:
        """[rows, size]"""
        return (images.flatten(1) - self.mean) @ self.components.T

    def decode(self, codes: Tensor) -> Tensor:
        """[rows, channels, height, width]; a linear code may leave the range from 0 to 1, and is cut off there."""
        return (self.mean + codes @ self.components).clamp(0, 1).view(-1, *self.shape)
