"""Deep belief networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn import functional as F

from seqloom.data.image_batches import ImageBatch
from seqloom.models.energy.draws import bernoulli
from seqloom.models.energy.rbm import RestrictedBoltzmannMachine
from seqloom.models.energy.units import (
    LEAST_LOG_VARIANCE,
    BernoulliUnits,
    GaussianVisibleUnits,
    LabelledUnits,
    Visible,
)
from seqloom.models.network import Network


class PixelLayer(nn.Module, ABC):
    """What pixels are, given what the layer over them says of each."""

    @abstractmethod
    def mean(self, said: Tensor) -> Tensor:
        """[rows, pixels]"""

    @abstractmethod
    def sample(self, mean: Tensor) -> Tensor:
        """Draw pixels of these means."""

    @abstractmethod
    def log_prob(self, said: Tensor, pixels: Tensor) -> Tensor:
        """[rows], in double precision."""

    @abstractmethod
    def units(self, inputs: Tensor) -> Visible:
        """Independent pixels with the distribution of inputs [rows, pixels]: the visible units of a first machine."""

    def take(self, units: Visible) -> None:
        """Take over what a trained machine knows of pixels, beside their biases."""


class OnOffPixels(PixelLayer):
    """1 with probability σ(a), 0 else."""

    def mean(self, said: Tensor) -> Tensor:
        return said.sigmoid()

    def sample(self, mean: Tensor) -> Tensor:
        return bernoulli(mean)

    def log_prob(self, said: Tensor, pixels: Tensor) -> Tensor:
        return _log_prob(said, pixels)

    def units(self, inputs: Tensor) -> BernoulliUnits:
        return BernoulliUnits.fitted(inputs.mean(0))


class NormalPixels(PixelLayer):
    """A brightness from N(a, σ²), with a variance of each pixel: those of a Gaussian-Bernoulli machine."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.log_variance = nn.Parameter(torch.zeros(size))

    def mean(self, said: Tensor) -> Tensor:
        return said

    def sample(self, mean: Tensor) -> Tensor:
        return mean + self._deviation * torch.randn_like(mean)

    def log_prob(self, said: Tensor, pixels: Tensor) -> Tensor:
        return Normal(said, self._deviation, validate_args=False).log_prob(pixels).sum(1).double()

    def units(self, inputs: Tensor) -> GaussianVisibleUnits:
        return GaussianVisibleUnits.fitted(inputs.mean(0), inputs.var(0, correction=0))

    @torch.no_grad()
    def take(self, units: Visible) -> None:
        assert isinstance(units, GaussianVisibleUnits)
        self.log_variance.copy_(units.log_variance)

    @property
    def _deviation(self) -> Tensor:
        return (self.log_variance.clamp(min=LEAST_LOG_VARIANCE) / 2).exp()


