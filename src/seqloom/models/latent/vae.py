"""The variational autoencoder."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.latent import VaeConfig
from seqloom.data.image_batches import ImageBatch
from seqloom.errors import DataError
from seqloom.models.latent.autoencoder import build_decoder, build_encoder
from seqloom.models.latent.likelihoods import BernoulliPixels, GaussianPixels
from seqloom.nn.image_layers import Shape

AT_ONCE = {"cpu": 2_000_000, "cuda": 50_000_000}  # pixels decoded together where an image has many codes
SMALLEST = 1e-6  # of a standard deviation


class Vae(nn.Module):
    """p(x) = ∫ N(z; 0, I) p(x | z) dz, with q(z | x) = N(z; μ(x), diag σ(x)²) to learn it by (Kingma & Welling 2014).

        ELBO(x) = E_q[log p(x | z)] - KL(q(z | x) ‖ p(z))  <=  log p(x)
        w       = p(x | z) p(z) / q(z | x),  z ~ q(z | x)
        IWAE(x) = E[log (w₁ + ... + w_k) / k]  <=  log p(x),  tighter with every k (Burda et al. 2016)

    A draw is z = μ + σ ε with ε ~ N(0, I), so that gradients flow through μ and σ. With classes, all of it given the
    class: p(x | y), q(z | x, y), p(x | z, y).
    """

    def __init__(self, config: VaeConfig, shape: Shape, classes: int = 0) -> None:
        super().__init__()
        self.config, self.shape, self.classes = config, shape, classes
        self.encoder = build_encoder(config.networks, shape)
        self.head = nn.Linear(self.encoder.output_size + classes, 2 * config.size)
        self.decoder = build_decoder(config.networks, config.size + classes, shape)
        self.pixels = BernoulliPixels() if config.pixels == "bernoulli" else GaussianPixels()

    def begin(self, mean: Tensor) -> None:
        """Begin with the mean image [channels, height, width]: codes are then learned from the first step on."""
        self.decoder.begin_at(self.pixels.decoded(mean))

    # ------------------------------------------------------------------------------------------------- networks

    def posterior(self, batch: ImageBatch) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of q(z | x), [rows, size] each."""
        features = self._with_class(self.encoder(batch.images), batch.labels)
        mean, raw = at_least_single(self.head(features)).chunk(2, dim=-1)
        deviation = F.softplus(raw) if self.config.head == "softplus" else torch.exp(0.5 * raw)
        return mean, deviation + SMALLEST

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

    # --------------------------------------------------------------------------------------------------- bounds

    def reconstruction(self, batch: ImageBatch, mean: Tensor, deviation: Tensor, samples: int = 1) -> Tensor:
        """E_q[log p(x | z)] by the mean over `samples` draws: [rows]"""
        codes = mean + deviation * torch.randn(samples, *mean.shape, device=mean.device, dtype=mean.dtype)
        return self.pixels.log_prob(self.decode(codes, batch.labels), batch.images).mean(0)

    def elbo(self, batch: ImageBatch, samples: int = 1) -> Tensor:
        """The evidence lower bound with the divergence in closed form: [rows]"""
        mean, deviation = self.posterior(batch)
        return self.reconstruction(batch, mean, deviation, samples) - divergence(mean, deviation).sum(-1)

    def log_weights(self, batch: ImageBatch, samples: int) -> Tensor:
        """log w of `samples` draws from q(z | x): [samples, rows]"""
        mean, deviation = self.posterior(batch)
        noise = torch.randn(samples, *mean.shape, device=mean.device, dtype=mean.dtype)
        codes = mean + deviation * noise
        # log p(z) - log q(z | x) = Σ -½ z² + ½ ε² + log σ: the rest cancels
        ratio = (0.5 * (noise.square() - codes.square()) + deviation.log()).sum(-1)
        return self.pixels.log_prob(self.decode(codes, batch.labels), batch.images) + ratio

    def importance_bound(self, batch: ImageBatch, samples: int) -> Tensor:
        """The importance-weighted bound with k = `samples`: [rows]"""
        return self.log_weights(batch, samples).logsumexp(0) - math.log(samples)

    # ------------------------------------------------------------------------------------------------ estimates

    @torch.no_grad()
    def log_prob(self, batch: ImageBatch, samples: int) -> Tensor:
        """log p(x) by importance sampling from q(z | x), from below, close with thousands of samples: [rows]"""
        return self._in_parts(batch, samples, lambda part: self.log_weights(batch, part))

    @torch.no_grad()
    def prior_log_prob(self, batch: ImageBatch, samples: int) -> Tensor:
        """log of the mean of p(x | z) over codes from the prior: [rows].

        Unbiased before the logarithm and useless all the same: few codes in a million explain a given image, and
        without one of them the estimate is hundreds of nats too low.
        """

        rows = len(batch.images) if self.classes else 1  # where no class is given, the same codes serve all images

        def weights(part: int) -> Tensor:
            codes = torch.randn(part, rows, self.config.size, device=batch.images.device).to(batch.images)
            return self.pixels.log_prob(self.decode(codes, batch.labels), batch.images)

        return self._in_parts(batch, samples, weights)

    def _in_parts(self, batch: ImageBatch, samples: int, log_weights: Callable[[int], Tensor]) -> Tensor:
        """log of the mean of `samples` weights, as many at a time as memory allows."""
        at_once = max(1, AT_ONCE.get(batch.images.device.type, AT_ONCE["cpu"]) // batch.images.numel())
        total = torch.full((len(batch.images),), -math.inf, device=batch.images.device, dtype=torch.float64)
        for first in range(0, samples, at_once):
            part = log_weights(min(at_once, samples - first)).double().logsumexp(0)
            total = torch.logaddexp(total, part)
        return total - math.log(samples)


def divergence(mean: Tensor, deviation: Tensor) -> Tensor:
    """KL(N(μ, σ²) ‖ N(0, 1)) = ½ (μ² + σ² - 1 - log σ²), number by number."""
    return 0.5 * (mean.square() + deviation.square() - 1) - deviation.log()


def at_least_single(values: Tensor) -> Tensor:
    """What was computed in bfloat16 in single precision: sums over pixels and exponentials need it."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
