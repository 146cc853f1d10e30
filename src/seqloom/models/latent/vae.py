"""The variational autoencoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.latent import VaeConfig
from seqloom.data.image_batches import ImageBatch
from seqloom.errors import DataError
from seqloom.models.latent.autoencoder import build_decoder, build_encoder
from seqloom.models.latent.likelihoods import BernoulliPixels, GaussianPixels
from seqloom.models.latent.variational import Variational, at_least_single, normal_head
from seqloom.nn.image_layers import Shape


class Vae(Variational):
    """p(x) = ∫ N(z; 0, I) p(x | z) dz, with q(z | x) = N(z; μ(x), diag σ(x)²) to learn it by (Kingma & Welling 2014).

    Its bounds are those of `Variational`. With classes, all of it given the class: p(x | y), q(z | x, y), p(x | z, y).
    """

    def __init__(self, config: VaeConfig, shape: Shape, classes: int = 0) -> None:
        super().__init__()
        self.config, self.shape, self.classes = config, shape, classes
        self.encoder = build_encoder(config.networks, shape)
        self.head = nn.Linear(self.encoder.output_size + classes, 2 * config.size)
        self.decoder = build_decoder(config.networks, config.size + classes, shape)
        self.pixels = BernoulliPixels() if config.pixels == "bernoulli" else GaussianPixels(config.deviation)

    def begin(self, mean: Tensor) -> None:
        """Begin with the mean image [channels, height, width]: codes are then learned from the first step on."""
        self.decoder.begin_at(self.pixels.decoded(mean))

    def posterior(self, batch: ImageBatch) -> tuple[Tensor, Tensor]:
        features = self._with_class(self.encoder(batch.images), batch.labels)
        return normal_head(self.head(features), self.config.head)

    def likelihood(self, batch: ImageBatch, codes: Tensor) -> Tensor:
        return self.pixels.log_prob(self.decode(codes, batch.labels), batch.images)

    def decode(self, codes: Tensor, labels: Tensor | None = None) -> Tensor:
        """What the decoder gives for codes [..., rows, size] and labels [rows]: [..., rows, channels, height, width]"""
        given = self._with_class(codes, labels)
        decoded = at_least_single(self.decoder(given.flatten(0, -2)))
        return decoded.unflatten(0, given.shape[:-1])

    def _with_class(self, vectors: Tensor, labels: Tensor | None) -> Tensor:
        if not self.classes:
            return vectors
        if labels is None:
            raise DataError("a conditional model needs the classes of the images (labels)")
        if int(labels.max()) >= self.classes:
            raise DataError(f"a class is {int(labels.max())}, but the model learned {self.classes} (from 0 on)")
        known = F.one_hot(labels, self.classes).to(vectors)
        return torch.cat([vectors, known.expand(*vectors.shape[:-1], self.classes)], dim=-1)

    @torch.no_grad()
    def prior_log_prob(self, batch: ImageBatch, samples: int) -> Tensor:
        """log of the mean of p(x | z) over codes from the prior: [rows].

        Unbiased before the logarithm and useless all the same: few codes in a million explain a given image, and
        without one of them the estimate is hundreds of nats too low.
        """

        rows = len(batch.images) if self.classes else 1  # where no class is given, the same codes serve all images

        def weights(part: int) -> Tensor:
            codes = torch.randn(part, rows, self.config.size, device=batch.images.device).to(batch.images)
            return self.likelihood(batch, codes)

        return self.in_parts(batch, samples, weights)
