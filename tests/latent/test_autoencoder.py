"""Autoencoders, the noise they undo, and PCA beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from seqloom.config.schema.latent import AutoencoderConfig, DenseNetworks
from seqloom.data.image_batches import ImageBatch, all_batches
from seqloom.data.images import load_images
from seqloom.errors import ConfigError
from seqloom.models.latent.autoencoder import Autoencoder
from seqloom.models.latent.noise import corrupt
from seqloom.models.latent.pca import Pca


@pytest.fixture(scope="module")
def digits() -> torch.Tensor:
    return next(all_batches(load_images("digits"), 300, "grey")).images


def test_pca_is_that_of_scikit_learn(digits: torch.Tensor) -> None:
    ours = Pca(10, (1, 8, 8)).fit(digits)
    theirs = PCA(10, svd_solver="full").fit(digits.flatten(1).double().numpy())
    torch.testing.assert_close(ours.variances.double(), torch.from_numpy(theirs.explained_variance_), rtol=1e-5, atol=0)
    likeness = (ours.components.double() @ torch.from_numpy(theirs.components_).T).diagonal().abs()
    torch.testing.assert_close(likeness, torch.ones(10).double(), rtol=1e-5, atol=0)
    expected = torch.from_numpy(theirs.inverse_transform(theirs.transform(digits.flatten(1).double().numpy())))
    torch.testing.assert_close(ours.reconstruct(digits).flatten(1).double(), expected.clamp(0, 1), rtol=0, atol=1e-4)


def test_all_components_lose_nothing(digits: torch.Tensor) -> None:
    torch.testing.assert_close(Pca(64, (1, 8, 8)).fit(digits).reconstruct(digits), digits, rtol=0, atol=1e-5)


def test_pca_refuses_more_components_than_pixels_or_images(digits: torch.Tensor) -> None:
    with pytest.raises(ConfigError, match=r"model\.size is 65"):
        Pca(65, (1, 8, 8))
    with pytest.raises(ConfigError, match="more than 10 images"):
        Pca(10, (1, 8, 8)).fit(digits[:10])


def test_a_linear_autoencoder_cannot_beat_pca_and_comes_close(digits: torch.Tensor) -> None:
    """Baldi & Hornik 1989: the best linear code spans the principal components."""
    batch = ImageBatch(digits, None)
    config = AutoencoderConfig(size=8, networks=DenseNetworks(sizes=()), loss="squared-error")
    torch.manual_seed(0)
    model = Autoencoder(config, (1, 8, 8))
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(300):
        optimizer.zero_grad()
        error = (model.decoder(model.transform(digits)) - digits).square().sum() / batch.tokens
        error.backward()
        optimizer.step()
    pca = Pca(8, (1, 8, 8)).fit(digits)
    linear = pca.mean + pca.transform(digits) @ pca.components
    reached, best = float(error.detach()), float((linear - digits.flatten(1)).square().sum() / batch.tokens)
    assert best <= reached + 1e-6
    assert reached < 1.1 * best


@pytest.mark.parametrize("loss", ["cross-entropy", "squared-error"])
def test_the_loss_is_against_the_clean_image(digits: torch.Tensor, loss: str) -> None:
    config = AutoencoderConfig.model_validate({"size": 4, "noise": "masking", "strength": 0.3, "loss": loss})
    model, clean = Autoencoder(config, (1, 8, 8)), digits[:5]
    shown = model.reconstruct(corrupt(clean, "masking", 0.3, torch.Generator().manual_seed(3)))
    if loss == "squared-error":
        expected = (shown - clean).square().sum()
    else:
        expected = -(clean * shown.log() + (1 - clean) * (1 - shown).log()).sum()
    found = model.loss(ImageBatch(clean, None), torch.Generator().manual_seed(3))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=0)


def test_noise_does_what_its_name_says() -> None:
    images = torch.full((200, 1, 10, 10), 0.5)
    random = torch.Generator().manual_seed(0)
    masked = corrupt(images, "masking", 0.3, random)
    assert float((masked == 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert set(masked.unique().tolist()) == {0.0, 0.5}
    salted = corrupt(images, "salt-and-pepper", 0.4, random)
    assert [float((salted == value).float().mean()) for value in (0.0, 0.5, 1.0)] == pytest.approx(
        [0.2, 0.6, 0.2], abs=0.01
    )
    noisy = corrupt(images, "gaussian", 0.5, random)
    assert float(noisy.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(noisy.std()) == pytest.approx(0.5, abs=0.01)
    assert corrupt(images, "none", 0.5, random) is images


def test_drawn_codes_have_the_mean_and_covariance_of_those_seen() -> None:
    torch.manual_seed(0)
    mixing = torch.tensor([[1.0, 0.0], [2.0, 0.5]])
    codes = torch.randn(4000, 2) @ mixing.T + torch.tensor([3.0, -1.0])
    model = Pca(2, (1, 2, 2))
    model.fit_codes(codes)
    drawn = model.draw_codes(20000, torch.Generator().manual_seed(1))
    torch.testing.assert_close(drawn.mean(0), codes.mean(0), atol=0.06, rtol=0)
    torch.testing.assert_close(drawn.T.cov(), codes.T.cov(), atol=0.15, rtol=0)


def test_noise_on_codes_costs_what_its_integral_says(digits: torch.Tensor) -> None:
    """Of a linear decoder, a pixel's logit is a + s‖w‖ξ, ξ ~ N(0, 1): the mean loss by Gauss-Hermite quadrature."""
    torch.manual_seed(0)
    config = AutoencoderConfig(size=3, networks=DenseNetworks(sizes=()), code_noise=0.7)
    model, batch = Autoencoder(config, (1, 8, 8)), ImageBatch(digits[:20], None)
    with torch.no_grad():
        model.decoder.pixels.weight.normal_()
        logits = model.decoder(model.transform(batch.images)).flatten(1).double()
        points, weights = map(torch.from_numpy, np.polynomial.hermite_e.hermegauss(60))
        spread = 0.7 * model.decoder.pixels.weight.double().norm(dim=1)
        softened = (torch.nn.functional.softplus(logits.unsqueeze(-1) + spread.unsqueeze(-1) * points) * weights).sum(
            -1
        )
        expected = (softened / math.sqrt(2 * math.pi) - batch.images.flatten(1) * logits).sum()
        model.train()
        found = torch.stack([model.loss(batch) for _ in range(400)]).mean()
        assert float(found) == pytest.approx(float(expected), rel=0.01)
        model.eval()
        clean = torch.nn.functional.binary_cross_entropy_with_logits(
            logits.float(), batch.images.flatten(1), reduction="sum"
        )
        torch.testing.assert_close(model.loss(batch), clean)
        assert float(expected) > 1.1 * float(clean)
