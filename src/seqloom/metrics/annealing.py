"""The normaliser Z of a restricted Boltzmann machine: summed where a layer is small, else estimated."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from seqloom.models.energy import BernoulliUnits, BoltzmannMachine, LabelledUnits, RestrictedBoltzmannMachine
from seqloom.models.energy.boltzmann import MOST_SUMMED, sweep

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
    """How it was found, in a form to publish."""

    def as_dict(self) -> dict[str, float | str]:
        """For JSON."""
        return asdict(self)


def normaliser(machine: RestrictedBoltzmannMachine, chains: int = 100, steps: int = 10_000) -> Normaliser:
    """log Z exactly if a layer of on-off units is small enough, else by annealed importance sampling."""
    if _summable(machine):
        value = exact_log_z(machine)
        return Normaliser(value, value, value, "log Z exact")
    return annealed_log_z(machine, chains, steps)


# ------------------------------------------------------------------------------------------------------- summing


def exact_log_z(machine: RestrictedBoltzmannMachine) -> float:
    """log Σ_h exp(-E_h(h)) Σ_v exp(-E_v(v) + ...): the smaller layer term by term, the other in closed form."""
    machine = deepcopy(machine).double()
    by_hidden = isinstance(machine.hidden, BernoulliUnits) and machine.hidden.size <= MOST_SUMMED
    size = machine.hidden.size if by_hidden else machine.visible.size
    parts = []
    with torch.inference_mode():
        for first in range(0, 2**size, AT_ONCE):
            states = all_states(size, first, min(2**size, first + AT_ONCE)).to(machine.device)
            if by_hidden:
                told = machine.tell_visible(states)
                terms = machine.visible.cumulant(told) - machine.hidden.energy(states)
            else:
                terms = -machine.free_energy(states)
            parts.append(terms.logsumexp(0))
    return float(torch.stack(parts).logsumexp(0))


def all_states(units: int, first: int = 0, last: int | None = None) -> Tensor:
    """The states of so many on-off units, counted in binary from `first` up to `last`: [states, units]."""
    numbers = torch.arange(first, 2**units if last is None else last)
    return (numbers.unsqueeze(1) >> torch.arange(units) & 1).double()


def _summable(machine: RestrictedBoltzmannMachine) -> bool:
    if isinstance(machine.hidden, BernoulliUnits) and machine.hidden.size <= MOST_SUMMED:
        return True
    plain = isinstance(machine.visible, BernoulliUnits) and not isinstance(machine.visible, LabelledUnits)
    return plain and machine.visible.size <= MOST_SUMMED


# ----------------------------------------------------------------------------------------------------- annealing


@torch.inference_mode()
def annealed_log_z(machine: RestrictedBoltzmannMachine, chains: int = 100, steps: int = 10_000) -> Normaliser:
    """Annealed importance sampling (Neal 2001; Salakhutdinov & Murray 2008).

    Between the base, where pixels are independent and Z₀ is known, and the machine lie distributions p_β, 0 ≤ β ≤ 1,
    whose weights and hidden biases are β times the machine's and whose visible units lie in between. Each chain starts
    at the base, and passes through all of them by one step of Gibbs sampling each; with v_k where it stood,

        log w = Σ_k F_{β_k}(v_k) - F_{β_{k+1}}(v_k),      Z = Z₀ E[w].

    The bars are the mean of w, three standard deviations of the mean up and down.
    """
    betas = temperatures(steps)
    weights = torch.zeros(chains, dtype=torch.float64, device=machine.device)
    visible = machine.noise(chains)
    told = machine.tell_hidden(visible)
    pixels, units = machine.base, machine.hidden.weakened(0.0)
    before = pixels.energy(visible) - units.cumulant(0 * told)
    for beta in betas[1:]:
        pixels, units = machine.visible.between(machine.base, beta), machine.hidden.weakened(beta)
        weights += (before - (pixels.energy(visible) - units.cumulant(beta * told))).double()
        hidden = units.sample(units.mean(beta * told))
        visible = pixels.sample(pixels.mean(beta * machine.tell_visible(hidden)))
        told = machine.tell_hidden(visible)
        before = pixels.energy(visible) - units.cumulant(beta * told)
    nothing = torch.zeros(1, machine.visible.size, device=machine.device, dtype=machine.weight.dtype)
    start = machine.base.cumulant(nothing) + machine.hidden.weakened(0.0).cumulant(nothing[:, :1] * machine.hidden.bias)
    return _estimate(weights.cpu(), float(start.double()), f"log Z by annealing, {chains} chains × {steps} steps")


def temperatures(steps: int) -> list[float]:
    """β from 0 to 1: 5 % of the steps up to 0.5, 25 % up to 0.9, and 70 % on the last tenth of the way."""
    first, second = max(1, steps // 20), max(1, steps // 4)
    third = max(1, steps - first - second)
    early = [0.5 * step / first for step in range(first)]
    middle = [0.5 + 0.4 * step / second for step in range(second)]
    return [*early, *middle, *(0.9 + 0.1 * step / third for step in range(third)), 1.0]


def _estimate(weights: Tensor, start: float, method: str) -> Normaliser:
    largest = weights.max()
    relative = (weights - largest).exp()
    mean = float(relative.mean())
    error = DEVIATIONS * float(relative.std()) / math.sqrt(len(weights)) if len(weights) > 1 else math.inf
    shift = start + float(largest)
    low = shift + math.log(mean - error) if mean > error else start + float(weights.mean())
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
    for beta in temperatures(steps)[1:]:
        difference = machine.energy(states) + states @ machine.base  # E₁ - E₀
        weights -= (beta - before) * difference.double()
        bias = torch.lerp(machine.base, machine.bias, beta)
        states = sweep(states, beta * coupling, bias, machine.blocks, 1, 1.0, 0)
        before = beta
    start = float(softplus(machine.base.double()).sum())
    return _estimate(weights.cpu(), start, f"log Z by annealing, {chains} chains × {steps} steps")
