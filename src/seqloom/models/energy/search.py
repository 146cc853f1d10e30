"""Energies as problems: states of low energy, by simulated annealing.

Any machine of on-off units will do, learned or written down. With spins σ = 2s - 1, an Ising model
E(σ) = -Σ_{i<j} J_ij σ_i σ_j - Σ_i h_i σ_i is the machine with w_ij = 4 J_ij and b_i = 2 h_i - 2 Σ_j J_ij, up to a
constant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.compiling import compiled
from seqloom.data.graphs import Graph
from seqloom.errors import ConfigError
from seqloom.models.energy.boltzmann import BoltzmannMachine

Floats = NDArray[np.float64]
States = NDArray[np.int8]
SPAN = 100.0  # how many times hotter annealing begins than it ends
CHAINS, SWEEPS = 64, 500


@dataclass(frozen=True)
class Couplings:
    """E(s) = -Σ_{i<j} w_ij s_i s_j - Σ_i b_i s_i of units s of 0 and 1, with the connections that are there."""

    begins: NDArray[np.int64]
    """Where the neighbours of each unit begin in the two arrays below, and after the last where they end."""
    neighbours: NDArray[np.int64]
    weights: Floats
    bias: Floats

    @classmethod
    def of_edges(cls, first: NDArray[np.int64], second: NDArray[np.int64], weights: Floats, bias: Floats) -> Couplings:
        """Connections given by their two ends, each once."""
        ends, others = np.concatenate([first, second]), np.concatenate([second, first])
        order = np.argsort(ends, kind="stable")
        begins = np.concatenate([[0], np.bincount(ends, minlength=len(bias)).cumsum()])
        return cls(begins, others[order], np.concatenate([weights, weights])[order], bias)

    @classmethod
    def of_machine(cls, machine: BoltzmannMachine) -> Couplings:
        """Those of a machine."""
        weight = machine.weight.detach().double().cpu().numpy()
        first, second = np.nonzero(np.triu(weight, 1))
        return cls.of_edges(first, second, weight[first, second], machine.bias.detach().double().cpu().numpy())

    @property
    def units(self) -> int:
        """How many there are."""
        return len(self.bias)

    def fields(self, states: States) -> Floats:
        """Σ_j w_ij s_j + b_i of every unit, [rows, units]: how far the energy falls when it goes from off to on."""
        ends = np.repeat(np.arange(self.units), np.diff(self.begins))
        drives = [np.bincount(ends, self.weights * row[self.neighbours], self.units) for row in states]
        return np.stack(drives) + self.bias

    def energies(self, states: States) -> Floats:
        """E(s), [rows]"""
        return -np.asarray((states * (self.fields(states) + self.bias)).sum(1)) / 2

    @property
    def scale(self) -> float:
        """The largest field of a unit in a random state, as the root of its mean square: a temperature at which even
        that unit is almost free."""
        ends = np.repeat(np.arange(self.units), np.diff(self.begins))
        means = self.bias + np.bincount(ends, self.weights, self.units) / 2
        variances = np.bincount(ends, self.weights**2, self.units) / 4
        return float(np.sqrt((means**2 + variances).max()))


def max_cut(graph: Graph) -> Couplings:
    """The problem to part the nodes in two such that the edges between both parts weigh as much as they can.

        cut(s) = Σ_{i<j} w_ij (s_i + s_j - 2 s_i s_j) = Σ_{i<j} w_ij (1 - σ_i σ_j) / 2,      σ = 2s - 1.

    As a machine: weights -2 w_ij, biases Σ_j w_ij, and the energy is minus the cut.
    """
    ends = np.concatenate([graph.first, graph.second])
    bias: Floats = np.bincount(ends, np.concatenate([graph.weights] * 2), len(graph.names)).astype(np.float64)
    return Couplings.of_edges(graph.first, graph.second, -2 * graph.weights, bias)


@dataclass(frozen=True)
class Found:
    """What chains found."""

    states: States
    """The best state of each chain, [chains, units]."""
    energies: Floats
    """Their energies, [chains]"""
    trace: Floats
    """The energy of each chain after each sweep, [sweeps, chains]."""
    temperatures: Floats
    """Of each sweep."""

    @property
    def best(self) -> States:
        """The state of the lowest energy, [units]."""
        return np.asarray(self.states[int(self.energies.argmin())])

    @property
    def energy(self) -> float:
        """Its energy."""
        return float(self.energies.min())


def anneal(
    problem: Couplings | BoltzmannMachine,
    chains: int = CHAINS,
    sweeps: int = SWEEPS,
    hottest: float | None = None,
    coldest: float | None = None,
    seed: int = 0,
) -> Found:
    """Simulated annealing (Kirkpatrick, Gelatt & Vecchi 1983): Gibbs sampling while the temperature falls.

    All chains begin at random, and cool from `hottest` to `coldest` by the same factor with every sweep over all
    units. When not given, the hottest is twice the problem's `scale`, and the coldest a hundredth of the hottest.
    """
    couplings = Couplings.of_machine(problem) if isinstance(problem, BoltzmannMachine) else problem
    if chains < 1:
        raise ConfigError(f"chains must be at least 1, not {chains}")
    states = np.random.default_rng(seed).integers(0, 2, (chains, couplings.units), np.int8)
    return cool(couplings, states, cooling(couplings, sweeps, hottest, coldest), seed=seed)


def cooling(couplings: Couplings, sweeps: int, hottest: float | None, coldest: float | None) -> Floats:
    """The temperature of each sweep, falling by the same factor from one to the next."""
    hottest = hottest or max(2 * couplings.scale, np.finfo(np.float64).tiny * SPAN)
    coldest = coldest or hottest / SPAN
    if sweeps < 1:
        raise ConfigError(f"sweeps must be at least 1, not {sweeps}")
    if not 0 < coldest <= hottest < np.inf:
        raise ConfigError(
            f"temperatures fall, from a hottest to a coldest above 0, and not from {hottest} to {coldest}"
        )
    return np.geomspace(hottest, coldest, sweeps)


def cool(
    couplings: Couplings,
    states: States,
    temperatures: Floats,
    clamped: NDArray[np.bool_] | None = None,
    seed: int = 0,
) -> Found:
    """Chains that begin at `states`, [chains, units], with a sweep at each of the temperatures.

    At temperature 0 a unit goes where the energy is lower, and stays where both are equal: greedy descent. Units that
    are `clamped`, [units], stay as they are.
    """
    free = np.arange(couplings.units) if clamped is None else np.flatnonzero(~clamped)
    states, best = states.copy(), states.copy()
    trace = np.empty((len(temperatures), len(states)))
    fields, begun = couplings.fields(states), couplings.energies(states)
    keys = np.random.default_rng([seed, 1]).integers(0, 2**64, len(states), np.uint64)
    problem = (couplings.begins, couplings.neighbours, couplings.weights, free, np.asarray(temperatures, np.float64))
    for chain, key in enumerate(keys):  # one call each, so that Ctrl-C is heard in between
        trace[:, chain] = _cool(*problem, states[chain], best[chain], fields[chain], begun[chain], key)
    return Found(best, couplings.energies(best), trace, temperatures)


@compiled
def _cool(
    begins: NDArray[np.int64],
    neighbours: NDArray[np.int64],
    weights: Floats,
    free: NDArray[np.int64],
    temperatures: Floats,
    state: States,
    best: States,
    field: Floats,
    energy: float,
    key: np.uint64,
) -> Floats:
    """One chain, unit after unit; a unit that turns tells its neighbours' fields. Gives the energy after each sweep.

    Uniform numbers are SplitMix64's (Steele, Lea & Flood 2014), from the chain's own key.
    """
    trace = np.empty(len(temperatures))
    lowest = energy
    for sweep in range(len(temperatures)):
        temperature = temperatures[sweep]
        for unit in free:
            if temperature > 0:
                key += np.uint64(0x9E3779B97F4A7C15)
                mixed = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                mixed = mixed ^ (mixed >> np.uint64(31))
                uniform = np.float64(mixed >> np.uint64(11)) * 2.0**-53
                turned = (uniform * (1.0 + np.exp(-field[unit] / temperature)) < 1.0) != (state[unit] == 1)
            else:
                turned = field[unit] < 0.0 if state[unit] == 1 else field[unit] > 0.0
            if turned:
                change = 1.0 - 2.0 * state[unit]
                energy -= change * field[unit]
                state[unit] = 1 - state[unit]
                for place in range(begins[unit], begins[unit + 1]):
                    field[neighbours[place]] += change * weights[place]
        trace[sweep] = energy
        if energy < lowest:
            lowest = energy
            best[:] = state
    return trace
