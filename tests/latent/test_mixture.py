"""The mixture of Bernoullis against enumeration, and EM's promise."""

from __future__ import annotations

import itertools

import pytest
import torch

from seqloom.config.schema.latent import MixtureConfig
from seqloom.data.image_batches import all_batches
from seqloom.data.images import load_images
from seqloom.models.latent.mixture import BernoulliMixture

SHAPE = (1, 2, 3)


def small(components: int = 3) -> BernoulliMixture:
    torch.manual_seed(0)
    model = BernoulliMixture(MixtureConfig(components=components), SHAPE)
    model.logits.normal_()
    model.log_shares.copy_(torch.randn(components).log_softmax(0))
    return model


def every_image() -> torch.Tensor:
    return torch.tensor(list(itertools.product([0.0, 1.0], repeat=6))).view(-1, *SHAPE)


def test_the_probabilities_of_all_images_sum_to_one() -> None:
    assert float(small().log_prob(every_image()).exp().sum()) == pytest.approx(1.0, abs=1e-5)


def test_log_prob_and_responsibilities_are_those_of_the_definition() -> None:
    model, image = small(), every_image()[37:38]
    means, shares = model.means().flatten(1), model.log_shares.exp()
    pixels = image.flatten()
    joint = [
        float(shares[k]) * float((means[k] ** pixels * (1 - means[k]) ** (1 - pixels)).prod())
        for k in range(len(shares))
    ]
    assert float(model.log_prob(image).exp()) == pytest.approx(sum(joint), rel=1e-4)
    expected = [each / sum(joint) for each in joint]
    assert model.responsibilities(image)[0].tolist() == pytest.approx(expected, rel=1e-4)


def test_drawn_images_have_their_probabilities() -> None:
    model = small()
    drawn = model.draw(40_000, torch.Generator().manual_seed(0)).flatten(1)
    numbers = (drawn * 2 ** torch.arange(5, -1, -1)).sum(1).long()
    shares = torch.bincount(numbers, minlength=64) / len(drawn)
    torch.testing.assert_close(shares, model.log_prob(every_image()).exp(), atol=0.006, rtol=0)


@pytest.mark.parametrize("smoothing", [1e-9, 1.0])
def test_em_never_falls(smoothing: float) -> None:
    """With smoothing, the log-likelihood together with the log-prior; next to none, the likelihood itself."""
    images = torch.cat([batch.images for batch in all_batches(load_images("digits"), 500, "binary")])[:600].double()
    model = BernoulliMixture(MixtureConfig(components=8, smoothing=smoothing), (1, 8, 8)).double()
    model.begin(images, torch.Generator().manual_seed(0))
    found = [model.improve(images) for _ in range(25)]
    climbed = [both[1 if smoothing == 1.0 else 0] for both in found]
    assert all(after >= before - 1e-6 for before, after in itertools.pairwise(climbed))
    assert climbed[-1] > climbed[0] + 3


def test_one_component_is_the_mean_image() -> None:
    images = every_image()[20:50]
    model = BernoulliMixture(MixtureConfig(components=1, smoothing=1e-6), SHAPE)
    model.begin(images, torch.Generator().manual_seed(0))
    torch.testing.assert_close(model.means()[0], images.mean(0), atol=1e-4, rtol=0)
