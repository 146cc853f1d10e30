"""What theory says of adversarial training, on toys whose densities are known.

All densities p (real) and q (made) are torch distributions over the line; expectations over them are sums over a fine
grid, so that what is compared with theory carries no noise of sampling. Modes are counted in the plane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution, MixtureSameFamily, Normal

from seqloom.models.adversarial.losses import GeneratorLoss, discriminator_loss, generator_loss

GRID = 4001  # points that an integral is a sum over
REACH = 8.0  # standard deviations of a normal density that a grid covers
STARTS = 9  # places from which a fit sets out
NEAR = 3.0  # standard deviations of a mode within which a point belongs to it


# --------------------------------------------------------------------------------------------- densities on the line


def mixture(means: Sequence[float], deviation: float = 1.0, weights: Sequence[float] | None = None) -> Distribution:
    """A mixture of normal densities of one width."""
    chances = torch.tensor(weights or [1.0] * len(means), dtype=torch.float64)
    places = torch.tensor(means, dtype=torch.float64)
    return MixtureSameFamily(Categorical(chances), Normal(places, torch.full_like(places, deviation)))


# ---------------------------------------------------------------------------------------- the best discriminator


def best_discriminator(real: Distribution, made: Distribution, points: Tensor) -> Tensor:
    """D*(x) = p(x) / (p(x) + q(x)), the best answer to a fixed generator (Goodfellow et al. 2014, proposition 1)."""
    return _best_logits(real, made, points).sigmoid()


def _best_logits(real: Distribution, made: Distribution, points: Tensor) -> Tensor:
    return real.log_prob(points) - made.log_prob(points)


def train_discriminator(
    real: Distribution, made: Distribution, steps: int = 1500, batch: int = 512, seed: int = 0
) -> Callable[[Tensor], Tensor]:
    """D(x) of a small network that learned from samples alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
        fading = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for _ in range(steps):
            drawn = [density.sample((batch, 1)).float() for density in (real, made)]
            optimizer.zero_grad()
            discriminator_loss(network(drawn[0]), network(drawn[1])).mean().backward()
            optimizer.step()
            fading.step()
    return lambda points: network(points.float().unsqueeze(-1)).squeeze(-1).sigmoid().detach()


def game_value(real: Distribution, made: Distribution, discriminator: Callable[[Tensor], Tensor]) -> float:
    """V(D) = E_p log D(x) + E_q log(1 - D(x))."""
    points, width = _grid(real, made)
    chances = discriminator(points).double().clamp(1e-300, 1 - 1e-16)
    return _integral(real, chances.log(), points, width) + _integral(made, (-chances).log1p(), points, width)


def jensen_shannon(real: Distribution, made: Distribution) -> float:
    """JS(p ‖ q) = KL(p ‖ m) / 2 + KL(q ‖ m) / 2 with m = (p + q) / 2, in nats; log 2 when supports do not meet."""
    points, width = _grid(real, made)
    logs = real.log_prob(points), made.log_prob(points)
    middle = torch.logaddexp(*logs) - math.log(2)
    return sum(_integral(p, log - middle, points, width) for p, log in zip((real, made), logs, strict=True)) / 2


# ------------------------------------------------------------------------------------------- vanishing gradients


def generator_gradient(distance: float, loss: GeneratorLoss, deviation: float = 1.0) -> float:
    """|d E loss / d shift| of a generator that is `distance` away from the data, against the best discriminator.

    Data are N(0, σ²), and G(z) = distance + σ z. Where the supports hardly meet D* is sure, and log(1 - D*) flat: the
    minimax gradient dies about as exp(-distance² / 8σ²). That of -log D* is what the other lacks of distance / σ².
    """
    real, made = mixture([0.0], deviation), mixture([distance], deviation)
    points, width = _grid(made)
    points.requires_grad_()
    losses = generator_loss(_best_logits(real, made, points), loss)
    (slopes,) = torch.autograd.grad(losses.sum(), points)
    points = points.detach()
    return abs(_integral(made, slopes, points, width))


# ------------------------------------------------------------------------------------------ covering and seeking


def covering_fit(real: Distribution) -> Normal:
    """The normal q that minimises KL(p ‖ q): mean and variance of p. It covers all modes, and what is between them."""
    points, width = _grid(real)
    mean = _integral(real, points, points, width)
    variance = _integral(real, (points - mean) ** 2, points, width)
    return Normal(torch.tensor(mean), torch.tensor(math.sqrt(variance)))


def seeking_fit(real: Distribution, steps: int = 500) -> Normal:
    """The normal q that minimises KL(q ‖ p): it settles on one mode, and leaves out the rest.

    Found by descent from many places at once, for there are minima that are not the lowest; the expectation over q is
    Gauss-Hermite quadrature.
    """
    nodes, weights = (torch.from_numpy(each) for each in np.polynomial.hermite_e.hermegauss(101))
    weights = weights / weights.sum()
    means = (real.mean + real.stddev * torch.linspace(-2, 2, STARTS, dtype=torch.float64)).requires_grad_()
    log_deviations = torch.zeros(STARTS, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([means, log_deviations], lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        points = means[:, None] + log_deviations.exp()[:, None] * nodes
        divergences = -log_deviations - real.log_prob(points) @ weights  # but for a constant
        divergences.sum().backward()
        optimizer.step()
    best = divergences.argmin()
    return Normal(means[best].detach(), log_deviations[best].detach().exp())


# ------------------------------------------------------------------------------------------------- modes covered


@dataclass(frozen=True)
class ModeCoverage:
    """How points spread over the modes of a mixture."""

    counts: NDArray[np.int64]
    """Points within three standard deviations of each mode."""
    points: int

    @property
    def covered(self) -> int:
        """Modes with a point."""
        return int((self.counts > 0).sum())

    @property
    def quality(self) -> float:
        """The share of points that belong to a mode."""
        return float(self.counts.sum() / self.points)


def mode_coverage(points: NDArray[np.floating], centres: NDArray[np.floating], deviation: float) -> ModeCoverage:
    """Count points [points, 2] at modes [modes, 2]; one further than 3σ from every mode belongs to none (Srivastava et
    al. 2017).
    """
    distances = np.linalg.norm(points[:, None] - centres, axis=2)
    nearest = distances.argmin(1)
    near = distances.min(1) <= NEAR * deviation
    return ModeCoverage(np.bincount(nearest[near], minlength=len(centres)), len(points))


def grid_centres(side: int = 5, half: float = 0.8) -> NDArray[np.float64]:
    """Modes on a square grid from -half to half, [side², 2]."""
    line = np.linspace(-half, half, side)
    return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)


def ring_centres(modes: int = 8, radius: float = 0.8) -> NDArray[np.float64]:
    """Modes on a circle, [modes, 2]."""
    angles = 2 * np.pi * np.arange(modes) / modes
    return radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)


# -------------------------------------------------------------------------------------------------------- integrals


def _grid(*densities: Distribution) -> tuple[Tensor, float]:
    """Points that cover all densities, and how far apart they are."""
    ends = []
    for density in densities:
        middle, width = float(density.mean), float(density.stddev)
        ends += [middle - REACH * width, middle + REACH * width]
    points = torch.linspace(min(ends), max(ends), GRID, dtype=torch.float64)
    return points, float(points[1] - points[0])


def _integral(density: Distribution, values: Tensor, points: Tensor, width: float) -> float:
    """E f(x) under a density, from f on the grid."""
    return float((density.log_prob(points).exp() * values).sum() * width)
