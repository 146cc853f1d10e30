"""What follows for some units of a machine when others are known: a clamped machine infers outputs from inputs."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from seqloom.models.energy.boltzmann import BoltzmannMachine, sweep
from seqloom.models.energy.search import SWEEPS, Couplings, cool, cooling

MOST_INFERRED = 16  # unknown units whose states are summed over for every row: 2¹⁶ terms


def summed(machine: BoltzmannMachine, known: Tensor) -> bool:
    """Whether so few units are unknown that all their states are summed over; `known` says it of the visible units."""
    return machine.units - int(known.sum()) <= MOST_INFERRED


@torch.inference_mode()
def chances(machine: BoltzmannMachine, visible: Tensor, known: Tensor, sweeps: int = SWEEPS) -> Tensor:
    """p(v_i = 1 | the known visible units) of every visible unit, [rows, visible]; what is known stays as it is.

    Exact where few units are unknown. Else by Gibbs sampling with the known units clamped: after the first fifth of the
    sweeps, the mean of σ(Σ_j w_ij s_j + b_i), the chance of a unit given all others.
    """
    if summed(machine, known):
        return machine.means(visible, machine.clamping(known))[:, : machine.visible].to(visible)
    clamped, weight, bias = machine.clamping(known), machine.weight, machine.bias
    states = torch.where(clamped, machine.whole(visible), machine.noise(len(visible)))
    states = machine.gibbs(states, max(1, sweeps // 5), clamped=clamped)
    total = torch.zeros_like(states)
    for _ in range(sweeps):
        states = sweep(states, weight, bias, machine.blocks, 1, clamped=clamped)
        total += torch.addmm(bias, states, weight).sigmoid()
    return torch.where(known, visible, total[:, : machine.visible] / sweeps)


def most_probable(
    machine: BoltzmannMachine, visible: Tensor, known: Tensor, sweeps: int = SWEEPS, seed: int = 0
) -> Tensor:
    """The visible units with the known ones as they are and the others of the lowest energy that annealing finds
    together with the hidden ones: argmax p(v, h | the known), [rows, visible]."""
    couplings, clamped = Couplings.of_machine(machine), machine.clamping(known).cpu().numpy()
    begin = np.random.default_rng(seed).integers(0, 2, (len(visible), machine.units), np.int8)
    begin = np.where(clamped, machine.whole(visible).cpu().numpy().astype(np.int8), begin)
    found = cool(couplings, begin, cooling(couplings, sweeps, None, None), clamped, seed)
    return torch.from_numpy(found.states[:, : machine.visible]).to(visible)
