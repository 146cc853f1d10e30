"""The normaliser Z of a restricted Boltzmann machine: summed where a layer is small, else estimated."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from seqloom.models.energy.boltzmann import MOST_SUMMED, BoltzmannMachine, all_states, sweep
from seqloom.models.energy.rbm import RestrictedBoltzmannMachine
from seqloom.models.energy.units import BernoulliUnits, LabelledUnits, Layer
from seqloom.progress import watched

AT_ONCE = 4096  # terms in memory together
DEVIATIONS = 3  # how wide the error bars are (Salakhutdinov & Murray 2008)


@dataclass(frozen=True)
class Normaliser:
    """log Z, and between which bounds it lies."""

    log_z: float
    low: float
    """Three standard deviations of the mean weight below; where that is below nothing, the mean of log w, which by
    Jensen's inequality lies below log Z on average."""
    high: float
    method: str
    """How it was found, in a form to publish. By annealing, it says how many chains count, (Σ w)² / Σ w²: where few
    outweigh all others, the bars mean nothing."""

    def as_dict(self) -> dict[str, float | str]:
        """For JSON."""
        return asdict(self)


def normaliser(machine: RestrictedBoltzmannMachine, chains: int = 100, steps: int = 10_000) -> Normaliser:
    """log Z exactly if a layer of on-off units is small enough, else by annealed importance sampling."""
    if summable(machine):
        value = exact_log_z(machine)
        return Normaliser(value, value, value, "log Z exact")
    return annealed_log_z(machine, chains, steps)


# ------------------------------------------------------------------------------------------------------- summing


def exact_log_z(machine: RestrictedBoltzmannMachine) -> float:
    """log Σ_h exp(-E_h(h)) Σ_v exp(-E_v(v) + ...): the smaller layer term by term, the other in closed form."""
    machine = deepcopy(machine).double()
    by_hidden = _few(machine.hidden)
    size = machine.hidden.size if by_hidden else machine.visible.size
    parts = []
    with torch.inference_mode():
        for first in range(0, 2**size, AT_ONCE):
            states = all_states(size, first, min(2**size, first + AT_ONCE)).to(machine.device)
            if by_hidden:
                terms = machine.visible.cumulant(machine.visible_drive(states)) - machine.hidden.energy(states)
            else:
                terms = -machine.free_energy(states)
            parts.append(terms.logsumexp(0))
    return float(torch.stack(parts).logsumexp(0))


def summable(machine: RestrictedBoltzmannMachine) -> bool:
    """Whether a layer of on-off units is small enough for all its states."""
    return _few(machine.hidden) or _few(machine.visible)


def _few(units: Layer) -> bool:
    on_off = isinstance(units, BernoulliUnits) and not isinstance(units, LabelledUnits)
    return on_off and units.size <= MOST_SUMMED


# ----------------------------------------------------------------------------------------------------- annealing


class _Between:
    """A machine on the way from its base (part 0) to itself (part 1).

    Weights and hidden biases are so much of the machine's; visible units lie in between.
    """

    def __init__(self, machine: RestrictedBoltzmannMachine, part: float) -> None:
        self.machine, self.part = machine, part
        self.visible, self.hidden = machine.visible.between(machine.base, part), machine.hidden.weakened(part)

    def free_energy(self, visible: Tensor, drive: Tensor) -> Tensor:
        """F_β(v), [rows], in double precision; `drive` is that of the hidden units in the whole machine."""
        return (self.visible.energy(visible) - self.hidden.cumulant(self.part * drive)).double()

    def step(self, drive: Tensor) -> Tensor:
        """Visible units after a step of Gibbs sampling."""
        hidden = self.hidden.sample(self.hidden.mean(self.part * drive))
        return self.visible.sample(self.visible.mean(self.part * self.machine.visible_drive(hidden)))

    def log_z_at_base(self) -> float:
        """log Z₀: no layer drives the other."""
        layers = (self.visible, self.hidden)
        visible, hidden = (layer.cumulant(self.machine.weight.new_zeros(1, layer.size)) for layer in layers)
        return float((visible + hidden).double())


