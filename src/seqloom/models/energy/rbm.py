"""Restricted Boltzmann machines."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from seqloom.config.schema.energy import RbmConfig
from seqloom.errors import UserError
from seqloom.models.energy.boltzmann import BoltzmannMachine
from seqloom.models.energy.units import BernoulliUnits, GaussianUnits, GaussianVisibleUnits, Hidden, Visible
from seqloom.models.network import Network

SPREAD = 0.01  # of the first weights (Hinton 2012)


class RestrictedBoltzmannMachine(Network):
    """Visible units v and hidden units h, with no connections within a layer (Smolensky 1986; Hinton 2002):

        E(v, h) = E_v(v) + E_h(h) - s(v)ᵀ W h,      p(v, h) = exp(-E(v, h)) / Z,
        F(v) = -log Σ_h exp(-E(v, h)),              p(v) = exp(-F(v)) / Z,

    where s(v) is v, or v/σ² of Gaussian visible units. Given one layer, the units of the other are independent.
    """

    def __init__(self, visible: Visible, hidden: Hidden) -> None:
        super().__init__()
        self.visible, self.hidden = visible, hidden
        self.base = deepcopy(visible).requires_grad_(False)
        """The visible units before learning, independent of one another: where chains and annealing begin."""
        self.weight = nn.Parameter(torch.randn(visible.size, hidden.size) * SPREAD)

    def hidden_drive(self, visible: Tensor) -> Tensor:
        """How the visible units drive the hidden ones: s(v)ᵀ W, [rows, hidden]."""
        return self.visible.scaled(visible) @ self.weight

    def visible_drive(self, hidden: Tensor) -> Tensor:
        """How the hidden units drive the visible ones: s(W h), [rows, visible]."""
        return self.visible.scaled(hidden @ self.weight.T)

    def energy(self, visible: Tensor, hidden: Tensor) -> Tensor:
        """E(v, h), [rows]"""
        together = (self.hidden_drive(visible) * hidden).sum(1)
        return self.visible.energy(visible) + self.hidden.energy(hidden) - together

    def free_energy(self, visible: Tensor) -> Tensor:
        """F(v), [rows]"""
        return self.visible.energy(visible) - self.hidden.cumulant(self.hidden_drive(visible))

    def log_prob(self, visible: Tensor, log_z: float) -> Tensor:
        """log p(v) = -F(v) - log Z, [rows]"""
        return -self.free_energy(visible).double() - log_z

    def hidden_mean(self, visible: Tensor) -> Tensor:
        """E[h | v]"""
        return self.hidden.mean(self.hidden_drive(visible))

    def visible_mean(self, hidden: Tensor) -> Tensor:
        """E[v | h]"""
        return self.visible.mean(self.visible_drive(hidden))

    def sample_hidden(self, visible: Tensor) -> Tensor:
        """h ~ p(h | v)"""
        return self.hidden.sample(self.hidden_mean(visible))

    def sample_visible(self, hidden: Tensor) -> Tensor:
        """v ~ p(v | h)"""
        return self.visible.sample(self.visible_mean(hidden))

    def gibbs(self, visible: Tensor, steps: int) -> Tensor:
        """Visible units after so many steps of Gibbs sampling, both layers each."""
        for _ in range(steps):
            visible = self.sample_visible(self.sample_hidden(visible))
        return visible

    def reconstruction(self, visible: Tensor) -> Tensor:
        """The mean of what comes back through one sample of the hidden units."""
        return self.visible_mean(self.sample_hidden(visible))

    def noise(self, rows: int) -> Tensor:
        """Visible units drawn from the base: each pixel as in the data, but independent of the others."""
        no_drive = torch.zeros(rows, self.base.size, device=self.device, dtype=self.weight.dtype)
        return self.base.sample(self.base.mean(no_drive))

    def general(self) -> BoltzmannMachine:
        """The same as a general machine, where all units are on or off: visible units first."""
        if type(self.visible) is not BernoulliUnits or type(self.hidden) is not BernoulliUnits:
            raise UserError("this needs a machine whose pixels and hidden units are on or off, and no others")
        units = self.visible.size + self.hidden.size
        weight, bias = self.weight.detach(), torch.cat([self.visible.bias, self.hidden.bias]).detach()
        square = weight.new_zeros(units, units)
        square[: self.visible.size, self.visible.size :] = weight
        made = BoltzmannMachine.of(square + square.T, bias, self.visible.size).to(weight.device)
        with torch.no_grad():
            made.base[: self.visible.size] = self.base.bias
        return made

    def pseudo_log_prob(self, visible: Tensor) -> Tensor:
        """An estimate of Σ_i log p(v_i | all other v), from one pixel of each row at random; for on-off pixels.

        It is cheap, and good for watching one training: it ranks CD-1 above PCD, whose likelihood is far better.
        """
        pixel = torch.randint(visible.size(1), (len(visible), 1), device=visible.device)
        flipped = visible.scatter(1, pixel, 1 - visible.gather(1, pixel))
        return visible.size(1) * logsigmoid(self.free_energy(flipped) - self.free_energy(visible))

    def contrast(self, data: tuple[Tensor, Tensor], model: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """The gradient of Σ F(data) - F(model), in closed form, by parameter.

        Each side is the visible units and E[h | v]. For the weights it is Σ s(v')ᵀ E[h | v'] - Σ s(v)ᵀ E[h | v].
        """
        drives: tuple[Tensor, Tensor] = (data[0], model[0])  # any: only Gaussian visible units look at them
        if isinstance(self.visible, GaussianVisibleUnits):
            drives = (self.visible_drive(data[1]), self.visible_drive(model[1]))
        by_layer = {
            "visible": self.visible.contrast(data[0], model[0], drives),
            "hidden": self.hidden.contrast(data[1], model[1], drives),
        }
        gradients = {f"{layer}.{name}": each for layer, own in by_layer.items() for name, each in own.items()}
        by_model = self.visible.scaled(model[0]).T @ model[1]
        gradients["weight"] = by_model.addmm_(self.visible.scaled(data[0]).T, data[1], alpha=-1)
        return gradients


def build_rbm(config: RbmConfig, mean: Tensor, variance: Tensor) -> RestrictedBoltzmannMachine:
    """The machine of a configuration, with fresh weights; its visible biases are those of independent pixels."""
    gaussian = config.visible == "gaussian"
    visible = GaussianVisibleUnits.fitted(mean, variance) if gaussian else BernoulliUnits.fitted(mean)
    nothing = torch.zeros(config.size)
    hidden = GaussianUnits(nothing) if config.hidden == "gaussian" else BernoulliUnits(nothing)
    return RestrictedBoltzmannMachine(visible, hidden)
