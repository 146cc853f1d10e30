from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from seqloom.decoding import Greedy, Sampler, sampling
from seqloom.decoding.uniforms import uniforms
from seqloom.errors import ConfigError

PROBS = torch.tensor([0.05, 0.0, 0.0, 0.15, 0.4, 0.1, 0.3], dtype=torch.float64)
DRAWS = 20_000


def draw(sampler: Sampler, probs: torch.Tensor = PROBS, draws: int = DRAWS) -> torch.Tensor:
    return sampler.choose(probs.log().expand(draws, -1), torch.arange(draws), torch.zeros(draws, dtype=torch.long))


def assert_follows(tokens: torch.Tensor, probs: torch.Tensor) -> None:
    counts = tokens.bincount(minlength=len(probs)).double()
    possible = probs > 0
    assert counts[~possible].sum() == 0
    if int(possible.sum()) > 1:
        assert scipy.stats.chisquare(counts[possible].numpy(), (probs * len(tokens))[possible].numpy()).pvalue > 1e-3


def normalised(probs: torch.Tensor) -> torch.Tensor:
    return probs / probs.sum()


def only(*tokens: int) -> torch.Tensor:
    """PROBS with nothing left but `tokens`."""
    kept = torch.zeros_like(PROBS)
    kept[list(tokens)] = PROBS[list(tokens)]
    return normalised(kept)


def test_frequencies_are_the_probabilities() -> None:
    assert_follows(draw(Sampler()), PROBS)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_raises_probabilities_to_its_inverse(temperature: float) -> None:
    assert_follows(draw(Sampler(temperature=temperature)), normalised(PROBS ** (1 / temperature)))


def test_top_p_of_a_flat_and_large_distribution_keeps_its_share() -> None:
    """1,000 of 2,000 equal tokens: more than the few hundred that are looked at first."""
    kept = draw(Sampler(top_p=0.49999), torch.full((2000,), 1 / 2000, dtype=torch.float64), draws=5000)
    assert int(kept.max()) < 1000  # of equals, the first
    assert scipy.stats.chisquare(kept.bincount(minlength=1000).view(50, 20).sum(1).numpy()).pvalue > 1e-3


def test_half_precision_is_sampled_like_single() -> None:
    log_probs = torch.randn(200, 50, generator=torch.Generator().manual_seed(0)).log_softmax(1).bfloat16()
    rows = torch.arange(200)
    for sampler in (Sampler(), Sampler(0.7, top_k=9, top_p=0.8)):
        assert torch.equal(sampler.choose(log_probs, rows, rows), sampler.choose(log_probs.float(), rows, rows))


def test_a_minute_temperature_is_greedy() -> None:
    for probs in (PROBS, PROBS.float()):
        assert (draw(Sampler(temperature=1e-300), probs, draws=100) == 4).all()


def test_top_k_keeps_the_k_most_probable() -> None:
    assert_follows(draw(Sampler(top_k=3)), only(4, 6, 3))
    assert_follows(draw(Sampler(top_k=100)), PROBS)


def test_top_p_keeps_the_smallest_set_that_reaches_the_mass() -> None:
    assert_follows(draw(Sampler(top_p=0.39)), only(4))
    assert_follows(draw(Sampler(top_p=0.41)), only(4, 6))
    assert_follows(draw(Sampler(top_p=0.69)), only(4, 6))
    assert_follows(draw(Sampler(top_p=0.71)), only(4, 6, 3))
    assert_follows(draw(Sampler(top_p=1.0)), PROBS)


def test_top_p_measures_what_top_k_left() -> None:
    # 4, 6 and 3 are left, with 0.4, 0.3 and 0.15 of 0.85: the first two have 0.82 of that, but only 0.7 of the whole.
    assert_follows(draw(Sampler(top_k=3, top_p=0.8)), only(4, 6))
    assert_follows(draw(Sampler(top_p=0.8)), only(4, 6, 3))


def test_top_p_measures_what_temperature_made() -> None:
    squared = normalised(PROBS**2)  # 4 has 0.54 of it, and 0.4 of PROBS
    assert_follows(draw(Sampler(temperature=0.5, top_p=0.5)), only(4))
    assert squared[4] > 0.5


