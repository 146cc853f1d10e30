"""The variational autoencoder against a linear one, whose likelihood is known in closed form."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from seqloom.config.schema.latent import VaeConfig
from seqloom.config.schema.objectives import ElboObjective, ImportanceObjective
from seqloom.data.image_batches import ImageBatch
from seqloom.errors import DataError
from seqloom.models.latent.vae import Vae
from seqloom.models.latent.variational import divergence
from seqloom.training.bounds import Elbo, ImportanceWeighted

SHAPE = (1, 2, 3)


def linear(size: int = 2, head: str = "log-variance") -> Vae:
    """Without layers and with normal pixels: x = Wz + b + s ε."""
    config = VaeConfig.model_validate(
        {"size": size, "networks": {"kind": "dense", "sizes": []}, "pixels": "gaussian", "head": head}
    )
    torch.manual_seed(1)
    return Vae(config, SHAPE)


def batch(rows: int = 5, labels: bool = False) -> ImageBatch:
    torch.manual_seed(2)
    return ImageBatch(torch.rand(rows, *SHAPE), torch.arange(rows) % 3 if labels else None)


def exact_log_prob(model: Vae, images: Tensor) -> Tensor:
    """x ~ N(b, WWᵀ + s²I)."""
    weight, bias = model.decoder.pixels.weight, model.decoder.pixels.bias
    variance = model.pixels.log_deviation.exp() ** 2
    covariance = weight @ weight.T + variance * torch.eye(len(bias))
    return MultivariateNormal(bias, covariance).log_prob(images.flatten(1)).detach()


def with_exact_posterior() -> Vae:
    """Some columns of W at right angles, and the encoder that goes with them."""
    model = linear()
    set_weights(model, torch.linalg.qr(torch.randn(6, 2)).Q * torch.tensor([1.5, 0.7]), torch.rand(6))
    return model


@torch.no_grad()
def set_weights(model: Vae, weight: Tensor, bias: Tensor) -> None:
    """The columns of W at right angles: then the posterior has independent numbers, and the encoder can be it."""
    variance = float(model.pixels.log_deviation.exp()) ** 2
    model.decoder.pixels.weight.copy_(weight)
    model.decoder.pixels.bias.copy_(bias)
    precision = 1 + weight.square().sum(0) / variance
    mapping = weight.T / variance / precision.unsqueeze(1)
    model.head.weight.zero_()
    model.head.weight[:2] = mapping
    model.head.bias[:2] = -mapping @ bias
    model.head.bias[2:] = -precision.log()


def test_the_divergence_is_its_integral() -> None:
    grid = torch.linspace(-30, 30, 200001).double()
    for mean, deviation in [(0.0, 1.0), (1.3, 0.4), (-2.0, 2.5)]:
        own = -0.5 * ((grid - mean) / deviation) ** 2 - math.log(deviation) - 0.5 * math.log(2 * math.pi)
        prior = -0.5 * grid**2 - 0.5 * math.log(2 * math.pi)
        integral = torch.trapezoid(own.exp() * (own - prior), grid)
        found = divergence(torch.tensor(mean).double(), torch.tensor(deviation).double())
        assert float(found) == pytest.approx(float(integral), abs=1e-6)


@pytest.mark.parametrize("head", ["log-variance", "softplus"])
def test_bounds_lie_below_the_exact_likelihood_and_importance_sampling_reaches_it(head: str) -> None:
    model, given = linear(head=head), batch()
    exact = exact_log_prob(model, given.images)
    with torch.no_grad():
        elbo = model.elbo(given, 5000)
        tighter = torch.stack([model.importance_bound(given, 10) for _ in range(300)]).mean(0)
        assert bool((elbo < exact).all())
        assert bool((elbo < tighter).all())
        assert bool((tighter < exact + 0.02).all())
        torch.testing.assert_close(model.log_prob(given, 100_000), exact.double(), atol=0.02, rtol=0)


def test_with_the_exact_posterior_the_bound_is_the_likelihood() -> None:
    model, given = with_exact_posterior(), batch()
    exact = exact_log_prob(model, given.images)
    with torch.no_grad():
        weights = model.log_weights(given, 20)
        torch.testing.assert_close(weights, exact.expand(20, -1), atol=2e-4, rtol=0)  # every single draw
        torch.testing.assert_close(model.elbo(given, 40_000), exact, atol=0.03, rtol=0)
        torch.testing.assert_close(model.log_prob(given, 3), exact.double(), atol=2e-4, rtol=0)


def test_what_the_bound_lacks_is_the_divergence_from_the_posterior() -> None:
    """log p(x) = ELBO + KL(q(z | x) ‖ p(z | x)). The posterior of a linear model is normal, with precision I + WᵀW/s²,
    and its log p(x | z) is quadratic in z, so that the mean over q is the mean over four points around its centre."""
    model, given = linear(), batch()
    weight, bias = model.decoder.pixels.weight.detach(), model.decoder.pixels.bias.detach()
    variance = math.exp(-1.0) ** 2
    precision = torch.eye(2) + weight.T @ weight / variance
    centres = (given.images.flatten(1) - bias) @ weight / variance @ torch.linalg.inv(precision)
    points = math.sqrt(2) * torch.cat([torch.eye(2), -torch.eye(2)]).unsqueeze(1)
    with torch.no_grad():
        mean, deviation = model.posterior(given)
        own = MultivariateNormal(mean, torch.diag_embed(deviation**2))
        missing = kl_divergence(own, MultivariateNormal(centres, precision_matrix=precision))
        bound = model.likelihood(given, mean + deviation * points).mean(0) - divergence(mean, deviation).sum(1)
        torch.testing.assert_close(bound + missing, exact_log_prob(model, given.images), atol=1e-4, rtol=0)
        torch.testing.assert_close(model.elbo(given, 40_000), bound, atol=0.3, rtol=0)
    assert bool((missing > 0.1).all())


def test_the_estimate_from_the_prior_agrees_where_codes_are_few_and_easy() -> None:
    model, given = linear(size=1), batch()
    exact = exact_log_prob(model, given.images).double()
    torch.manual_seed(0)
    torch.testing.assert_close(model.prior_log_prob(given, 200_000), exact, atol=0.05, rtol=0)


def test_the_estimate_from_the_prior_fails_where_codes_tell_much() -> None:
    """A sharp decoder with many numbers: no draw from the prior explains the image, one from the posterior does."""
    config = VaeConfig.model_validate({"size": 6, "networks": {"kind": "dense", "sizes": []}, "pixels": "gaussian"})
    model = Vae(config, SHAPE)
    with torch.no_grad():
        model.decoder.pixels.weight.copy_(torch.eye(6))
        model.pixels.log_deviation.fill_(-4.0)
    given = batch(2)
    exact = exact_log_prob(model, given.images).double()
    assert bool((model.prior_log_prob(given, 2000) < exact - 50).all())


def test_one_importance_sample_is_the_evidence_lower_bound() -> None:
    """The mean of log w over many single draws is the bound with the divergence in closed form."""
    model, given = linear(), batch()
    with torch.no_grad():
        torch.manual_seed(0)
        single = model.log_weights(given, 100_000).mean(0)
        torch.manual_seed(0)  # the same draws: what is left is the divergence, by draws against its closed form
        torch.testing.assert_close(single, model.elbo(given, 100_000), atol=0.03, rtol=0)
        torch.manual_seed(3)
        weights = model.log_weights(given, 1)[0]
        torch.manual_seed(3)
        torch.testing.assert_close(model.importance_bound(given, 1), weights)


@pytest.mark.parametrize(
    "objective",
    [
        Elbo(ElboObjective(samples=3, beta=0.7)),
        Elbo(ElboObjective(free_bits=0.3)),
        ImportanceWeighted(ImportanceObjective(samples=4)),
    ],
    ids=["elbo", "bits", "iwae"],
)
@pytest.mark.parametrize("head", ["log-variance", "softplus"])
def test_gradients_through_the_draws_are_those_of_finite_differences(objective: Any, head: str) -> None:
    config = VaeConfig.model_validate(
        {"size": 2, "networks": {"kind": "dense", "sizes": [4], "activation": "softplus"}, "head": head}
    )
    torch.manual_seed(0)
    model, given = Vae(config, SHAPE).double(), batch()
    given = ImageBatch(given.images.double(), None)

    def loss() -> Tensor:
        torch.manual_seed(5)
        total: Tensor = objective(model, given).total
        return total

    loss().backward()
    for parameter in (model.head.weight, model.encoder.layers[0].weight, model.decoder.pixels.bias):
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        for place in range(0, len(flat), max(1, len(flat) // 4)):
            before = float(flat[place])
            values = []
            for step in (1e-5, -1e-5):
                flat[place] = before + step
                values.append(float(loss().detach()))
            flat[place] = before
            assert float(gradient[place]) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4, abs=1e-6)


def test_free_bits_leave_small_divergences_alone() -> None:
    model, given = linear(), batch()
    torch.manual_seed(0)
    plain = Elbo(ElboObjective())(model, given)
    torch.manual_seed(0)
    free = Elbo(ElboObjective(free_bits=100.0))(model, given)
    difference = 100.0 * 2 * given.tokens - plain.logs["divergence"]
    torch.testing.assert_close(free.total - plain.total, difference, rtol=1e-4, atol=0)


def test_the_divergence_is_weighted_more_and_more_during_the_warm_up() -> None:
    objective = Elbo(ElboObjective(beta=2.0, warm_up=0.5))
    weights = []
    for done in (0.0, 0.25, 0.5, 1.0):
        objective.advance(done)
        weights.append(objective.weight)
    assert weights == [0.0, 1.0, 2.0, 2.0]


def test_a_conditional_model_sees_the_class() -> None:
    model = Vae(VaeConfig(size=2), SHAPE, classes=3)
    given = batch(labels=True)
    assert model.elbo(given).shape == (5,)
    other = ImageBatch(given.images, (given.labels + 1) % 3)
    assert not torch.allclose(model.posterior(given)[0], model.posterior(other)[0])
    codes = torch.randn(4, 5, 2)
    assert model.decode(codes, given.labels).shape == (4, 5, *SHAPE)
    with pytest.raises(DataError, match="classes"):
        model.elbo(batch())
    with pytest.raises(DataError, match="a class is 7"):
        model.elbo(ImageBatch(given.images, torch.full((5,), 7)))


def test_with_a_fixed_deviation_the_best_linear_model_is_probabilistic_pca() -> None:
    """The best x = Wz + b + s ε for a given s (Tipping & Bishop 1999): W = U (Λ - s²)^½, by the first variances of the
    data; along all other directions it has s². There the bound is the likelihood, and nothing is to be gained."""
    torch.manual_seed(0)
    deviation = 0.3
    config = VaeConfig.model_validate(
        {"size": 2, "networks": {"kind": "dense", "sizes": []}, "pixels": "gaussian", "deviation": deviation}
    )
    model = Vae(config, SHAPE)
    images = torch.randn(40, 2) @ torch.randn(2, 6) + deviation * torch.randn(40, 6)
    given = ImageBatch(images.view(-1, *SHAPE), None)
    variances, directions = (each.flip(-1) for each in torch.linalg.eigh(torch.cov(images.T, correction=0)))
    columns = directions[:, :2] * (variances[:2] - deviation**2).sqrt()
    modelled = torch.cat([variances[:2], torch.full((4,), deviation**2)])
    best = float(-0.5 * (6 * math.log(2 * math.pi) + (modelled.log() + variances / modelled).sum()))

    def steepest(weight: Tensor) -> float:
        """The largest derivative of the mean bound."""
        set_weights(model, weight, images.mean(0))
        model.zero_grad()
        model.elbo(given, 4000).mean().backward()
        return max(float(each.grad.abs().max()) for each in model.parameters() if each.grad is not None)

    elsewhere = steepest(1.3 * columns)
    assert steepest(columns) < elsewhere / 10
    with torch.no_grad():
        assert float(model.log_weights(given, 1).mean()) == pytest.approx(best, abs=1e-3)
    assert not model.pixels.log_deviation.requires_grad
    assert float(model.pixels.log_deviation.exp()) == pytest.approx(deviation)


def test_a_fixed_deviation_is_one_of_gaussian_pixels() -> None:
    with pytest.raises(ValueError, match="set pixels to gaussian"):
        VaeConfig(deviation=0.1)
