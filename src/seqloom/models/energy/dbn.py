"""Deep belief networks."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.data.image_batches import ImageBatch
from seqloom.models.energy.draws import bernoulli
from seqloom.models.energy.rbm import RestrictedBoltzmannMachine
from seqloom.models.energy.units import BernoulliUnits, LabelledUnits
from seqloom.models.network import Network


class DeepBeliefNetwork(Network):
    """Layers of on-off units over a restricted Boltzmann machine (Hinton, Osindero & Teh 2006):

        p(v, h¹, ..., hᴸ) = p(v | h¹) ... p(hᴸ⁻² | hᴸ⁻¹) p(hᴸ⁻¹, hᴸ),

    the last factor being the machine at the top. Downwards run the generative weights; upwards run those of
    recognition, q(h¹ | v) q(h² | h¹) ..., which begin as the same numbers and part in the up-down algorithm. Classes,
    where there are any, are visible units of the top machine.
    """

    def __init__(self, sizes: list[int], classes: int = 0) -> None:
        super().__init__()
        pairs = list(pairwise(sizes[:-1]))
        self.recognition = nn.ModuleList(nn.Linear(below, above) for below, above in pairs)
        self.generation = nn.ModuleList(nn.Linear(above, below) for below, above in pairs)
        self.classes = classes
        nothing = torch.zeros(sizes[-2] + classes)
        units = LabelledUnits(nothing, classes) if classes else BernoulliUnits(nothing)
        self.top = RestrictedBoltzmannMachine(units, BernoulliUnits(torch.zeros(sizes[-1])))

    @torch.no_grad()
    def take(self, layer: int, machine: RestrictedBoltzmannMachine) -> None:
        """Put a trained machine into its place; those above are left as they are."""
        if layer == len(self.recognition):
            self.top.load_state_dict(machine.state_dict())
            return
        up, down = _linear(self.recognition[layer]), _linear(self.generation[layer])
        up.weight.copy_(machine.weight.T)
        up.bias.copy_(machine.hidden.bias)
        down.weight.copy_(machine.weight)
        down.bias.copy_(machine.visible.bias)

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
        return self.generation[0](lowest).sigmoid()

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
            for below, above, up, down in zip(rising, rising[1:], self.recognition, self.generation, strict=False):
                total += _log_prob(down(above), below) - _log_prob(up(below), above)
            total += torch.logsumexp(-self._energies(rising[-1]).double(), 0)
        return total / samples - log_z

    def predict(self, visible: Tensor) -> Tensor:
        """The class of the lowest free energy in the top machine, given means of the features: [rows]."""
        for layer in self.recognition:
            visible = layer(visible).sigmoid()
        return self._energies(visible).argmin(0)

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
        last.weight.copy_(network.top.weight[: last.in_features].T)
        last.bias.copy_(network.top.hidden.bias)
        self.output.weight.mul_(0.1)  # what is learned already should not be washed away by a random output

    def log_probs(self, images: Tensor) -> Tensor:
        """log p of every class, [rows, classes]."""
        values = images.flatten(1)
        for layer in self.layers:
            values = self.dropout(layer(values).sigmoid())
        return F.log_softmax(self.output(values), 1)

    def loss(self, batch: ImageBatch) -> Tensor:
        """-log p of the classes, summed over the images."""
        assert batch.labels is not None
        return F.nll_loss(self.log_probs(batch.images), batch.labels, reduction="sum")


def layer_machine(network: DeepBeliefNetwork, layer: int, mean: Tensor) -> RestrictedBoltzmannMachine:
    """A fresh machine for a place in a network; `mean` is that of its inputs, classes left out.

    Where it has hidden units enough, it begins as the machine below turned over: with the transposed weights, what
    were visible units below are hidden units here. It then gives its inputs the same probabilities as the machine
    below, so that the bound of the network begins at the likelihood reached, and learning can only raise it (Hinton et
    al. 2006, §4).
    """
    at_top = layer == len(network.recognition)
    hidden = network.top.hidden.size if at_top else _linear(network.recognition[layer]).out_features
    labelled = at_top and network.classes > 0
    visible = LabelledUnits.fitted_with_labels(mean, network.classes) if labelled else BernoulliUnits.fitted(mean)
    machine = RestrictedBoltzmannMachine(visible, BernoulliUnits(torch.zeros(hidden)))
    if layer:
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


def _linear(layer: nn.Module) -> nn.Linear:
    assert isinstance(layer, nn.Linear)
    return layer


def _log_prob(logits: Tensor, values: Tensor) -> Tensor:
    """log p of on-off units, [rows]."""
    return -F.binary_cross_entropy_with_logits(logits, values, reduction="none").sum(1).double()
