"""Annealing against all states there are, and the laws of its chains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.graphs import Graph, open_graph, random_graph, read_graph
from seqloom.errors import ConfigError, DataError, UserError
from seqloom.models.energy.boltzmann import BoltzmannMachine, all_states
from seqloom.models.energy.search import Couplings, anneal, cool, max_cut

STATES = all_states(14).numpy().astype(np.int8)


def weighted(nodes: int, seed: int) -> Graph:
    """Half of all edges, with weights on both sides of 0."""
    generator = np.random.default_rng(seed)
    graph = random_graph(nodes, nodes * (nodes - 1) // 4, seed)
    return Graph(graph.names, graph.first, graph.second, generator.normal(size=len(graph.weights)))


def spins_cut(graph: Graph, states: np.ndarray) -> np.ndarray:
    """Σ w (1 - σ σ') / 2, edge by edge."""
    spins = 2.0 * states - 1
    edges = zip(graph.first, graph.second, graph.weights, strict=True)
    return sum(weight * (1 - spins[:, one] * spins[:, other]) / 2 for one, other, weight in edges)


# ------------------------------------------------------------------------------------------------------- energies


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_the_energy_is_minus_the_cut_and_that_of_the_machine(seed: int) -> None:
    graph = weighted(7, seed)
    problem, states = max_cut(graph), STATES[:128, :7]
    np.testing.assert_allclose(-problem.energies(states), spins_cut(graph, states), atol=1e-12)
    np.testing.assert_allclose([graph.cut(state) for state in states], spins_cut(graph, states), atol=1e-12)
    weight = torch.zeros(7, 7).double()
    weight[graph.first, graph.second] = weight[graph.second, graph.first] = torch.tensor(-2 * graph.weights)
    machine = BoltzmannMachine.of(weight, torch.tensor(problem.bias))
    with torch.no_grad():
        energies = machine.energy(torch.tensor(states).double()).numpy()
    np.testing.assert_allclose(energies, problem.energies(states), atol=1e-12)
    again = Couplings.of_machine(machine)
    np.testing.assert_allclose(again.energies(states), energies, atol=1e-12)


def test_an_ising_model_is_a_machine_up_to_a_constant() -> None:
    """w = 4 J, b = 2 h - 2 Σ J, as the module says."""
    generator = np.random.default_rng(0)
    half = np.triu(generator.normal(size=(5, 5)), 1)
    coupling, field = half + half.T, generator.normal(size=5)
    machine = Couplings.of_machine(
        BoltzmannMachine.of(torch.tensor(4 * coupling), torch.tensor(2 * field - 2 * coupling.sum(1)))
    )
    states = STATES[:32, :5]
    spins = 2.0 * states - 1
    ising = -((spins @ half) * spins).sum(1) - spins @ field
    assert np.ptp(machine.energies(states) - ising) == pytest.approx(0, abs=1e-12)


# ------------------------------------------------------------------------------------------------------- annealing


@pytest.mark.parametrize("seed", range(4))
def test_annealing_finds_the_largest_cut(seed: int) -> None:
    graph = weighted(14, seed)
    largest = spins_cut(graph, STATES).max()
    found = anneal(max_cut(graph), seed=seed)
    assert -found.energy == pytest.approx(largest)
    assert graph.cut(found.best) == pytest.approx(largest)
    assert found.states.shape == (64, 14)
    assert (found.energies >= found.energy).all()


def test_annealing_finds_the_lowest_state_of_a_machine() -> None:
    torch.manual_seed(0)
    half = torch.randn(12, 12).triu(1)
    machine = BoltzmannMachine.of(half + half.T, torch.randn(12), visible=8)
    with torch.no_grad():
        lowest = float(machine.energy(all_states(12).float()).min())
    assert anneal(machine, chains=16).energy == pytest.approx(lowest, abs=1e-5)


def test_annealing_finds_the_ground_states_of_a_grid() -> None:
    """A ferromagnet on a 5 × 5 grid, as a cut of weights -1: the best cut is none at all."""
    right = [(unit, unit + 1) for unit in range(25) if unit % 5 < 4]
    first, second = np.array(right + [(unit, unit + 5) for unit in range(20)]).T
    found = anneal(max_cut(Graph(tuple(map(str, range(25))), first, second, -np.ones(len(first)))))
    assert found.energy == pytest.approx(0)


def test_known_graphs_have_their_known_cuts() -> None:
    assert -anneal(max_cut(open_graph("petersen"))).energy == 12
    complete = random_graph(11, 55)
    assert -anneal(max_cut(complete)).energy == 5 * 6


def test_chains_at_one_temperature_reach_the_distribution_of_the_machine() -> None:
    torch.manual_seed(1)
    half = torch.randn(4, 4).double().triu(1)
    machine = BoltzmannMachine.of(half + half.T, torch.randn(4).double())
    begin = np.zeros((20_000, 4), np.int8)
    couplings = Couplings.of_machine(machine)
    trace = cool(couplings, begin, np.full(30, 0.7)).trace[-1]
    with torch.no_grad():
        energies, chances = machine.energy(all_states(4)).numpy(), machine.log_probs(0.7).exp().numpy()
    for energy, chance in zip(energies, chances, strict=True):
        assert np.isclose(trace, energy).mean() == pytest.approx(chance, abs=0.015)


def test_without_temperature_energies_only_fall_to_a_state_that_no_single_unit_can_mend() -> None:
    graph = random_graph(40, 120)
    problem = max_cut(graph)
    begin = np.random.default_rng(0).integers(0, 2, (50, 40), np.int8)
    found = cool(problem, begin, np.zeros(40))
    assert (np.diff(found.trace, axis=0) <= 1e-9).all()
    np.testing.assert_allclose(found.trace[-1], found.energies)
    for unit in range(40):
        flipped = found.states.copy()
        flipped[:, unit] ^= 1
        assert (problem.energies(flipped) >= found.energies - 1e-9).all()
    assert anneal(problem).energy <= found.energy


def test_clamped_units_stay_and_the_rest_is_the_best_for_them() -> None:
    graph = weighted(12, 3)
    problem, clamped = max_cut(graph), np.arange(12) < 4
    begin = STATES[:16, :12].copy()  # all states of the first four
    found = cool(problem, begin, np.geomspace(3, 0.03, 300), clamped)
    np.testing.assert_array_equal(found.states[:, :4], begin[:, :4])
    energies = problem.energies(STATES[:4096, :12]).reshape(256, 16)  # the first four are the lowest digits
    np.testing.assert_allclose(found.energies, energies.min(0), atol=1e-9)


def test_the_same_seed_finds_the_same_and_another_does_not() -> None:
    problem = max_cut(random_graph(60, 200))
    one, again, other = (anneal(problem, chains=4, sweeps=20, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.trace, again.trace)
    assert (one.trace != other.trace).any()


def test_temperatures_follow_the_weights() -> None:
    """Weights in other units make the same search."""
    graph = random_graph(30, 60)
    larger = Graph(graph.names, graph.first, graph.second, 1024 * graph.weights)
    one, other = (anneal(max_cut(each), chains=4, sweeps=30) for each in (graph, larger))
    np.testing.assert_allclose(other.temperatures, 1024 * one.temperatures)
    np.testing.assert_array_equal(one.states, other.states)
    assert one.temperatures[0] / one.temperatures[-1] == pytest.approx(100)
    assert np.ptp(np.diff(np.log(one.temperatures))) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chains": 0}, "chains must be at least 1"),
        ({"sweeps": 0}, "sweeps must be at least 1"),
        ({"hottest": 1.0, "coldest": 2.0}, "temperatures fall"),
        ({"hottest": float("inf")}, "temperatures fall"),
        ({"coldest": -1.0}, "temperatures fall"),
    ],
)
def test_impossible_searches_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        anneal(max_cut(open_graph("petersen")), **options)


