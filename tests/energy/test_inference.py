"""A clamped machine: what it infers and what it learns, against sums over all states."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.config.schema.objectives import ConditionalObjective
from seqloom.data.image_batches import ImageBatch
from seqloom.errors import UserError
from seqloom.models.energy import inference
from seqloom.models.energy.boltzmann import BoltzmannMachine
from seqloom.models.energy.inference import chances, most_probable
from seqloom.models.energy.rbm import RestrictedBoltzmannMachine
from seqloom.models.energy.units import BernoulliUnits, GaussianUnits
from seqloom.training.energy import Conditional

KNOWN = torch.tensor([True, False, True, False])


def machine(visible: int = 4, hidden: int = 2) -> BoltzmannMachine:
    generator = torch.Generator().manual_seed(3)
    half = torch.randn(visible + hidden, visible + hidden, generator=generator).double().triu(1)
    return BoltzmannMachine.of(half + half.T, torch.randn(visible + hidden, generator=generator).double(), visible)


def probabilities(made: BoltzmannMachine) -> dict[tuple[int, ...], float]:
    """p of every state, by the energy of every pair."""
    weight, bias = made.weight.detach().numpy(), made.bias.detach().numpy()
    found = {}
    for state in itertools.product((0, 1), repeat=made.units):
        pairs = sum(weight[i, j] * state[i] * state[j] for i in range(made.units) for j in range(i))
        found[state] = np.exp(pairs + np.dot(bias, state))
    total = sum(found.values())
    return {state: chance / total for state, chance in found.items()}


def marginals(made: BoltzmannMachine, row: tuple[int, ...]) -> np.ndarray:
    """p(v_i = 1 | known) of the visible units, term by term."""
    places = KNOWN.nonzero().flatten().tolist()
    agreeing = {
        state: chance
        for state, chance in probabilities(made).items()
        if all(state[place] == row[place] for place in places)
    }
    total = sum(agreeing.values())
    return sum(np.array(state[:4]) * chance for state, chance in agreeing.items()) / total


ROWS = torch.tensor([[1.0, 0, 0, 1], [0.0, 1, 1, 1], [1.0, 1, 1, 0]]).double()


def test_chances_are_the_conditional_marginals() -> None:
    made = machine()
    found = chances(made, ROWS, KNOWN)
    for row, values in zip(ROWS, found, strict=True):
        np.testing.assert_allclose(values.numpy(), marginals(made, tuple(row.int().tolist())), atol=1e-9)


def test_gibbs_sampling_comes_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "MOST_INFERRED", 0)
    made = machine()
    torch.manual_seed(0)
    found = chances(made, ROWS.repeat(200, 1), KNOWN, sweeps=100).reshape(200, 3, 4)
    assert (found[:, :, KNOWN] == ROWS[:, KNOWN]).all()
    for row, values in zip(ROWS, found.mean(0), strict=True):
        np.testing.assert_allclose(values.numpy(), marginals(made, tuple(row.int().tolist())), atol=0.01)


def test_the_most_probable_completion_is_that_of_the_lowest_energy() -> None:
    made = machine()
    found = most_probable(made, ROWS, KNOWN)
    for row, values in zip(ROWS.int().tolist(), found.int().tolist(), strict=True):
        agreeing = [state for state in probabilities(made) if state[0] == row[0] and state[2] == row[2]]
        assert tuple(values) == max(agreeing, key=probabilities(made).__getitem__)[:4]


def test_conditional_probabilities_are_quotients_of_sums() -> None:
    made = machine()
    by_state = probabilities(made)
    with torch.no_grad():
        found = made.conditional_log_prob(ROWS, KNOWN)
    for row, log_prob in zip(ROWS.int().tolist(), found.tolist(), strict=True):
        joint = sum(chance for state, chance in by_state.items() if list(state[:4]) == row)
        given = sum(chance for state, chance in by_state.items() if (state[0], state[2]) == (row[0], row[2]))
        assert log_prob == pytest.approx(np.log(joint / given))


def test_nothing_known_and_all_known_are_the_ends() -> None:
    made = machine()
    by_state = probabilities(made)
    free = sum(np.array(state[:4]) * chance for state, chance in by_state.items())
    np.testing.assert_allclose(chances(made, ROWS, torch.zeros(4, dtype=torch.bool))[0].numpy(), free, atol=1e-9)
    assert torch.equal(chances(made, ROWS, torch.ones(4, dtype=torch.bool)), ROWS)


# ------------------------------------------------------------------------------------------------ restricted machines


def test_a_restricted_machine_is_a_general_one_of_two_blocks() -> None:
    torch.manual_seed(0)
    made = RestrictedBoltzmannMachine(BernoulliUnits(torch.randn(5)), BernoulliUnits(torch.randn(3))).double()
    with torch.no_grad():
        made.weight.normal_()
        general = made.general()
        visible, hidden = torch.randint(2, (9, 5)).double(), torch.randint(2, (9, 3)).double()
        torch.testing.assert_close(general.energy(torch.cat([visible, hidden], 1)), made.energy(visible, hidden))
        torch.testing.assert_close(general.free_energy(visible), made.free_energy(visible))
        torch.testing.assert_close(general.base[:5], made.base.bias)
    assert len(general.blocks) == 2
    real = RestrictedBoltzmannMachine(BernoulliUnits(torch.zeros(2)), GaussianUnits(torch.zeros(2)))
    with pytest.raises(UserError, match="on or off"):
        real.general()


# ------------------------------------------------------------------------------------------------------------ learning


def exact_gradient(made: BoltzmannMachine, visible: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Of -log p(outputs | inputs), by autograd through the sums."""
    made.zero_grad()
    (-made.conditional_log_prob(visible, known)).sum().backward()
    found = made.halves.grad.clone(), made.bias.grad.clone()
    made.zero_grad()
    return found


