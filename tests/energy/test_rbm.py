"""Restricted Boltzmann machines, checked by summing over all their states."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from seqloom.config.schema.objectives import ContrastiveDivergenceObjective
from seqloom.data.image_batches import ImageBatch
from seqloom.metrics.annealing import (
    _estimate,
    all_states,
    annealed_log_z,
    exact_log_z,
    log_z_above,
    normaliser,
    temperatures,
)
from seqloom.models.energy.rbm import RestrictedBoltzmannMachine
from seqloom.models.energy.units import BernoulliUnits, GaussianUnits, GaussianVisibleUnits, LabelledUnits
from seqloom.training.energy import ContrastiveDivergence

VISIBLE, HIDDEN = 5, 4
KINDS = ["bernoulli-bernoulli", "gaussian-bernoulli", "bernoulli-gaussian", "labelled-bernoulli"]


def machine(kind: str, visible: int = VISIBLE, hidden: int = HIDDEN, spread: float = 0.5) -> RestrictedBoltzmannMachine:
    torch.manual_seed(0)
    first, second = kind.split("-")
    below = {
        "bernoulli": lambda: BernoulliUnits(torch.randn(visible)),
        "gaussian": lambda: GaussianVisibleUnits(torch.randn(visible), torch.randn(visible) * 0.5),
        "labelled": lambda: LabelledUnits(torch.randn(visible), 2),
    }[first]()
    above = BernoulliUnits(torch.randn(hidden)) if second == "bernoulli" else GaussianUnits(torch.randn(hidden))
    made = RestrictedBoltzmannMachine(below, above).double()
    with torch.no_grad():
        made.weight.copy_(torch.randn(visible, hidden) * spread)
    return made


def learning(**settings: float) -> ContrastiveDivergence:
    return ContrastiveDivergence(ContrastiveDivergenceObjective.model_validate(settings))


def grid(units: int) -> tuple[Tensor, float]:
    """Points for integrating over real units, and the volume of each."""
    line = torch.linspace(-9, 9, 61, dtype=torch.float64)
    return torch.cartesian_prod(*[line] * units).reshape(-1, units), float(line[1] - line[0]) ** units


def states_of(units: object, size: int) -> tuple[Tensor, float]:
    """All values of a layer, and the volume of each."""
    if isinstance(units, GaussianVisibleUnits | GaussianUnits):
        return grid(size)
    states = all_states(size)
    if isinstance(units, LabelledUnits):
        states = states[states[:, -units.classes :].sum(1) == 1]
    return states, 1.0


def joint(made: RestrictedBoltzmannMachine) -> tuple[Tensor, Tensor, Tensor, float, float]:
    """All visible and hidden states, exp(-E) of each pair, and their volumes."""
    visible, volume = states_of(made.visible, made.visible.size)
    hidden, hidden_volume = states_of(made.hidden, made.hidden.size)
    pairs = [made.energy(visible, row.expand(len(visible), -1)) for row in hidden]
    return visible, hidden, torch.exp(-torch.stack(pairs, 1)), volume, hidden_volume


def small(kind: str) -> RestrictedBoltzmannMachine:
    """A machine whose real units can be integrated over."""
    real_below, real_above = kind.startswith("gaussian"), kind.endswith("gaussian")
    return machine(kind, 2 if real_below else VISIBLE, 2 if real_above else HIDDEN, spread=0.3)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_free_energy_sums_over_the_hidden_units(kind: str) -> None:
    made = small(kind)
    visible, _, table, _, hidden_volume = joint(made)
    torch.testing.assert_close(-(table.sum(1) * hidden_volume).log(), made.free_energy(visible))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_conditionals_are_those_of_the_joint_distribution(kind: str) -> None:
    made = small(kind)
    visible, hidden, table, _, _ = joint(made)
    torch.testing.assert_close(made.hidden_mean(visible), table @ hidden / table.sum(1, keepdim=True))
    torch.testing.assert_close(made.visible_mean(hidden), table.T @ visible / table.sum(0).unsqueeze(1))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_samples_have_the_means_and_variances_of_the_conditionals(kind: str) -> None:
    made = small(kind)
    visible = made.noise(1).expand(40_000, -1)
    drawn = made.sample_hidden(visible)
    torch.testing.assert_close(drawn.mean(0), made.hidden_mean(visible[:1])[0], atol=0.03, rtol=0)
    back = made.sample_visible(drawn[:1].expand(40_000, -1))
    torch.testing.assert_close(back.mean(0), made.visible_mean(drawn[:1])[0], atol=0.03, rtol=0)
    if isinstance(made.visible, GaussianVisibleUnits):
        torch.testing.assert_close(back.var(0), made.visible.variance, atol=0, rtol=0.05)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_log_probabilities_sum_to_one_under_the_exact_normaliser(kind: str) -> None:
    made = small(kind)
    visible, _, table, volume, hidden_volume = joint(made)
    log_z = math.log(float(table.sum()) * volume * hidden_volume)
    if kind != "bernoulli-gaussian":  # summed over the hidden layer
        assert exact_log_z(made) == pytest.approx(log_z, abs=1e-9)
    assert normaliser(made).log_z == pytest.approx(log_z, abs=1e-9)
    assert float(made.log_prob(visible, log_z).exp().sum()) * volume == pytest.approx(1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_closed_form_is_the_gradient_of_the_difference_of_free_energies(kind: str) -> None:
    made = machine(kind)
    data, model = made.noise(7), made.noise(7)
    closed = made.contrast((data, made.hidden_mean(data)), (model, made.hidden_mean(model)))
    (made.free_energy(data) - made.free_energy(model)).sum().backward()
    learned = {name: parameter.grad for name, parameter in made.named_parameters() if parameter.requires_grad}
    assert closed.keys() == learned.keys()
    for name, gradient in learned.items():
        torch.testing.assert_close(closed[name], gradient, msg=name)


def test_over_all_states_the_closed_form_is_the_gradient_of_the_likelihood() -> None:
    """∂ -log p / ∂θ = ∂F/∂θ - E[∂F/∂θ]: contrast against the model's own distribution."""
    made = machine("bernoulli-bernoulli")
    states = all_states(VISIBLE)
    data = states[[3, 9]]
    energies = made.free_energy(states)
    (made.free_energy(data).mean() + torch.logsumexp(-energies, 0)).backward()
    chances = torch.softmax(-energies.detach(), 0).unsqueeze(1)
    with torch.no_grad():
        by_data = data.T @ made.hidden_mean(data) / 2
        by_model = (states * chances).T @ made.hidden_mean(states)
    torch.testing.assert_close(made.weight.grad, by_model - by_data)


