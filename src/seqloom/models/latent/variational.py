"""What models with a hidden z share: lower bounds of log p(x), whatever x is and whatever it is given."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

AT_ONCE = {"cpu": 2_000_000, "cuda": 50_000_000}  # pixels decoded together where an image has many codes
SMALLEST = 1e-6  # of a standard deviation


class Variational(nn.Module):
    """p(x) = ∫ N(z; 0, I) p(x | z) dz, with q(z | x) = N(z; μ(x), diag σ(x)²) to learn it by (Kingma & Welling 2014).

        ELBO(x) = E_q[log p(x | z)] - KL(q(z | x) ‖ p(z))  <=  log p(x)
        w       = p(x | z) p(z) / q(z | x),  z ~ q(z | x)
        IWAE(x) = E[log (w₁ + ... + w_k) / k]  <=  log p(x),  tighter with every k (Burda et al. 2016)

    A draw is z = μ + σ ε with ε ~ N(0, I), so that gradients flow through μ and σ. A batch holds `images` and what
    they are given, if anything: then all of it is given that.
    """

    @abstractmethod
    def posterior(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of q(z | x), [rows, size] each."""

    @abstractmethod
    def likelihood(self, batch: Any, codes: Tensor) -> Tensor:
        """log p(x | z) of every image of a batch with codes [samples, rows, size]: [samples, rows]"""

    # --------------------------------------------------------------------------------------------------- bounds

    def reconstruction(self, batch: Any, mean: Tensor, deviation: Tensor, samples: int = 1) -> Tensor:
        """E_q[log p(x | z)] by the mean over `samples` draws: [rows]"""
        codes = mean + deviation * torch.randn(samples, *mean.shape, device=mean.device, dtype=mean.dtype)
        return self.likelihood(batch, codes).mean(0)

    def elbo(self, batch: Any, samples: int = 1) -> Tensor:
        """The evidence lower bound with the divergence in closed form: [rows]"""
        mean, deviation = self.posterior(batch)
        return self.reconstruction(batch, mean, deviation, samples) - divergence(mean, deviation).sum(-1)

    def log_weights(self, batch: Any, samples: int) -> Tensor:
        """log w of `samples` draws from q(z | x): [samples, rows]"""
        mean, deviation = self.posterior(batch)
        noise = torch.randn(samples, *mean.shape, device=mean.device, dtype=mean.dtype)
        codes = mean + deviation * noise
        return self.likelihood(batch, codes) + log_ratio(noise, codes, deviation)

    def importance_bound(self, batch: Any, samples: int) -> Tensor:
        """The importance-weighted bound with k = `samples`: [rows]"""
        return self.log_weights(batch, samples).logsumexp(0) - math.log(samples)

    @torch.no_grad()
    def log_prob(self, batch: Any, samples: int) -> Tensor:
        """log p(x) by importance sampling from q(z | x), from below, close with thousands of samples: [rows]"""
        return self.in_parts(batch, samples, lambda part: self.log_weights(batch, part))

    def in_parts(self, batch: Any, samples: int, log_weights: Callable[[int], Tensor]) -> Tensor:
        """log of the mean of `samples` weights, as many at a time as memory allows."""
        at_once = max(1, AT_ONCE.get(batch.images.device.type, AT_ONCE["cpu"]) // batch.images.numel())
        total = torch.full((len(batch.images),), -math.inf, device=batch.images.device, dtype=torch.float64)
        for first in range(0, samples, at_once):
            part = log_weights(min(at_once, samples - first)).double().logsumexp(0)
            total = torch.logaddexp(total, part)
        return total - math.log(samples)


def normal_head(values: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation out of what a layer gives, [..., 2 size]: σ = exp(a / 2), or a softplus of a."""
    mean, raw = at_least_single(values).chunk(2, dim=-1)
    deviation = F.softplus(raw) if kind == "softplus" else torch.exp(0.5 * raw)
    return mean, deviation + SMALLEST


def log_ratio(noise: Tensor, codes: Tensor, deviation: Tensor) -> Tensor:
    """log p(z) - log q(z | x) of codes z = μ + σ ε: Σ -½ z² + ½ ε² + log σ, for the rest cancels."""
    return (0.5 * (noise.square() - codes.square()) + deviation.log()).sum(-1)


def divergence(mean: Tensor, deviation: Tensor) -> Tensor:
    """KL(N(μ, σ²) ‖ N(0, 1)) = ½ (μ² + σ² - 1 - log σ²), number by number."""
    return 0.5 * (mean.square() + deviation.square() - 1) - deviation.log()


def at_least_single(values: Tensor) -> Tensor:
    """What was computed in bfloat16 in single precision: sums over pixels and exponentials need it."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