def test_the_difference_of_correlations_is_the_gradient_of_the_conditional_likelihood() -> None:
    """-∂ log p(y | x) / ∂w_ij = ⟨s_i s_j⟩ with x clamped - ⟨s_i s_j⟩ with x and y clamped; and finite differences."""
    made, row, known = machine(), ROWS[:1], KNOWN
    halves, bias = exact_gradient(made, row, known)
    by_state = probabilities(made)

    def correlations(agrees) -> np.ndarray:
        states = {state: chance for state, chance in by_state.items() if agrees(state)}
        return sum(np.outer(s, s) * chance for s, chance in states.items()) / sum(states.values())

    given = tuple(row[0].int().tolist())
    clamped = correlations(lambda state: state[:4] == given)
    inputs = correlations(lambda state: (state[0], state[2]) == (given[0], given[2]))
    np.testing.assert_allclose(((halves + halves.T) / 2).numpy(), (inputs - clamped) * made.edges.numpy(), atol=1e-9)
    np.testing.assert_allclose(bias.numpy(), np.diag(inputs - clamped), atol=1e-9)
    with torch.no_grad():
        before = made.conditional_log_prob(row, known)
        made.bias[1] += 1e-6
        assert float(before - made.conditional_log_prob(row, known)) / 1e-6 == pytest.approx(float(bias[1]), abs=1e-5)


def test_what_the_objective_samples_is_that_gradient_on_average() -> None:
    made, row = machine(), ROWS[:1]
    inputs = torch.tensor([True, True, False, False])  # the left half of an image one pixel high
    halves, bias = exact_gradient(made, row, inputs)
    torch.manual_seed(0)
    count = 30_000
    batch = ImageBatch(row.expand(count, -1).reshape(count, 1, 1, 4), None)
    (Conditional(ConditionalObjective(inputs="left", sweeps=12))(made, batch).total / count).backward()
    torch.testing.assert_close(made.bias.grad, bias, atol=0.015, rtol=0)
    torch.testing.assert_close(made.halves.grad, halves, atol=0.015, rtol=0)
    assert (made.bias.grad[:2] == 0).all()  # nothing is learned about the inputs


def test_outputs_are_learned_and_inputs_are_not() -> None:
    """The outputs are the second input, and the opposite of the first."""
    torch.manual_seed(0)
    data = torch.tensor([[0.0, 0, 0, 1], [0, 1, 1, 1], [1, 0, 0, 0], [1, 1, 1, 0]])
    made, batch = BoltzmannMachine(4, 1), ImageBatch(data.repeat(50, 1).reshape(-1, 1, 1, 4), None)
    objective, inputs = Conditional(ConditionalObjective(inputs="left", sweeps=2)), torch.arange(4) < 2
    optimizer = torch.optim.SGD(made.parameters(), lr=1.0)
    before = made.weight[0, 1].item()
    for _ in range(60):
        optimizer.zero_grad()
        (objective(made, batch).total / batch.tokens).backward()
        optimizer.step()
    assert torch.equal((chances(made, data, inputs) > 0.5).float(), data)
    with torch.no_grad():
        assert float(made.conditional_log_prob(data, inputs).mean()) > -0.2  # 2 log ½ is -1.39
    assert (made.bias[:2] == 0).all()
    assert made.weight[0, 1].item() == before
