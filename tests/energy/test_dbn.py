"""Deep belief networks, checked by summing over all their states."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from seqloom.config.schema.energy import UpDownConfig
from seqloom.data.image_batches import ImageBatch
from seqloom.metrics.annealing import exact_log_z
from seqloom.models.energy.boltzmann import all_states
from seqloom.models.energy.dbn import DeepBeliefNetwork, DeepClassifier, NormalPixels, layer_machine
from seqloom.models.energy.rbm import RestrictedBoltzmannMachine
from seqloom.models.energy.units import BernoulliUnits, GaussianVisibleUnits
from seqloom.training.energy import UpDown

SIZES = [4, 3, 2]


def network(classes: int = 0, sizes: list[int] = SIZES, normal: bool = False) -> DeepBeliefNetwork:
    torch.manual_seed(0)
    made = DeepBeliefNetwork(sizes, classes, normal).double()
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
    top = layer_machine(made, 1, torch.full((1, 3), 0.5)).double()
    top.weight[:, 4:] = 0  # what else it has is noise
    top.weight[3:] = 0
    made.take(1, top)
    torch.testing.assert_close(exact_log_probs(made), machine.log_prob(all_states(4), exact_log_z(machine)))


def test_a_machine_too_small_to_be_turned_over_begins_with_noise() -> None:
    made = network(sizes=[4, 3, 2])
    assert float(layer_machine(made, 1, torch.full((1, 3), 0.5)).weight.detach().abs().max()) < 0.1


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


@torch.no_grad()
def test_classes_of_the_top_machine_are_those_of_all_its_states() -> None:
    """p(class | features), the hidden units of the top machine summed over one by one."""
    made = network(classes=3)
    images = all_states(4)
    features = made.recognition[0](images).sigmoid()
    joint = []
    for number in range(3):
        seen = made.joined(features, torch.full((len(images),), number))
        hidden = all_states(SIZES[2])
        energies = torch.stack([made.top.energy(seen, state.expand(len(images), -1)) for state in hidden])
        joint.append(torch.logsumexp(-energies, 0))
    torch.testing.assert_close(made.log_probs(images), torch.stack(joint, 1).log_softmax(1))


@torch.no_grad()
def test_the_means_of_layers_rise_from_the_images() -> None:
    made = network(classes=3)
    images = all_states(4)
    first, second = made.means(images)
    torch.testing.assert_close(first, made.recognition[0](images).sigmoid())
    weight = made.top.weight
    drive = first @ weight[:3] + weight[3:].mean(0) + made.top.hidden.bias
    torch.testing.assert_close(second, drive.sigmoid())


# ----------------------------------------------------------------------------------------------------- normal pixels


@torch.no_grad()
def as_mixture(made: DeepBeliefNetwork) -> MixtureSameFamily:
    """p(v) = Σ_h p(h) N(v; Wh + b, diag σ²), with the states of the layer over the pixels one by one."""
    features = all_states(SIZES[1])
    prior = torch.logsumexp(-made._energies(features), 0) - exact_log_z(made.top)
    pixels = made.pixels
    assert isinstance(pixels, NormalPixels)
    means = made.generation[0](features)
    return MixtureSameFamily(Categorical(logits=prior), MultivariateNormal(means, pixels.log_variance.exp().diag()))


@pytest.mark.parametrize("classes", [0, 3])
@torch.no_grad()
def test_the_bound_of_normal_pixels_lies_below_the_density_by_the_divergence(classes: int) -> None:
    made = network(classes, normal=True)
    density = as_mixture(made)
    images, features, log_z = torch.randn(6, 4).double(), all_states(SIZES[1]), exact_log_z(made.top)
    exact = density.log_prob(images)
    means = made.recognition[0](images).sigmoid().unsqueeze(1)
    recognised = torch.where(features.unsqueeze(0) == 1, means, 1 - means).prod(2)
    given = density.component_distribution.log_prob(images.unsqueeze(1))
    bound = (recognised * (given + density.mixture_distribution.logits - recognised.log())).sum(1)
    assert (bound < exact).all()
    posterior = (given + density.mixture_distribution.logits).softmax(1)
    divergence = (recognised * (recognised.log() - posterior.log())).sum(1)
    torch.testing.assert_close(exact - bound, divergence)
    sampled = made.bound(images.repeat(8000, 1), log_z).view(8000, -1)
    bars = sampled.std(0) / 8000**0.5
    assert (bars < 0.1).all()
    assert ((sampled.mean(0) - bound).abs() < 5 * bars).all()


@torch.no_grad()
def test_normal_pixels_are_drawn_with_the_moments_of_the_model() -> None:
    made = network(normal=True)
    density = as_mixture(made)
    torch.manual_seed(1)
    drawn = made.pixels.sample(made.draw(40_000, steps=30))
    torch.testing.assert_close(drawn.mean(0), density.mean, atol=0.04, rtol=0)
    means = density.component_distribution.mean
    shares = density.mixture_distribution.probs
    expected = (means - density.mean).T @ torch.diag(shares) @ (means - density.mean)
    expected = expected + density.component_distribution.covariance_matrix[0]
    torch.testing.assert_close(torch.cov(drawn.T), expected, atol=0.08, rtol=0)


def gaussian_machine() -> RestrictedBoltzmannMachine:
    torch.manual_seed(3)
    visible = GaussianVisibleUnits(torch.randn(4).double(), torch.randn(4).double())
    machine = RestrictedBoltzmannMachine(visible, BernoulliUnits(torch.randn(3).double())).double()
    with torch.no_grad():
        machine.weight.normal_()
    return machine


@torch.no_grad()
def test_a_machine_of_gaussian_pixels_takes_its_place_in_both_directions() -> None:
    """And p(v | h) is what the machine's own energies make it."""
    made, machine = network(normal=True), gaussian_machine()
    made.take(0, machine)
    images, hidden = torch.randn(8, 4).double(), all_states(3)
    torch.testing.assert_close(made.recognition[0](images).sigmoid(), machine.hidden_mean(images))
    torch.testing.assert_close(made.picture(hidden), machine.visible_mean(hidden))
    given = machine.visible.cumulant(machine.visible_drive(hidden)) - machine.hidden.energy(hidden)  # log Σ_v exp(-E)
    torch.testing.assert_close(
        made.pixels.log_prob(made.generation[0](hidden), images), -machine.energy(images, hidden) - given
    )


