"""The mixture of Bernoullis, fitted by EM."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seqloom.config.schema.latent import MixtureConfig
from seqloom.nn.image_layers import Shape

AT_ONCE = 4096  # images whose responsibilities are computed together


class BernoulliMixture(nn.Module):
    """p(x) = Σ_k π_k Π_d μ_kd^{x_d} (1 - μ_kd)^{1 - x_d}: a component is chosen, then each pixel by itself.

    EM (Dempster et al. 1977) alternates between the responsibilities and the parameters that fit them best:

        r_nk = π_k p(x_n | k) / p(x_n)
        μ_kd = (Σ_n r_nk x_nd + s / 2) / (Σ_n r_nk + s),   π_k = (Σ_n r_nk + s) / (N + K s)

    With the smoothing s it climbs log p of the images plus the log-density of Beta(1 + s/2, 1 + s/2) priors on μ and
    a Dirichlet(1 + s) prior on π: that sum never falls.
    """

    def __init__(self, config: MixtureConfig, shape: Shape) -> None:
        super().__init__()
        self.config, self.shape = config, shape
        pixels, components = math.prod(shape), config.components
        self.log_shares = nn.Parameter(torch.full((components,), -math.log(components)), requires_grad=False)
        self.logits = nn.Parameter(torch.zeros(components, pixels), requires_grad=False)

    def joint(self, images: Tensor) -> Tensor:
        """log p(x, k) of images [rows, channels, height, width]: [rows, components]"""
        pixels = images.flatten(1).to(self.logits)
        return self.log_shares + pixels @ self.logits.T - nn.functional.softplus(self.logits).sum(1)

    def log_prob(self, images: Tensor) -> Tensor:
        """log p(x), exactly: [rows]"""
        return self.joint(images).logsumexp(1)

    def responsibilities(self, images: Tensor) -> Tensor:
        """p(k | x): [rows, components]"""
        return self.joint(images).softmax(1)

    def means(self) -> Tensor:
        """The expected image of each component: [components, channels, height, width]"""
        return torch.sigmoid(self.logits).view(-1, *self.shape)

    def draw(self, size: int, random: torch.Generator | None = None) -> Tensor:
        """Images of zeros and ones: [size, channels, height, width]"""
        chosen = torch.multinomial(self.log_shares.softmax(0).cpu(), size, replacement=True, generator=random)
        return torch.bernoulli(self.means().cpu()[chosen], generator=random)

    # ------------------------------------------------------------------------------------------------------- EM

    @torch.no_grad()
    def begin(self, images: Tensor, random: torch.Generator) -> None:
        """Responsibilities at random, then the parameters that fit them: components that differ a little."""
        weights = torch.rand(len(images), self.config.components, generator=random).to(self.logits)
        weights = (4 * weights).softmax(1)
        self._maximise(weights.T @ images.flatten(1).to(weights), weights.sum(0), len(images))

    @torch.no_grad()
    def improve(self, images: Tensor) -> tuple[float, float]:
        """One round of EM; the mean log p of the images before it, and with the log-prior divided by their number."""
        sums, counts = torch.zeros_like(self.logits), torch.zeros_like(self.log_shares)
        total, prior = 0.0, self.log_prior()
        for part in images.split(AT_ONCE):
            joint = self.joint(part)
            log_prob = joint.logsumexp(1, keepdim=True)
            weights = (joint - log_prob).exp()
            sums += weights.T @ part.flatten(1).to(weights)
            counts += weights.sum(0)
            total += float(log_prob.double().sum())
        self._maximise(sums, counts, len(images))
        return total / len(images), (total + prior) / len(images)

    def _maximise(self, sums: Tensor, counts: Tensor, images: int) -> None:
        smoothing = self.config.smoothing
        white = sums + smoothing / 2
        black = (counts.unsqueeze(1) - sums).clamp(min=0) + smoothing / 2
        self.logits.copy_(white.log() - black.log())
        self.log_shares.copy_(((counts + smoothing) / (images + smoothing * len(counts))).log())

    def log_prior(self) -> float:
        """What the smoothing adds to the log-likelihood, up to a constant."""
        half = self.config.smoothing / 2
        pixels = nn.functional.logsigmoid(self.logits) + nn.functional.logsigmoid(-self.logits)
        return float(half * pixels.double().sum() + self.config.smoothing * self.log_shares.double().sum())
