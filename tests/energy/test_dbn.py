"""Deep belief networks, checked by summing over all their states."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seqloom.config.schema.energy import UpDownConfig
from seqloom.data.image_batches import ImageBatch
from seqloom.metrics.annealing import exact_log_z
from seqloom.models.energy.boltzmann import all_states
from seqloom.models.energy.dbn import DeepBeliefNetwork, DeepClassifier, layer_machine
from seqloom.training.energy import UpDown

SIZES = [4, 3, 2]


def network(classes: int = 0, sizes: list[int] = SIZES) -> DeepBeliefNetwork:
    torch.manual_seed(0)
    made = DeepBeliefNetwork(sizes, classes).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.7)
    return made


@torch.no_grad()
def exact_log_probs(made: DeepBeliefNetwork) -> torch.Tensor:
    """log p of every image of a network with one layer below its top machine."""
    images, features = all_states(SIZES[0]), all_states(SIZES[1])
    prior = torch.logsumexp(-made._energies(features).double(), 0) - exact_log_z(made.top)
    means = made.generation[0](features).sigmoid()
    by_pair = torch.where(images.unsqueeze(1) == 1, means, 1 - means).log().sum(2)  # [images, features]
    return torch.logsumexp(by_pair + prior, 1)


@pytest.mark.parametrize("classes", [0, 3])
def test_probabilities_sum_to_one_over_classes_too(classes: int) -> None:
    assert float(exact_log_probs(network(classes)).exp().sum()) == pytest.approx(1)


@pytest.mark.parametrize("classes", [0, 3])
@torch.no_grad()
def test_the_bound_lies_below_by_the_divergence_of_recognition(classes: int) -> None:
    """log p(v) - bound = KL(q(h | v) ‖ p(h | v)), found by summing."""
    made = network(classes)
    images, features = all_states(SIZES[0]), all_states(SIZES[1])
    exact, log_z = exact_log_probs(made), exact_log_z(made.top)
    means = made.recognition[0](images).sigmoid()
    recognised = torch.where(features.unsqueeze(0) == 1, means.unsqueeze(1), 1 - means.unsqueeze(1)).prod(2)
    pixels = made.generation[0](features).sigmoid()
    joint = torch.where(images.unsqueeze(1) == 1, pixels, 1 - pixels).log().sum(2)
    joint = joint + torch.logsumexp(-made._energies(features).double(), 0) - log_z
    bound = (recognised * (joint - recognised.log())).sum(1)
    assert (bound <= exact).all()
    sampled = made.bound(images.repeat(4000, 1), log_z).view(4000, -1).mean(0)
    torch.testing.assert_close(sampled, bound, atol=0.06, rtol=0)


@torch.no_grad()
def test_samples_have_the_probabilities_of_the_model() -> None:
    made = network()
    torch.manual_seed(1)
    size = 20_000
    drawn = torch.bernoulli(made.draw(size, steps=30))
    numbers = (drawn @ torch.tensor([1.0, 2, 4, 8]).double()).long()
    counted = torch.bincount(numbers, minlength=16).double() / size
    torch.testing.assert_close(counted, exact_log_probs(made).exp(), atol=0.015, rtol=0)


@torch.no_grad()
def test_classes_are_held_while_drawing() -> None:
    made = network(classes=2, sizes=[4, 6])
    made.top.weight.zero_()
    made.top.weight[4, :] = 8.0  # the first class turns all hidden units on, and they turn all pixels on
    made.top.weight[:4, :] = 2.0
    made.top.weight[5, :] = -20.0
    made.top.hidden.bias.fill_(-8.0)
    made.top.visible.bias.fill_(-5.0)
    labels = torch.tensor([0, 1] * 50)
    drawn = made.draw(100, steps=20, labels=labels)
    assert float(drawn[labels == 0].mean()) > 0.9
    assert float(drawn[labels == 1].mean()) < 0.1


def test_wake_and_sleep_learn_each_other() -> None:
    """Recognition weights move only by what falls, generative weights only by what rises."""
    made = network(sizes=[6, 5, 4, 3])
    batch = ImageBatch(torch.bernoulli(torch.rand(8, 1, 2, 3)).double(), None)
    loss = UpDown(UpDownConfig(steps=2))(made, batch)
    loss.total.backward()
    for layer in [*made.recognition, *made.generation]:
        assert isinstance(layer, nn.Linear)
        assert layer.weight.grad is not None
        assert torch.isfinite(layer.weight.grad).all()
    assert made.top.weight.grad is not None
    assert float(loss.logs["loss"]) > 0


def test_a_trained_machine_takes_its_place_in_both_directions() -> None:
    made = network()
    machine = network(sizes=[4, 3]).top
    made.take(0, machine)
    images = all_states(4)
    with torch.no_grad():
        torch.testing.assert_close(made.recognition[0](images).sigmoid(), machine.hidden_mean(images))
        hidden = all_states(3)
        torch.testing.assert_close(made.picture(hidden), machine.visible_mean(hidden))


@pytest.mark.parametrize("classes", [0, 3])
@torch.no_grad()
def test_a_machine_turned_over_keeps_the_likelihood_of_the_one_below(classes: int) -> None:
    """Before the top machine learns, the network gives every image the probability that the first machine gave it."""
    machine = network(sizes=[4, 3]).top
    made = network(classes, sizes=[4, 3, 6])
    made.take(0, machine)
    top = layer_machine(made, 1, torch.full((3,), 0.5)).double()
    top.weight[:, 4:] = 0  # what else it has is noise
    top.weight[3:] = 0
    made.take(1, top)
    torch.testing.assert_close(exact_log_probs(made), machine.log_prob(all_states(4), exact_log_z(machine)))


def test_a_machine_too_small_to_be_turned_over_begins_with_noise() -> None:
    made = network(sizes=[4, 3, 2])
    assert float(layer_machine(made, 1, torch.full((3,), 0.5)).weight.detach().abs().max()) < 0.1


def test_a_classifier_begins_with_the_features_of_the_network() -> None:
    made = network(classes=2)
    classifier = DeepClassifier(SIZES, 2, 0.0).double()
    classifier.begin_with(made)
    images = all_states(4)
    with torch.no_grad():
        first = made.recognition[0](images).sigmoid()
        wanted = (first @ made.top.weight[:3] + made.top.hidden.bias).sigmoid()
        found = classifier.layers[1](classifier.layers[0](images).sigmoid()).sigmoid()
    torch.testing.assert_close(found, wanted)
