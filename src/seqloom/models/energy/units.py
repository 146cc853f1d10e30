"""The units of restricted Boltzmann machines: what they may be, and how they answer to the other layer.

A layer has an energy of its own, E(x). The other layer drives it: it adds a number i to the bias of each unit, and the
energy becomes E(x) - i·x. The mean of the layer, samples of it, and its cumulant log Σ_x exp(-E(x) + i·x) follow from
this drive i.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.models.energy.draws import bernoulli

LEAST_MEAN = 0.002  # a pixel that was never on may be on yet
LEAST_LOG_VARIANCE = -6.0  # a pixel that never changes would have a density without bound


class Layer(nn.Module, ABC):
    """A layer of units, each with a bias."""

    def __init__(self, bias: Tensor) -> None:
        super().__init__()
        self.bias = nn.Parameter(bias)

    @property
    def size(self) -> int:
        """How many units there are."""
        return len(self.bias)

    @abstractmethod
    def energy(self, values: Tensor) -> Tensor:
        """[rows]: the energy of the layer by itself."""

    @abstractmethod
    def mean(self, drive: Tensor) -> Tensor:
        """[rows, units]: the mean of each unit under a drive [rows, units]."""

    @abstractmethod
    def sample(self, mean: Tensor) -> Tensor:
        """Draw units of these means."""

    @abstractmethod
    def cumulant(self, drive: Tensor) -> Tensor:
        """[rows]: log Σ exp(-E(x) + drive·x), over all values that the layer may have."""

    def scaled(self, values: Tensor) -> Tensor:
        """What the other layer sees of the values."""
        return values

    def contrast(self, data: Tensor, model: Tensor, drives: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """The gradient of Σ F(data) - F(model) by parameter; `drives` are those of the layer in both."""
        return {"bias": model.sum(0) - data.sum(0)}


class BernoulliUnits(Layer):
    """On or off: E(x) = -Σ_i b_i x_i, so p(x_i = 1) = σ(b_i + drive_i)."""

    @staticmethod
    def fitted(mean: Tensor) -> BernoulliUnits:
        """Units that are on as often as in the data."""
        return BernoulliUnits(torch.logit(mean, eps=LEAST_MEAN))

    def energy(self, values: Tensor) -> Tensor:
        """-Σ b x"""
        return -(values @ self.bias)

    def mean(self, drive: Tensor) -> Tensor:
        """σ(b + drive)"""
        return (drive + self.bias).sigmoid_()

    def sample(self, mean: Tensor) -> Tensor:
        """On with the chance `mean`."""
        return bernoulli(mean)

    def cumulant(self, drive: Tensor) -> Tensor:
        """Σ log(1 + exp(b + drive))"""
        return F.softplus(drive + self.bias).sum(1)

    def between(self, base: Layer, part: float) -> BernoulliUnits:
        """Units on the way from `base` (part 0) to these (part 1)."""
        return BernoulliUnits(torch.lerp(base.bias, self.bias, part))

    def weakened(self, part: float) -> BernoulliUnits:
        """Units with a part of the bias."""
        return BernoulliUnits(self.bias * part)


class LabelledUnits(BernoulliUnits):
    """Units that are on or off, and after them, one for each class, of which exactly one is on (Hinton et al. 2006)."""

    def __init__(self, bias: Tensor, classes: int) -> None:
        super().__init__(bias)
        self.classes = classes

    @staticmethod
    def fitted_with_labels(mean: Tensor, classes: int) -> LabelledUnits:
        """Units that are on as often as in the data, and classes that are equally frequent."""
        return LabelledUnits(torch.cat([torch.logit(mean, eps=LEAST_MEAN), torch.zeros(classes)]), classes)

    def mean(self, drive: Tensor) -> Tensor:
        """σ(b + drive), and a softmax over the classes."""
        features, labels = self._parts(drive + self.bias)
        return torch.cat([features.sigmoid(), labels.softmax(1)], 1)

    def sample(self, mean: Tensor) -> Tensor:
        """Units on with the chance `mean`, and one class."""
        features, labels = self._parts(mean)
        chosen = torch.multinomial(labels, 1).squeeze(1)
        return torch.cat([bernoulli(features), F.one_hot(chosen, self.classes).to(mean.dtype)], 1)

    def cumulant(self, drive: Tensor) -> Tensor:
        """Σ log(1 + exp(b + drive)) + log Σ_classes exp(b + drive)"""
        features, labels = self._parts(drive + self.bias)
        return F.softplus(features).sum(1) + labels.logsumexp(1)

    def between(self, base: Layer, part: float) -> LabelledUnits:
        """Units on the way from `base` (part 0) to these (part 1)."""
        return LabelledUnits(torch.lerp(base.bias, self.bias, part), self.classes)

    def _parts(self, values: Tensor) -> tuple[Tensor, Tensor]:
        features, labels = values.split([self.size - self.classes, self.classes], 1)
        return features, labels


class GaussianUnits(Layer):
    """A real number of variance 1: E(x) = Σ_j x_j²/2 - b_j x_j, so x_j ~ N(b_j + drive_j, 1)."""

    def energy(self, values: Tensor) -> Tensor:
        """Σ x²/2 - b x"""
        return values.square().sum(1) / 2 - values @ self.bias

    def mean(self, drive: Tensor) -> Tensor:
        """b + drive"""
        return drive + self.bias

    def sample(self, mean: Tensor) -> Tensor:
        """Normal numbers around `mean`."""
        return mean + torch.randn_like(mean)

    def cumulant(self, drive: Tensor) -> Tensor:
        """Σ (b + drive)²/2 + log √2π"""
        return (drive + self.bias).square().sum(1) / 2 + self.size * math.log(2 * math.pi) / 2

    def weakened(self, part: float) -> GaussianUnits:
        """Units with a part of the bias."""
        return GaussianUnits(self.bias * part)


class GaussianVisibleUnits(Layer):
    """A brightness with a learned variance: E(x) = Σ_i (x_i - b_i)²/(2σ_i²), and the other layer sees x_i/σ_i²
    (Cho et al. 2011). Under a drive i, x ~ N(b + σ² i, σ²). What is learned is log σ², which has a floor."""

    def __init__(self, bias: Tensor, log_variance: Tensor) -> None:
        super().__init__(bias)
        self.log_variance = nn.Parameter(log_variance)

    @staticmethod
    def fitted(mean: Tensor, variance: Tensor) -> GaussianVisibleUnits:
        """Pixels with the means and variances of the data."""
        return GaussianVisibleUnits(mean, variance.log().clamp(min=LEAST_LOG_VARIANCE))

    @property
    def variance(self) -> Tensor:
        """σ², [units]"""
        return self.log_variance.clamp(min=LEAST_LOG_VARIANCE).exp()

    def scaled(self, values: Tensor) -> Tensor:
        """x/σ²"""
        return values / self.variance

    def energy(self, values: Tensor) -> Tensor:
        """Σ (x - b)²/(2σ²)"""
        return ((values - self.bias).square() / (2 * self.variance)).sum(1)

    def mean(self, drive: Tensor) -> Tensor:
        """b + σ² drive"""
        return self.bias + self.variance * drive

    def sample(self, mean: Tensor) -> Tensor:
        """Normal numbers of variance σ² around `mean`."""
        return mean + self.variance.sqrt() * torch.randn_like(mean)

    def cumulant(self, drive: Tensor) -> Tensor:
        """Σ b drive + σ² drive²/2 + log √(2πσ²)"""
        normaliser = (2 * math.pi * self.variance).log().sum() / 2
        return drive @ self.bias + (drive.square() * self.variance).sum(1) / 2 + normaliser

    def between(self, base: Layer, part: float) -> GaussianVisibleUnits:
        """Units whose precision, and precision times mean, lie on the way from `base` (part 0) to these (part 1)."""
        assert isinstance(base, GaussianVisibleUnits)
        precision = torch.lerp(1 / base.variance, 1 / self.variance, part)
        mean = torch.lerp(base.bias / base.variance, self.bias / self.variance, part) / precision
        return GaussianVisibleUnits(mean, -precision.log())

    def contrast(self, data: Tensor, model: Tensor, drives: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """∂F/∂b = -(x - b)/σ²;  ∂F/∂log σ² = x·drive - (x - b)²/(2σ²), where log σ² is above its floor."""
        precision = 1 / self.variance
        by_variance = [
            (values * drive).sum(0) - (values - self.bias).square().sum(0) * precision / 2
            for values, drive in zip((data, model), drives, strict=True)
        ]
        free = self.log_variance >= LEAST_LOG_VARIANCE
        return {
            "bias": (model.sum(0) - data.sum(0)) * precision,
            "log_variance": (by_variance[0] - by_variance[1]) * free,
        }


Visible = BernoulliUnits | LabelledUnits | GaussianVisibleUnits
Hidden = BernoulliUnits | GaussianUnits