@pytest.mark.parametrize("kind", KINDS[:3])
def test_contrastive_divergence_hands_the_closed_form_to_the_optimiser(kind: str) -> None:
    made = machine(kind)
    objective = learning(steps=2)
    batch = ImageBatch(made.noise(6).reshape(6, 1, 1, VISIBLE), None)
    seen: list[Tensor] = []
    original = made.contrast

    def watch(data: tuple[Tensor, Tensor], model: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        seen.extend([data[0].clone(), model[0].clone()])
        return original(data, model)

    made.contrast = watch  # type: ignore[method-assign]
    (objective(made, batch).total / 6).backward()
    found = {name: parameter.grad.clone() for name, parameter in made.named_parameters() if parameter.requires_grad}
    made.zero_grad()
    ((made.free_energy(seen[0]) - made.free_energy(seen[1])).sum() / 6).backward()
    for name, parameter in made.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(found[name], parameter.grad, msg=name)


def test_persistent_chains_go_on_and_come_back_from_a_checkpoint() -> None:
    made = machine("bernoulli-bernoulli")
    batch = ImageBatch(made.noise(6).reshape(6, 1, 1, VISIBLE), None)
    objective, again = learning(persistent=True), learning(persistent=True)
    assert objective.state() == {}
    objective(made, batch)
    again.restore({name: tensor.clone() for name, tensor in objective.state().items()})
    torch.manual_seed(1)
    objective(made, batch)
    torch.manual_seed(1)
    again(made, batch)
    assert objective.chains is not None
    assert torch.equal(objective.chains, again.state()["chains"])


def test_sparsity_draws_units_towards_the_target() -> None:
    made = machine("bernoulli-bernoulli", 6, 5)
    data = made.noise(50)
    batch = ImageBatch(data.reshape(50, 1, 1, 6), None)
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    objective = learning(sparsity_cost=5.0, sparsity_target=0.2)
    for _ in range(200):
        optimizer.zero_grad()
        (objective(made, batch).total / 50).backward()
        optimizer.step()
    torch.testing.assert_close(made.hidden_mean(data).mean(0), torch.full((5,), 0.2).double(), atol=0.05, rtol=0)


def test_gibbs_sampling_reaches_the_distribution() -> None:
    made = machine("bernoulli-bernoulli", 3, 2)
    with torch.no_grad():
        drawn = made.gibbs(made.noise(20_000), 30)
        states = all_states(3)
        chances = made.log_prob(states, exact_log_z(made)).exp()
    counted = torch.bincount((drawn @ torch.tensor([1.0, 2, 4]).double()).long(), minlength=8) / 20_000
    torch.testing.assert_close(counted.double(), chances, atol=0.015, rtol=0)


def test_pseudo_likelihood_is_the_sum_of_the_conditionals() -> None:
    made = machine("bernoulli-bernoulli", 3, 2)
    states = all_states(3)
    with torch.no_grad():
        table = made.log_prob(states, exact_log_z(made)).exp()
        state = 5
        flips = [state ^ 1 << pixel for pixel in range(3)]
        wanted = sum(math.log(float(table[state] / (table[state] + table[flip]))) for flip in flips)
        found = made.pseudo_log_prob(states[state].expand(20_000, -1)).mean()
    assert float(found) == pytest.approx(wanted, rel=0.03)


# ----------------------------------------------------------------------------------------------------- annealing


@pytest.mark.parametrize("kind", ["bernoulli-bernoulli", "gaussian-bernoulli", "labelled-bernoulli"])
@pytest.mark.parametrize("hidden", [12, 14])
def test_annealing_is_within_a_tenth_of_a_nat_of_the_sum(kind: str, hidden: int) -> None:
    made = machine(kind, 40, hidden, spread=0.4).float()
    exact = exact_log_z(made)
    found = annealed_log_z(made, chains=100, steps=1000)
    assert found.log_z == pytest.approx(exact, abs=0.1)
    assert found.low - 0.05 <= exact <= found.high + 0.05


def test_annealing_with_real_hidden_units_is_within_a_tenth_of_a_nat_of_the_sum() -> None:
    made = machine("bernoulli-gaussian", 14, 10, spread=0.2).float()
    found = annealed_log_z(made, chains=100, steps=1000)
    assert found.log_z == pytest.approx(exact_log_z(made), abs=0.1)


def test_a_layer_of_twenty_units_is_summed() -> None:
    made = machine("bernoulli-bernoulli", 6, 20, spread=0.1)
    by_visible = torch.logsumexp(-made.free_energy(all_states(6)).detach(), 0)
    assert exact_log_z(made) == pytest.approx(float(by_visible), abs=1e-9)


def test_bars_are_finite_even_where_one_chain_outweighs_all_others() -> None:
    found = _estimate(torch.tensor([0.0, -40.0, -50.0]).double(), 10.0, "")
    assert found.log_z == pytest.approx(10 - math.log(3))
    assert found.low == pytest.approx(-20)
    assert found.low < found.log_z < found.high < math.inf


def test_temperatures_rise_from_nothing_to_one() -> None:
    for steps in (3, 10, 300, 10_000):
        found = temperatures(steps)
        assert len(found) == steps + 1
        assert found[0] == 0
        assert found[-1] == 1
        assert found == sorted(found)


def test_pixels_that_never_change_have_a_variance_above_nothing() -> None:
    units = GaussianVisibleUnits.fitted(torch.zeros(2), torch.tensor([0.0, 1.0]))
    assert torch.isfinite(units.energy(torch.rand(3, 2))).all()
    assert units.variance[0] > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_annealing_back_from_samples_is_within_a_tenth_of_a_nat_of_the_sum(kind: str) -> None:
    made = machine(kind, 14, 10, spread=0.2).float()
    exact = exact_log_z(made)
    with torch.no_grad():
        found = log_z_above_by_annealing(made, made.gibbs(made.noise(200), 200), 500)
    assert found == pytest.approx(exact, abs=0.1)


def test_annealing_back_shows_what_chains_from_the_base_do_not_find() -> None:
    """Half of the mass is one image behind a wall: forward, all chains agree on the other half and on a wrong Z."""
    torch.manual_seed(0)
    made = RestrictedBoltzmannMachine(BernoulliUnits(torch.zeros(30)), BernoulliUnits(torch.zeros(1)))
    with torch.no_grad():
        made.weight.fill_(8.0)  # the hidden unit is on with all pixels, and turns all of them on
        made.hidden.bias.fill_(-200.0)
    exact = exact_log_z(made)
    forward = annealed_log_z(made, chains=100, steps=100)
    above = log_z_above_by_annealing(made, torch.ones(100, 30), 100)
    assert forward.high < exact - 5
    assert above >= exact - 0.1


def log_z_above_by_annealing(made: RestrictedBoltzmannMachine, images: Tensor, steps: int) -> float:
    """As if the machine were too large for a sum."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqloom.metrics.annealing.summable", lambda machine: False)
        return log_z_above(made, images, steps)


def test_a_likelihood_by_annealing_back_is_never_better_than_the_entropy_of_the_images() -> None:
    """E[-F(v) - log Z'] ≤ -H: whatever the machine, and however few the steps."""
    images = all_states(6).float()[[1, 9, 30, 33]].repeat(100, 1)
    for spread in (0.1, 1.0, 4.0):
        made = machine("bernoulli-bernoulli", 6, 8, spread).float()
        for steps in (2, 20):
            found = -float(made.free_energy(images).detach().mean()) - log_z_above_by_annealing(made, images, steps)
            assert found <= -math.log(4) + 0.1
