"""The autoencoder, and the networks that it shares with the variational one."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.latent import AutoencoderConfig, DenseNetworks, NetworksConfig
from seqloom.data.image_batches import ImageBatch
from seqloom.models.latent.coder import Coder
from seqloom.models.latent.likelihoods import BernoulliPixels
from seqloom.models.latent.noise import corrupt
from seqloom.nn.image_layers import DenseDecoder, DenseEncoder, ImageConvolutionDecoder, ImageConvolutionEncoder, Shape


class Autoencoder(Coder):
    """x̂ = σ(g(f(x̃) + ε)), x̃ = x or x with noise (Vincent et al. 2008): f gives a code, g an image; ε is the noise on
    codes, in training only.

    The loss is a sum over pixels, -x log x̂ - (1 - x) log(1 - x̂) or (x - x̂)², against the image without noise.
    """

    def __init__(self, config: AutoencoderConfig, shape: Shape) -> None:
        super().__init__(shape, config.size)
        self.config = config
        self.encoder = build_encoder(config.networks, shape)
        self.code = nn.Linear(self.encoder.output_size, config.size)
        self.decoder = build_decoder(config.networks, config.size, shape)

    def begin(self, mean: Tensor) -> None:
        """Begin with the mean image [channels, height, width]."""
        self.decoder.begin_at(BernoulliPixels().decoded(mean))

    def transform(self, images: Tensor) -> Tensor:
        """[rows, size]"""
        return self.code(self.encoder(images))

    def decode(self, codes: Tensor) -> Tensor:
        """[rows, channels, height, width], from 0 to 1"""
        return torch.sigmoid(self.decoder(codes))

    def loss(self, batch: ImageBatch, random: torch.Generator | None = None) -> Tensor:
        """Of images with noise against the same without, summed over the batch; in training, codes have noise too."""
        noisy = corrupt(batch.images, self.config.noise, self.config.strength, random)
        codes = self.transform(noisy)
        if self.training and self.config.code_noise:
            codes = codes + self.config.code_noise * torch.randn_like(codes)
        logits = self.decoder(codes)
        if self.config.loss == "cross-entropy":
            return F.binary_cross_entropy_with_logits(logits.float(), batch.images, reduction="sum")
        return F.mse_loss(torch.sigmoid(logits.float()), batch.images, reduction="sum")


def build_encoder(config: NetworksConfig, shape: Shape) -> DenseEncoder | ImageConvolutionEncoder:
    """The network from images to features."""
    if isinstance(config, DenseNetworks):
        return DenseEncoder(shape, config.sizes, config.activation)
    return ImageConvolutionEncoder(shape, config.channels, config.activation)


def build_decoder(config: NetworksConfig, size: int, shape: Shape) -> DenseDecoder | ImageConvolutionDecoder:
    """The network from vectors of `size` to images: the encoder's layers in reverse."""
    if isinstance(config, DenseNetworks):
        return DenseDecoder(size, config.sizes[::-1], shape, config.activation)
    return ImageConvolutionDecoder(size, config.channels, shape, config.activation)