class DeepBeliefNetwork(Network):
    """Layers of on-off units over a restricted Boltzmann machine (Hinton, Osindero & Teh 2006):

        p(v, h¹, ..., hᴸ) = p(v | h¹) ... p(hᴸ⁻² | hᴸ⁻¹) p(hᴸ⁻¹, hᴸ),

    the last factor being the machine at the top. Downwards run the generative weights; upwards run those of
    recognition, q(h¹ | v) q(h² | h¹) ..., which begin as the same numbers and part in the up-down algorithm. Classes,
    where there are any, are visible units of the top machine. Pixels are on or off; or `normal`, and p is then a
    density of brightnesses (Hinton & Salakhutdinov 2006).
    """

    def __init__(self, sizes: list[int], classes: int = 0, normal: bool = False) -> None:
        super().__init__()
        pairs = list(pairwise(sizes[:-1]))
        own = sizes[0] if pairs else 0  # a single machine knows itself what its pixels are
        self.pixels = NormalPixels(own) if normal else OnOffPixels()
        self.recognition = nn.ModuleList(nn.Linear(below, above) for below, above in pairs)
        self.generation = nn.ModuleList(nn.Linear(above, below) for below, above in pairs)
        self.classes = classes
        self.top = self.fresh_machine(len(pairs), torch.full((1, sizes[-2]), 0.5), sizes[-1])

    def fresh_machine(self, layer: int, inputs: Tensor, hidden: int) -> RestrictedBoltzmannMachine:
        """A machine that has learned nothing; its visible units are as inputs [rows, units] are, classes left out."""
        visible: Visible
        if self.classes and layer == len(self.recognition):
            visible = LabelledUnits.fitted_with_labels(inputs.mean(0), self.classes)
        else:
            visible = self.pixels.units(inputs) if layer == 0 else BernoulliUnits.fitted(inputs.mean(0))
        return RestrictedBoltzmannMachine(visible, BernoulliUnits(torch.zeros(hidden)))

    @torch.no_grad()
    def take(self, layer: int, machine: RestrictedBoltzmannMachine) -> None:
        """Put a trained machine into its place; those above are left as they are."""
        if layer == len(self.recognition):
            self.top.load_state_dict(machine.state_dict())
            return
        up, down = _linear(self.recognition[layer]), _linear(self.generation[layer])
        up.weight.copy_(_upward(machine))
        up.bias.copy_(machine.hidden.bias)
        down.weight.copy_(machine.weight)
        down.bias.copy_(machine.visible.bias)
        if layer == 0:
            self.pixels.take(machine.visible)

    def rise(self, visible: Tensor, layers: int | None = None) -> list[Tensor]:
        """Samples of q, from the images up through so many layers: the images first."""
        samples = [visible]
        for layer in list(self.recognition)[:layers]:
            samples.append(bernoulli(layer(samples[-1]).sigmoid()))
        return samples

    def fall(self, features: Tensor) -> list[Tensor]:
        """Samples of p, from below the top machine down to the layer over the images: the highest first."""
        samples = [features]
        for layer in list(self.generation)[:0:-1]:
            samples.append(bernoulli(layer(samples[-1]).sigmoid()))
        return samples

    def picture(self, lowest: Tensor) -> Tensor:
        """The means of the pixels, given the layer over them."""
        return self.pixels.mean(self.generation[0](lowest))

    def joined(self, features: Tensor, labels: Tensor | None) -> Tensor:
        """What the top machine sees: features, and classes beside them where it knows any."""
        if not self.classes:
            return features
        assert labels is not None
        return torch.cat([features, F.one_hot(labels, self.classes).to(features.dtype)], 1)

    def draw(self, size: int, steps: int, labels: Tensor | None = None) -> Tensor:
        """Pixels (their means) of images: Gibbs sampling in the top machine from noise, and one pass down.

        With `labels`, the units of the classes are held at them.
        """
        visible = self._held(self.top.noise(size), labels)
        for _ in range(steps):
            hidden = self.top.sample_hidden(visible)
            last = self.top.visible_mean(hidden)
            visible = self._held(self.top.visible.sample(last), labels)
        if not len(self.generation):  # a single machine: pixels are its visible units
            return last[:, : last.size(1) - self.classes]
        return self.picture(self.fall(self._features(visible))[-1])

    def _held(self, visible: Tensor, labels: Tensor | None) -> Tensor:
        return visible if labels is None else self.joined(self._features(visible), labels)

    def _features(self, visible: Tensor) -> Tensor:
        return visible[:, : visible.size(1) - self.classes]

    def bound(self, visible: Tensor, log_z: float, samples: int = 1) -> Tensor:
        """A lower bound of log p(v), by samples of q: [rows], in double precision.

            log p(v) ≥ E_q[ Σ_l log p(hˡ⁻¹ | hˡ) - log q(hˡ | hˡ⁻¹)  +  log p(hᴸ⁻¹) ],

        where the last term is -F(hᴸ⁻¹) - log Z of the top machine, summed over its classes if it has any.
        """
        total = torch.zeros(len(visible), dtype=torch.float64, device=visible.device)
        for _ in range(samples):
            rising = self.rise(visible)
            for below, above, up in zip(rising, rising[1:], self.recognition, strict=False):
                total -= _log_prob(up(below), above)
            total += sum(self.given_above(rising))
            total += torch.logsumexp(-self._energies(rising[-1]).double(), 0)
        return total / samples - log_z

    def given_above(self, samples: list[Tensor]) -> list[Tensor]:
        """log p(hˡ⁻¹ | hˡ) of each layer given the one above it, the images first: [rows] each."""
        said = [down(above) for down, above in zip(self.generation, samples[1:], strict=True)]
        pixels = [self.pixels.log_prob(each, samples[0]) for each in said[:1]]
        return pixels + [_log_prob(each, below) for each, below in zip(said[1:], samples[1:], strict=False)]

    def means(self, visible: Tensor) -> list[Tensor]:
        """The means of each layer of hidden units, given those of the layer below: the lowest first.

        At the top the classes, where there are any, count as equally likely.
        """
        means = [visible]
        for layer in self.recognition:
            means.append(layer(means[-1]).sigmoid())
        even = visible.new_full((len(visible), self.classes), 1 / max(1, self.classes))
        return [*means[1:], self.top.hidden_mean(torch.cat([means[-1], even], 1))]

    def log_probs(self, visible: Tensor) -> Tensor:
        """log p of every class in the top machine, given means of the features: [rows, classes]."""
        for layer in self.recognition:
            visible = layer(visible).sigmoid()
        return F.log_softmax(-self._energies(visible).T, 1)

    def _energies(self, features: Tensor) -> Tensor:
        """Free energies of the top machine, [classes, rows]; a single row of them where it has no classes."""
        if not self.classes:
            return self.top.free_energy(features).unsqueeze(0)
        numbers = torch.arange(self.classes, device=features.device)
        return torch.stack(
            [self.top.free_energy(self.joined(features, number.expand(len(features)))) for number in numbers]
        )