def test_top_k_of_one_is_greedy() -> None:
    log_probs = torch.randn(500, 30, generator=torch.Generator().manual_seed(0)).log_softmax(1)
    rows = torch.arange(500)
    assert torch.equal(Sampler(top_k=1).choose(log_probs, rows, rows), Greedy().choose(log_probs, rows, rows))


def test_greedy_takes_the_first_of_equals() -> None:
    log_probs = torch.tensor([[0.1, 0.1, 0.1, 0.35, 0.35]]).log()
    place = torch.tensor([0])
    assert Greedy().choose(log_probs, place, place).tolist() == [3]
    assert Sampler(top_k=1).choose(log_probs, place, place).tolist() == [3]


def test_small_probabilities_survive_a_large_vocabulary() -> None:
    """In float32 the cumulative sum of 200,000 equal probabilities would drift from where it should be."""
    size = 200_000
    log_probs = torch.full((1, size), 1 / size).log()
    drawn = torch.cat([Sampler().choose(log_probs, torch.tensor([n]), torch.tensor([0])) for n in range(500)])
    assert scipy.stats.kstest(drawn.numpy() / size, "uniform").pvalue > 1e-3


def test_a_seed_decides_the_draws() -> None:
    assert torch.equal(draw(Sampler(seed=5), draws=100), draw(Sampler(seed=5), draws=100))
    assert not torch.equal(draw(Sampler(seed=5), draws=100), draw(Sampler(seed=6), draws=100))


@pytest.mark.parametrize(
    "arguments",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_k": 0},
        {"top_p": 0.0},
        {"top_p": 1.5},
    ],
)
def test_values_out_of_range_are_refused(arguments: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(arguments))):
        Sampler(**arguments)


def test_temperature_zero_points_to_greedy() -> None:
    with pytest.raises(ConfigError, match="greedy"):
        Sampler(temperature=0)


@pytest.mark.parametrize("top_k", [None, 1, 7, 70, 400])
@pytest.mark.parametrize("top_p", [None, 0.4, 0.95, 1.0])
@pytest.mark.parametrize("asked", [True, False])
def test_picking_without_waiting_is_choosing(top_k, top_p, asked, monkeypatch) -> None:
    """`asked` False: where a GPU could not find the largest without being waited for."""
    log_probs = torch.randn(200, 300, generator=torch.Generator().manual_seed(0)).mul(2).round().log_softmax(1)
    sequences, steps = torch.arange(200), torch.arange(200) % 9
    sampler = Sampler(0.8, top_k, top_p, seed=4)
    chosen = sampler.choose(log_probs, sequences, steps)
    monkeypatch.setattr(sampling, "asks_nothing", lambda values, count: asked)
    assert torch.equal(sampler.pick(log_probs, uniforms(4, sequences, steps)), chosen)


@pytest.mark.parametrize("size", [2048, 2050, 5000])
@pytest.mark.parametrize("mass", [None, 0.3, 0.9, 1.0])
def test_draws_from_many_columns_stand_where_running_sums_say(size: int, mass: float | None) -> None:
    """Among the columns as they are, or from the most probable on: as far as these have the mass."""
    values = torch.randn(300, size, generator=torch.Generator().manual_seed(size))
    log_probs = values.mul(3).round().masked_fill(values > 1, -torch.inf).log_softmax(1)
    numbers = uniforms(1, torch.arange(300), torch.zeros(300, dtype=torch.int64))
    weights = sampling.weights_of(log_probs, 0.7).double().numpy()
    order = np.argsort(-weights, axis=1, kind="stable") if mass else np.arange(size)[None].repeat(300, 0)
    sums = np.cumsum(np.take_along_axis(weights, order, 1), axis=1)
    expected = []
    for row, number, columns in zip(sums, numbers.tolist(), order, strict=True):
        whole = row[np.searchsorted(row, mass * row[-1])] if mass else row[-1]
        expected.append(columns[np.searchsorted(row, number * whole, side="right")])
    found = (
        sampling.drawn_by_rank(log_probs, 0.7, mass, numbers)
        if mass
        else sampling.drawn_by_column(log_probs, 0.7, numbers)
    )
    assert found.tolist() == expected