@torch.inference_mode()
def annealed_log_z(machine: RestrictedBoltzmannMachine, chains: int = 100, steps: int = 10_000) -> Normaliser:
    """Annealed importance sampling (Neal 2001; Salakhutdinov & Murray 2008).

    Between the base, where pixels are independent and Z₀ is known, and the machine lie distributions p_β, 0 ≤ β ≤ 1.
    Each chain starts at the base, and passes through all of them by one step of Gibbs sampling each; with v_k where it
    stood,

        log w = Σ_k F_{β_k}(v_k) - F_{β_{k+1}}(v_k),      Z = Z₀ E[w].

    The bars are the mean of w, three standard deviations of the mean up and down. Where all chains miss the same part
    of the distribution, log Z is too low and the bars do not show it: `log_z_above` does.
    """
    here = _Between(machine, 0.0)
    start, weights = here.log_z_at_base(), torch.zeros(chains, dtype=torch.float64, device=machine.device)
    visible = machine.noise(chains)
    drive = machine.hidden_drive(visible)
    for part in watched(temperatures(steps)[1:], "annealing", steps):
        warmer, here = here, _Between(machine, part)
        weights += warmer.free_energy(visible, drive) - here.free_energy(visible, drive)
        visible = here.step(drive)
        drive = machine.hidden_drive(visible)
    return _estimate(weights.cpu(), start, f"log Z by annealing, {chains} chains × {steps} steps")


@torch.inference_mode()
def log_z_above(machine: RestrictedBoltzmannMachine, images: Tensor, steps: int = 10_000) -> float:
    """log Z from above: exact if it can be summed, else by annealing from images back to the base.

    The mean of log w over paths that begin at images. Forward annealing is itself a distribution f of images, one that
    can be sampled, and over images of any origin (Burda, Grosse & Salakhutdinov 2015)

        E[-F(v) - log Z₀w] ≤ E[log f(v)],

    so that a likelihood with this log Z is never better than that of a distribution that exists. It is too low by how
    far annealing is from equilibrium; an estimate by annealing forward is too high by that. Where both agree, so does
    the truth. Only chains that begin at images can show that chains from the base do not find them.
    """
    if summable(machine):
        return exact_log_z(machine)
    here = _Between(machine, 1.0)
    weights = torch.zeros(len(images), dtype=torch.float64, device=machine.device)
    drive = machine.hidden_drive(images)
    for part in watched(reversed(temperatures(steps)[:-1]), "annealing back", steps):
        visible = here.step(drive)
        drive = machine.hidden_drive(visible)
        colder, here = here, _Between(machine, part)
        weights += here.free_energy(visible, drive) - colder.free_energy(visible, drive)
    return float(weights.mean()) + here.log_z_at_base()


def temperatures(steps: int) -> list[float]:
    """β = 1 - (1 - t)² for t from 0 to 1: the closer to the machine, the smaller the steps."""
    return [1 - (1 - step / steps) ** 2 for step in range(steps + 1)]


def _estimate(weights: Tensor, start: float, method: str) -> Normaliser:
    largest = weights.max()
    relative = (weights - largest).exp()
    mean = float(relative.mean())
    error = DEVIATIONS * float(relative.std()) / math.sqrt(len(weights)) if len(weights) > 1 else math.inf
    shift = start + float(largest)
    low = shift + math.log(mean - error) if mean > error else start + float(weights.mean())
    counting = float(relative.sum().square() / relative.square().sum())
    method = f"{method}, of which {counting:.0f} count"
    return Normaliser(shift + math.log(mean), low, shift + math.log(mean + error), method)


@torch.inference_mode()
def boltzmann_log_z(machine: BoltzmannMachine, chains: int = 100, steps: int = 1000) -> Normaliser:
    """log Z of a general Boltzmann machine: summed where its units are few, else by the same annealing.

    Between independent units and the machine, weights are β times the machine's and biases lie in between.
    """
    if machine.units <= MOST_SUMMED:
        value = machine.log_z()
        return Normaliser(value, value, value, "log Z exact")
    weights = torch.zeros(chains, dtype=torch.float64, device=machine.device)
    states, coupling = machine.noise(chains), machine.weight
    before = 0.0
    for beta in watched(temperatures(steps)[1:], "annealing", steps):
        difference = machine.energy(states) + states @ machine.base  # E₁ - E₀
        weights -= (beta - before) * difference.double()
        bias = torch.lerp(machine.base, machine.bias, beta)
        states = sweep(states, beta * coupling, bias, machine.blocks, 1)
        before = beta
    start = float(softplus(machine.base.double()).sum())
    return _estimate(weights.cpu(), start, f"log Z by annealing, {chains} chains × {steps} steps")
