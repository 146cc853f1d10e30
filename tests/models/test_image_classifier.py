"""Classifiers of images: the vision Transformer's features against its formula, and what it can learn."""

from __future__ import annotations

import pytest
import torch

from seqloom.config.schema.image_classifier import ImageClassifierConfig
from seqloom.data.image_batches import ImageBatch
from seqloom.errors import ConfigError
from seqloom.models.image_classifier import ImageClassifier

VIT = {"kind": "vit", "patch": 2, "size": 16, "layers": 1, "heads": 2}


def build(shape: tuple[int, int, int] = (1, 4, 6), **encoder: object) -> ImageClassifier:
    torch.manual_seed(0)
    config = ImageClassifierConfig.model_validate({"encoder": VIT | encoder, "features": 16, "dropout": 0.0})
    return ImageClassifier(config, shape, 3).eval()


@torch.no_grad()
def test_features_are_read_from_the_mean_of_the_patches() -> None:
    model = build()
    images = torch.rand(2, 1, 4, 6)
    memory = model.body.encoder.read(images)  # [2, 6 patches, 16]
    assert memory.shape == (2, 6, 16)
    mean = torch.stack([sum(row.unbind()) / 6 for row in memory])
    expected = (mean @ model.body.project.weight.T + model.body.project.bias).clamp(min=0)
    torch.testing.assert_close(model.features(images), expected)
    scores = expected @ model.output.weight.T + model.output.bias
    torch.testing.assert_close(model.log_probs(images), scores - scores.logsumexp(1, keepdim=True))


@torch.no_grad()
def test_without_positions_patches_could_change_places_and_with_them_they_cannot() -> None:
    model = build()
    images = torch.rand(1, 1, 4, 6)
    turned = torch.cat([images[..., 2:], images[..., :2]], dim=3)  # whole patches
    assert not torch.allclose(model.features(images), model.features(turned), atol=1e-6)
    model.body.encoder.positions.weight.zero_()
    torch.testing.assert_close(model.features(images), model.features(turned))


def test_it_learns_where_a_light_is() -> None:
    model = build((1, 4, 4)).train()
    labels = torch.arange(3).repeat(40)
    images = torch.zeros(120, 1, 4, 4)
    images[torch.arange(120), 0, labels, labels] = 1.0
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(150):
        optimizer.zero_grad()
        loss = model.loss(ImageBatch(images, labels))
        loss.backward()
        optimizer.step()
    assert loss.item() / 120 < 0.05
    assert torch.equal(model.log_probs(images).argmax(1), labels)


def test_patches_that_do_not_cover_the_image_are_refused() -> None:
    with pytest.raises(ConfigError, match="patches of 4×4 pixels do not cover images of 6×4"):
        build(patch=4)
