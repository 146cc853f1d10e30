"""The general Boltzmann machine: any unit may be connected to any other."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.errors import ConfigError
from seqloom.models.energy.draws import bernoulli
from seqloom.models.energy.units import LEAST_MEAN
from seqloom.models.network import Network

MOST_SUMMED = 20  # units whose states are summed over: 2²⁰ terms


class BoltzmannMachine(Network):
    """On-off units s, the visible ones first, with symmetric weights (Ackley, Hinton & Sejnowski 1985):

        E(s) = -½ sᵀ W s - bᵀ s,   W = Wᵀ, no unit connected to itself,   p(s) = exp(-E(s)/T) / Z.

    `edges` says which units are connected; all, when not given. Given all others, unit i is on with the chance
    σ((Σ_j w_ij s_j + b_i)/T). Units that are not connected to each other are updated together: a colouring of the graph
    finds as few such blocks as it can, two for a restricted machine.
    """

    edges: Tensor

    def __init__(self, visible: int, hidden: int = 0, edges: Tensor | None = None) -> None:
        super().__init__()
        units = visible + hidden
        connected = torch.ones(units, units, dtype=torch.bool) if edges is None else edges.bool()
        if connected.shape != (units, units) or not torch.equal(connected, connected.T):
            raise ConfigError(f"edges must be a symmetric table of {units} × {units}")
        self.register_buffer("edges", connected & ~torch.eye(units, dtype=torch.bool), persistent=False)
        self.visible, self.hidden = visible, hidden
        self.halves = nn.Parameter(torch.randn(units, units) * 0.01)
        self.bias = nn.Parameter(torch.zeros(units))
        self.blocks = _colours(self.edges)
        self.base = nn.Parameter(torch.zeros(units), requires_grad=False)
        """The biases of independent units: where chains and annealing begin."""

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor, visible: int | None = None) -> BoltzmannMachine:
        """A machine with given weights; those of 0 are no connections."""
        count = len(bias) if visible is None else visible
        made = cls(count, len(bias) - count, weight != 0).to(weight.dtype)
        with torch.no_grad():
            made.halves.copy_(weight / 2)
            made.bias.copy_(bias)
        return made

    @property
    def units(self) -> int:
        """How many there are."""
        return self.visible + self.hidden

    @property
    def weight(self) -> Tensor:
        """W, [units, units]: symmetric, 0 where there is no connection."""
        return (self.halves + self.halves.T) * self.edges

    def energy(self, states: Tensor) -> Tensor:
        """E(s), [rows]"""
        return -((states @ self.weight) * states).sum(1) / 2 - states @ self.bias

    def noise(self, rows: int) -> Tensor:
        """States of independent units."""
        return bernoulli(self.base.sigmoid().expand(rows, -1))

    def gibbs(self, states: Tensor, sweeps: int, temperature: float = 1.0, clamped: int = 0) -> Tensor:
        """States after so many sweeps over all units; the first `clamped` units stay as they are."""
        return sweep(states, self.weight, self.bias, self.blocks, sweeps, temperature, clamped)

    def imagine(self, visible: Tensor, sweeps: int) -> Tensor:
        """Whole states of which the visible part is given, the hidden part drawn."""
        hidden = bernoulli(torch.full((len(visible), self.hidden), 0.5, device=self.device, dtype=self.bias.dtype))
        return self.gibbs(torch.cat([visible, hidden], 1), sweeps, clamped=self.visible)

    # ------------------------------------------------------------------------------------------------- by summing

    def log_z(self, temperature: float = 1.0) -> float:
        """log Σ_s exp(-E(s)/T), over all states."""
        energies = self.energy(self._states(self.units)).detach().double()
        return float(torch.logsumexp(-energies / temperature, 0))

    def log_probs(self, temperature: float = 1.0) -> Tensor:
        """log p of all states, counted in binary, the first unit the lowest digit."""
        return F.log_softmax(-self.energy(self._states(self.units)).double() / temperature, 0)

    def free_energy(self, visible: Tensor) -> Tensor:
        """-log Σ_h exp(-E(v, h)), [rows], the hidden units summed over."""
        parts = [
            -self.energy(torch.cat([visible, hidden.expand(len(visible), -1)], 1))
            for hidden in self._states(self.hidden)
        ]
        return -torch.logsumexp(torch.stack(parts).double(), 0)

    def log_prob(self, visible: Tensor, log_z: float) -> Tensor:
        """log p(v), [rows]"""
        return -self.free_energy(visible) - log_z

    def _states(self, units: int) -> Tensor:
        if units > MOST_SUMMED:
            raise ConfigError(f"the states of {units} units are too many to be summed: {MOST_SUMMED} is the most")
        return all_states(units).to(self.bias)


def all_states(units: int, first: int = 0, last: int | None = None) -> Tensor:
    """The states of so many on-off units, counted in binary from `first` up to `last`: [states, units]."""
    numbers = torch.arange(first, 2**units if last is None else last)
    return (numbers.unsqueeze(1) >> torch.arange(units) & 1).double()


def sweep(
    states: Tensor, weight: Tensor, bias: Tensor, blocks: list[list[int]], sweeps: int, temperature: float, clamped: int
) -> Tensor:
    """Gibbs sampling, block by block; the first `clamped` units stay as they are."""
    states = states.clone()
    free = [[unit for unit in block if unit >= clamped] for block in blocks]
    columns = [(block, weight[:, block] / temperature, bias[block] / temperature) for block in free if block]
    for _ in range(sweeps):
        for block, weights, biases in columns:
            states[:, block] = bernoulli(torch.addmm(biases, states, weights).sigmoid())
    return states


def fitted_base(mean: Tensor, hidden: int) -> Tensor:
    """Biases of independent units: the visible ones as often on as in the data, the hidden ones half the time."""
    return torch.cat([torch.logit(mean, eps=LEAST_MEAN), torch.zeros(hidden)])


def _colours(edges: Tensor) -> list[list[int]]:
    """Blocks of units none of which are connected: each unit, most connected first, joins the first it may."""
    taken = torch.zeros(0, len(edges), dtype=torch.bool)
    for unit in torch.argsort(edges.sum(1), descending=True, stable=True).tolist():
        open_to = (~(taken & edges[unit]).any(1)).nonzero().flatten().tolist()
        if open_to:
            taken[open_to[0], unit] = True
        else:
            taken = torch.cat([taken, F.one_hot(torch.tensor([unit]), len(edges)).bool()])
    return [row.nonzero().flatten().tolist() for row in taken]


# ------------------------------------------------------------------------------------------------------ searching


def max_cut(weights: Tensor) -> BoltzmannMachine:
    """The machine whose energy is minus the weight of the edges between units that are on and units that are off.

    cut(s) = Σ_{i<j} w_ij (s_i + s_j - 2 s_i s_j)
    """
    return BoltzmannMachine.of(-2 * weights, weights.sum(1))


@torch.inference_mode()
def anneal(
    machine: BoltzmannMachine, chains: int = 64, sweeps: int = 200, hottest: float = 5.0, coldest: float = 0.05
) -> tuple[Tensor, float]:
    """The state of the lowest energy found by simulated annealing, and its energy (Kirkpatrick et al. 1983).

    All chains cool together, the temperature falling by the same factor with every sweep.
    """
    states = machine.noise(chains)
    best, lowest = states[0], float("inf")
    for step in range(sweeps):
        temperature = hottest * (coldest / hottest) ** (step / max(1, sweeps - 1))
        states = machine.gibbs(states, 1, temperature)
        energies = machine.energy(states)
        row = int(energies.argmin())
        if float(energies[row]) < lowest:
            best, lowest = states[row].clone(), float(energies[row])
    return best, lowest
