"""The general Boltzmann machine, checked by summing over all its states."""

from __future__ import annotations

import pytest
import torch

from seqloom.config.schema.objectives import ClampedAndFreeObjective
from seqloom.data.image_batches import ImageBatch
from seqloom.errors import ConfigError
from seqloom.metrics.annealing import boltzmann_log_z
from seqloom.models.energy.boltzmann import BoltzmannMachine, all_states
from seqloom.training.energy import ClampedAndFree


def symmetric(units: int, spread: float = 1.0, seed: int = 0) -> torch.Tensor:
    half = torch.randn(units, units, generator=torch.Generator().manual_seed(seed)).double().triu(1) * spread
    return half + half.T


def machine(units: int = 5, visible: int = 3, spread: float = 1.0) -> BoltzmannMachine:
    torch.manual_seed(0)
    return BoltzmannMachine.of(symmetric(units, spread), torch.randn(units).double(), visible)


@torch.no_grad()
def test_energy_is_the_sum_over_pairs_and_units() -> None:
    made = machine()
    state = torch.tensor([1, 0, 1, 1, 0]).double()
    pairs = sum(made.weight[i, j] * state[i] * state[j] for i in range(5) for j in range(i))
    assert float(made.energy(state.unsqueeze(0))) == pytest.approx(float(-pairs - made.bias @ state))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@torch.no_grad()
def test_gibbs_sampling_reaches_the_distribution_at_any_temperature(temperature: float) -> None:
    made = machine(units=4)
    torch.manual_seed(0)
    drawn = made.gibbs(made.noise(20_000), 40, temperature)
    counted = torch.bincount((drawn @ torch.tensor([1.0, 2, 4, 8]).double()).long(), minlength=16).double() / 20_000
    torch.testing.assert_close(counted, made.log_probs(temperature).exp(), atol=0.015, rtol=0)


@torch.no_grad()
def test_units_that_are_not_connected_are_updated_together() -> None:
    restricted = torch.zeros(7, 7)
    restricted[:4, 4:] = restricted[4:, :4] = 1
    made = BoltzmannMachine(4, 3, restricted)
    assert sorted(map(sorted, made.blocks)) == [[0, 1, 2, 3], [4, 5, 6]]
    assert len(BoltzmannMachine(5).blocks) == 5
    for block in machine().blocks:
        assert not made.edges[block][:, block].any() or len(block) == 1


@torch.no_grad()
def test_clamped_units_stay_and_the_others_follow_their_conditional() -> None:
    made = machine()
    visible = torch.tensor([[1.0, 0, 1]]).double()
    drawn = made.imagine(visible.expand(20_000, -1), 20)
    assert (drawn[:, :3] == visible).all()
    states = torch.cat([visible.expand(4, -1), all_states(2)], 1)
    wanted = torch.softmax(-made.energy(states), 0)
    counted = torch.bincount((drawn[:, 3] + 2 * drawn[:, 4]).long(), minlength=4).double() / 20_000
    torch.testing.assert_close(counted, wanted, atol=0.015, rtol=0)


@torch.no_grad()
def test_visible_probabilities_sum_to_one() -> None:
    made = machine()
    assert float(made.log_prob(all_states(3), made.log_z()).exp().sum()) == pytest.approx(1)


def test_the_difference_of_correlations_is_the_gradient_of_the_likelihood() -> None:
    """With both phases exact: -∂ log p(v) / ∂w_ij = ⟨s_i s_j⟩ free - ⟨s_i s_j⟩ clamped."""
    made = machine()
    visible = torch.tensor([[1.0, 0, 1]]).double()
    states = all_states(5)
    (made.free_energy(visible) + torch.logsumexp(-made.energy(states), 0)).sum().backward()
    with torch.no_grad():
        free = (states * made.log_probs().exp().unsqueeze(1)).T @ states
        clamped_states = torch.cat([visible.expand(4, -1), all_states(2)], 1)
        chances = torch.softmax(-made.energy(clamped_states), 0).unsqueeze(1)
        clamped = (clamped_states * chances).T @ clamped_states
    found = made.halves.grad + made.halves.grad.T  # each weight is the sum of two halves
    torch.testing.assert_close(found / 2, (free - clamped) * made.edges)


def test_learning_with_hidden_units_raises_the_likelihood() -> None:
    """Exclusive or: all pairs are independent, so that no machine without hidden units has more than 3 log ½."""
    torch.manual_seed(0)
    data = torch.tensor([[0.0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]])
    made = BoltzmannMachine(3, 3)
    batch = ImageBatch(data.repeat(50, 1).reshape(-1, 1, 1, 3), None)
    objective = ClampedAndFree(ClampedAndFreeObjective(sweeps=3))
    optimizer = torch.optim.SGD(made.parameters(), lr=0.3)
    with torch.no_grad():
        made.halves.normal_(std=0.5)
    for _ in range(600):
        optimizer.zero_grad()
        (objective(made, batch).total / batch.tokens).backward()
        optimizer.step()
    with torch.no_grad():
        found = float(made.log_prob(data, made.log_z()).mean())
    assert found > -1.9  # 3 log ½ is -2.08, and log ¼, the best there is, -1.39


# ---------------------------------------------------------------------------------------------------- the normaliser


def test_annealed_normaliser_is_within_a_tenth_of_a_nat() -> None:
    made = machine(units=21, visible=15, spread=0.3)
    with torch.no_grad():
        log_z = torch.logsumexp(-made.free_energy(all_states(15)), 0)
    found = boltzmann_log_z(made, chains=200, steps=500)
    assert found.log_z == pytest.approx(float(log_z), abs=0.1)


def test_too_many_units_are_not_summed() -> None:
    with pytest.raises(ConfigError, match="too many"):
        BoltzmannMachine(30).log_z()
    with pytest.raises(ConfigError, match="symmetric"):
        BoltzmannMachine(2, 0, torch.tensor([[0, 1], [0, 0]]))
