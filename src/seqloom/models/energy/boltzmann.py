"""The general Boltzmann machine: any unit may be connected to any other."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.errors import ConfigError
from seqloom.models.energy.draws import bernoulli
from seqloom.models.energy.units import LEAST_MEAN
from seqloom.models.network import Network

MOST_SUMMED = 20  # units whose states are summed over: 2²⁰ terms
AT_ONCE = 1 << 22  # terms in memory together


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

    def gibbs(self, states: Tensor, sweeps: int, temperature: float = 1.0, clamped: Tensor | None = None) -> Tensor:
        """States after so many sweeps over all units; those that are `clamped`, [units], stay as they are."""
        return sweep(states, self.weight, self.bias, self.blocks, sweeps, temperature, clamped)

    def imagine(self, visible: Tensor, sweeps: int) -> Tensor:
        """Whole states of which the visible part is given, the hidden part drawn."""
        hidden = bernoulli(torch.full((len(visible), self.hidden), 0.5, device=self.device, dtype=self.bias.dtype))
        clamped = self.clamping(torch.ones(self.visible, dtype=torch.bool, device=self.device))
        return self.gibbs(torch.cat([visible, hidden], 1), sweeps, clamped=clamped)

    def clamping(self, known: Tensor) -> Tensor:
        """Which units are clamped, [units], where so many of the visible ones are known, [visible]."""
        return torch.cat([known, known.new_zeros(self.hidden)])

    def whole(self, visible: Tensor) -> Tensor:
        """States of which the visible part is given, the hidden units off."""
        return torch.cat([visible, visible.new_zeros(len(visible), self.hidden)], 1)

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
        return -self.log_sum(visible, self.clamping(torch.ones(self.visible, dtype=torch.bool, device=self.device)))

    def log_prob(self, visible: Tensor, log_z: float) -> Tensor:
        """log p(v), [rows]"""
        return -self.free_energy(visible) - log_z

    def conditional_log_prob(self, visible: Tensor, known: Tensor) -> Tensor:
        """log p(the other visible units | the known ones), [rows]; `known` is [visible]."""
        return -self.free_energy(visible) - self.log_sum(visible, self.clamping(known))

    def log_sum(self, visible: Tensor, clamped: Tensor) -> Tensor:
        """log Σ exp(-E(s)), [rows], over all states of the units that are not clamped; the others are as given."""
        return torch.cat([terms.logsumexp(1) for terms, _ in self._terms(visible, clamped)])

    def means(self, visible: Tensor, clamped: Tensor) -> Tensor:
        """The mean of every unit, [rows, units], where the clamped ones are as given."""
        parts = [terms.softmax(1) @ table for terms, table in self._terms(visible, clamped)]
        found = self.whole(visible).double()
        found[:, ~clamped] = torch.cat(parts)
        return found

    def _terms(self, visible: Tensor, clamped: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """-E of all states of the free units, [rows, states], some rows at a time, and these states.

        With u the free units and c the clamped ones, -E = ½ uᵀ W_uu u + (b_u + W_uc c)ᵀ u + ½ cᵀ W_cc c + b_cᵀ c.
        """
        free, weight, bias = ~clamped, self.weight.double(), self.bias.double()
        table = self._states(int(free.sum())).double()
        fixed = self.whole(visible)[:, clamped].double()
        inner = ((table @ weight[free][:, free]) * table).sum(1) / 2
        outer = ((fixed @ weight[clamped][:, clamped]) * fixed).sum(1) / 2 + fixed @ bias[clamped]
        fields = fixed @ weight[clamped][:, free] + bias[free]
        rows = max(1, AT_ONCE // len(table))
        for field, own in zip(fields.split(rows), outer.split(rows), strict=True):
            yield field @ table.T + inner + own.unsqueeze(1), table

    def _states(self, units: int) -> Tensor:
        if units > MOST_SUMMED:
            raise ConfigError(f"the states of {units} units are too many to be summed: {MOST_SUMMED} is the most")
        return all_states(units).to(self.bias)


def all_states(units: int, first: int = 0, last: int | None = None) -> Tensor:
    """The states of so many on-off units, counted in binary from `first` up to `last`: [states, units]."""
    numbers = torch.arange(first, 2**units if last is None else last)
    return (numbers.unsqueeze(1) >> torch.arange(units) & 1).double()


def sweep(
    states: Tensor,
    weight: Tensor,
    bias: Tensor,
    blocks: list[list[int]],
    sweeps: int,
    temperature: float = 1.0,
    clamped: Tensor | None = None,
) -> Tensor:
    """Gibbs sampling, block by block; those of the units that are `clamped`, [units], stay as they are."""
    states = states.clone()
    held = set() if clamped is None else set(clamped.nonzero().flatten().tolist())
    free = [[unit for unit in block if unit not in held] for block in blocks]
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
