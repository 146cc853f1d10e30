"""Units drawn by hashing have the distribution and the reproducibility of torch's own numbers."""

from __future__ import annotations

import math

import torch

from seqloom.models.energy.draws import bernoulli

DRAWS = 400
DEVIATIONS = 5  # of a mean: beyond, once in two million


def test_units_are_on_as_often_as_they_should() -> None:
    torch.manual_seed(0)
    chances = torch.tensor([0.0, 1e-3, 0.1, 0.25, 0.5, 0.77, 0.999, 1.0])
    shares = bernoulli(chances.repeat_interleave(200_000)).view(8, -1).mean(1)
    bound = DEVIATIONS * (chances * (1 - chances) / 200_000).sqrt()
    assert ((shares - chances).abs() <= bound).all()
    assert shares[0] == 0
    assert shares[-1] == 1


def test_units_and_draws_do_not_follow_one_another() -> None:
    """Correlations of a unit with those at other distances, and with itself in the next draw, are noise."""
    torch.manual_seed(1)
    drawn = torch.stack([bernoulli(torch.full((2000,), 0.5)) for _ in range(DRAWS)]) * 2 - 1
    for distance in (1, 2, 3, 8, 64, 500):
        bound = DEVIATIONS / math.sqrt(DRAWS * (2000 - distance))
        assert abs(float((drawn[:, distance:] * drawn[:, :-distance]).mean())) < bound
    assert abs(float((drawn[1:] * drawn[:-1]).mean())) < DEVIATIONS / math.sqrt((DRAWS - 1) * 2000)
    assert float(drawn.mean(0).abs().max()) < (DEVIATIONS + 1) / math.sqrt(DRAWS)  # no unit leans to a side


def test_draws_follow_from_the_state_of_torch() -> None:
    chances = torch.full((50, 7), 0.5)
    torch.manual_seed(2)
    bernoulli(chances)
    state = torch.get_rng_state()
    first, second = bernoulli(chances), bernoulli(chances)
    torch.set_rng_state(state)
    assert torch.equal(bernoulli(chances), first)
    assert torch.equal(bernoulli(chances), second)
    assert not torch.equal(first, second)


def test_any_layout_and_precision_is_drawn() -> None:
    torch.manual_seed(3)
    row = torch.tensor([0.0, 1.0, 0.0])
    for chances in (row.expand(4, 3), row.expand(4, 3).T, row.double().expand(4, 3)):
        assert torch.equal(bernoulli(chances), chances)