# ---------------------------------------------------------------------------------------------------------- graphs


def test_a_graph_is_read_with_and_without_weights(tmp_path: Path) -> None:
    file = tmp_path / "graph.tsv"
    file.write_text("a\tb\t2.5\n\nb\tc c\nc c\ta\t-1e0\n")
    graph = read_graph(file)
    assert graph.names == ("a", "b", "c c")
    assert sorted(zip(graph.first.tolist(), graph.second.tolist(), graph.weights.tolist(), strict=True)) == [
        (0, 1, 2.5),
        (0, 2, -1.0),
        (1, 2, 1.0),
    ]
    assert graph.total == 2.5
    assert graph.cut(np.array([0, 1, 0])) == 3.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no edges"),
        ("a b 1\n", "line 1: 'a b 1' is no edge"),
        ("a\tb\t1\t2\n", "line 1: .* is no edge"),
        ("a\t\t1\n", "line 1: .* is no edge"),
        ("a\tb\n\na\tc\tmuch\n", "line 3: 'much' is no weight"),
        ("a\tb\tnan\n", "line 1: 'nan' is no weight"),
        ("a\ta\t1\n", "line 1: an edge from 'a' to itself"),
        ("a\tb\t1\nb\ta\t1\n", "line 2: the edge between 'b' and 'a' was there before"),
    ],
)
def test_lines_that_are_no_edges_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "graph.tsv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_graph(tmp_path / "graph.tsv")


@given(st.integers(2, 60), st.integers(0, 10**6), st.integers(0, 50))
@settings(max_examples=60, deadline=None)
def test_random_graphs_have_so_many_different_edges(nodes: int, wanted: int, seed: int) -> None:
    edges = 1 + wanted % (nodes * (nodes - 1) // 2)
    graph = random_graph(nodes, edges, seed)
    assert len({*zip(graph.first.tolist(), graph.second.tolist(), strict=True)}) == edges
    assert (graph.second < graph.first).all()
    assert graph.first.max() < nodes
    assert graph.second.min() >= 0


@pytest.mark.parametrize(
    "name",
    [
        "random:5",
        "random:a:3",
        "random:5:11",
        "random:1:1",
        "random:5:0",
        "random:99999999:1",
        "random:" + "9" * 200 + ":1",
        "nothing.tsv",
    ],
)
def test_examples_that_do_not_exist_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=name.split(":")[0]) as refused:
        open_graph(name)
    assert len(str(refused.value)) < 400