class DeepClassifier(nn.Module):
    """p(class | image): the layers of a network, upwards, and a softmax; fine-tuned by back-propagation."""

    def __init__(self, sizes: list[int], classes: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(below, above) for below, above in pairwise(sizes))
        self.output = nn.Linear(sizes[-1], classes)
        self.dropout = nn.Dropout(dropout)

    @torch.no_grad()
    def begin_with(self, network: DeepBeliefNetwork) -> None:
        """Take the weights of a trained network."""
        for mine, theirs in zip(self.layers, network.recognition, strict=False):
            mine.load_state_dict(theirs.state_dict())
        last = _linear(self.layers[-1])
        last.weight.copy_(_upward(network.top)[:, : last.in_features])
        last.bias.copy_(network.top.hidden.bias)
        self.output.weight.mul_(0.1)  # what is learned already should not be washed away by a random output

    def means(self, images: Tensor) -> list[Tensor]:
        """What each layer gives, the lowest first: [rows, units]."""
        values = [images.flatten(1)]
        for layer in self.layers:
            values.append(self.dropout(layer(values[-1]).sigmoid()))
        return values[1:]

    def log_probs(self, images: Tensor) -> Tensor:
        """log p of every class, [rows, classes]."""
        return F.log_softmax(self.output(self.means(images)[-1]), 1)

    def loss(self, batch: ImageBatch) -> Tensor:
        """-log p of the classes, summed over the images."""
        assert batch.labels is not None
        return F.nll_loss(self.log_probs(batch.images), batch.labels, reduction="sum")


def layer_machine(network: DeepBeliefNetwork, layer: int, inputs: Tensor) -> RestrictedBoltzmannMachine:
    """A machine for a place in a network, where it will see such inputs [rows, units]; classes are left out.

    Where it has hidden units enough, it begins as the machine below turned over: with the transposed weights, what
    were visible units below are hidden units here. It then gives its inputs the same probabilities as the machine
    below, so that the bound of the network begins at the likelihood reached, and learning can only raise it (Hinton et
    al. 2006, §4). Normal pixels cannot become hidden units, which are on or off.
    """
    at_top = layer == len(network.recognition)
    hidden = network.top.hidden.size if at_top else _linear(network.recognition[layer]).out_features
    machine = network.fresh_machine(layer, inputs, hidden)
    if layer > 1 or (layer == 1 and isinstance(network.pixels, OnOffPixels)):
        up, down = _linear(network.recognition[layer - 1]), _linear(network.generation[layer - 1])
        if down.out_features <= hidden:
            _turn_over(machine, up, down)
    return machine


@torch.no_grad()
def _turn_over(machine: RestrictedBoltzmannMachine, up: nn.Linear, down: nn.Linear) -> None:
    """Begin as the machine below whose weights these are; further hidden units are left as they are."""
    features, pixels = up.out_features, down.out_features
    machine.weight[:features, :pixels] = up.weight.cpu()
    machine.visible.bias[:features] = up.bias.cpu()
    machine.hidden.bias[:pixels] = down.bias.cpu()


def _upward(machine: RestrictedBoltzmannMachine) -> Tensor:
    """What a machine's visible units drive its hidden ones by, [hidden, visible]: W, or W/σ² of Gaussian pixels."""
    return machine.visible.scaled(machine.weight.T)


def _linear(layer: nn.Module) -> nn.Linear:
    assert isinstance(layer, nn.Linear)
    return layer


def _log_prob(logits: Tensor, values: Tensor) -> Tensor:
    """log p of on-off units, [rows]."""
    return -F.binary_cross_entropy_with_logits(logits, values, reduction="none").sum(1).double()