@torch.no_grad()
def test_a_single_machine_of_gaussian_pixels_is_a_network() -> None:
    made, machine = network(sizes=[4, 3], normal=True), gaussian_machine()
    made.take(0, machine)
    images, log_z = torch.randn(8, 4).double(), exact_log_z(machine)
    torch.testing.assert_close(made.bound(images, log_z), machine.log_prob(images, log_z))
    torch.testing.assert_close(made.means(images)[0], machine.hidden_mean(images))
    classifier = DeepClassifier([4, 3], 2, 0.0).double()
    classifier.begin_with(made)
    torch.testing.assert_close(classifier.means(images)[0], machine.hidden_mean(images))
    assert sum(each.numel() for each in made.parameters() if each.requires_grad) == 4 + 4 + 3 + 12


def test_first_machines_of_normal_pixels_begin_as_the_data_and_are_not_turned_over() -> None:
    made = network(sizes=[4, 3, 6], normal=True)
    inputs = torch.randn(50, 4) * torch.tensor([1.0, 2, 3, 4]) + 5
    visible = layer_machine(made, 0, inputs).visible
    assert isinstance(visible, GaussianVisibleUnits)
    torch.testing.assert_close(visible.bias.detach(), inputs.mean(0))
    torch.testing.assert_close(visible.variance.detach(), inputs.var(0, correction=0))
    assert float(layer_machine(made, 1, torch.full((1, 3), 0.5)).weight.detach().abs().max()) < 0.1


def test_variances_of_pixels_learn_awake() -> None:
    """∂(-log p)/∂log σ² = ½ (1 - (v - μ)²/σ²), summed over images, with v the images and μ from what rose."""
    made = network(normal=True)
    images = torch.randn(8, 1, 2, 2).double()
    torch.manual_seed(5)
    UpDown(UpDownConfig(steps=1))(made, ImageBatch(images, None)).total.backward()
    torch.manual_seed(5)
    with torch.no_grad():
        means = made.picture(made.rise(images.flatten(1))[1])
        pixels = made.pixels
        assert isinstance(pixels, NormalPixels)
        squares = (images.flatten(1) - means).square() / pixels.log_variance.exp()
    assert pixels.log_variance.grad is not None
    torch.testing.assert_close(pixels.log_variance.grad, 0.5 * (1 - squares).sum(0))
