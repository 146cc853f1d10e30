"""What autoencoders and PCA share: images to codes, codes to images, and a normal distribution over codes."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from seqloom.nn.image_layers import Shape


class Coder(nn.Module):
    """Encodes without a density. To draw images all the same, a normal distribution is fitted to the codes."""

    code_mean: Tensor
    code_factor: Tensor

    def __init__(self, shape: Shape, size: int) -> None:
        super().__init__()
        self.shape = shape
        self.register_buffer("code_mean", torch.zeros(size))
        self.register_buffer("code_factor", torch.eye(size))

    @abstractmethod
    def transform(self, images: Tensor) -> Tensor:
        """[rows, channels, height, width] -> codes [rows, size]"""

    @abstractmethod
    def decode(self, codes: Tensor) -> Tensor:
        """Codes [rows, size] -> images [rows, channels, height, width] from 0 to 1"""

    def reconstruct(self, images: Tensor) -> Tensor:
        """Through the code and back."""
        return self.decode(self.transform(images))

    @torch.no_grad()
    def fit_codes(self, codes: Tensor) -> None:
        """Remember mean and covariance LLᵀ of codes [rows, size]."""
        codes = codes.double()
        mean = codes.mean(0)
        centred = codes - mean
        covariance = centred.T @ centred / max(1, len(codes) - 1)
        jitter = 1e-6 * covariance.diagonal().mean().clamp(min=1e-6)  # of codes that lie in a plane
        factor = torch.linalg.cholesky(covariance + jitter * torch.eye(len(mean), dtype=mean.dtype, device=mean.device))
        self.code_mean.copy_(mean)
        self.code_factor.copy_(factor)

    def draw_codes(self, size: int, random: torch.Generator | None = None) -> Tensor:
        """Codes from the fitted normal distribution: m + L ε."""
        noise = torch.randn(size, len(self.code_mean), generator=random).to(self.code_mean)
        return self.code_mean + noise @ self.code_factor.T
