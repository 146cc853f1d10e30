"""Two players in one loss: each has its own gradient, and no other."""

from __future__ import annotations

import pytest
import torch

from seqloom.config.schema.adversarial import DcganPlayers, DensePlayers, GanConfig
from seqloom.config.schema.objectives import AdversarialObjective
from seqloom.data.image_batches import ImageBatch
from seqloom.errors import ConfigError
from seqloom.models.adversarial.diagnostics import generator_gradients
from seqloom.models.adversarial.gan import Gan
from seqloom.models.adversarial.losses import discriminator_loss, generator_loss
from seqloom.training.adversarial import Adversarial

NETWORKS = {"dense": DensePlayers(sizes=[16, 12]), "dcgan": DcganPlayers(width=4)}


def players(network: str = "dense", shape=(1, 8, 8), classes: int = 0, **settings) -> Gan:
    torch.manual_seed(0)
    config = GanConfig(network=NETWORKS[network], latent=5, conditional=classes > 0, **settings)
    return Gan(config, shape, classes)


def batch_of(shape=(1, 8, 8), rows: int = 6, classes: int = 3) -> ImageBatch:
    return ImageBatch(torch.rand(rows, *shape), torch.arange(rows) % classes)


def gradients(module: torch.nn.Module) -> list[torch.Tensor | None]:
    return [parameter.grad for parameter in module.parameters()]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("loss", ["minimax", "non-saturating"])
def test_each_player_has_the_gradient_of_its_own_loss(network: str, loss):
    """The one combined loss beside two losses differentiated apart, each for its player's weights."""
    model, batch = players(network), batch_of()
    objective = Adversarial(AdversarialObjective(loss=loss))
    objective.advance(0.0)
    torch.manual_seed(1)
    objective(model, batch).total.backward()
    torch.manual_seed(1)
    made = model.generator(torch.randn(6, 5))
    of_discriminator = discriminator_loss(model.discriminator(batch.images), model.discriminator(made)).sum()
    expected = torch.autograd.grad(of_discriminator, list(model.discriminator.parameters()), retain_graph=True)
    torch.testing.assert_close(gradients(model.discriminator), list(expected))
    of_generator = generator_loss(model.discriminator(made), loss).sum()
    expected = torch.autograd.grad(of_generator, list(model.generator.parameters()))
    torch.testing.assert_close(gradients(model.generator), list(expected), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("loss", ["minimax", "non-saturating"])
def test_the_gradient_left_to_a_generator_is_that_of_its_mean_loss(loss):
    """Of more noise than is looked at together."""
    model = players(classes=3).eval()
    noise, labels = model.noise(700, seed=0), torch.arange(700) % 3
    generator_loss(model.discriminator(model.generator(noise, labels), labels), loss).mean().backward()
    expected = torch.cat([each.flatten() for each in gradients(model.generator)]).norm()
    model.zero_grad()
    assert generator_gradients(model, noise, labels)[loss] == pytest.approx(float(expected), rel=1e-4)
    assert gradients(model.generator) == [None] * len(gradients(model.generator))  # it leaves nothing behind


def test_losses_are_the_logarithms_they_stand_for():
    real, made = torch.randn(7), torch.randn(7)
    chances = made.sigmoid()
    expected = -0.9 * real.sigmoid().log() - 0.1 * (1 - real.sigmoid()).log() - (1 - chances).log()
    torch.testing.assert_close(discriminator_loss(real, made, 0.1), expected)
    torch.testing.assert_close(generator_loss(made, "minimax"), (1 - chances).log())
    torch.testing.assert_close(generator_loss(made, "non-saturating"), -chances.log())


def test_the_generator_moves_on_every_third_step_only():
    model, objective = players(), Adversarial(AdversarialObjective(discriminator_steps=3))
    optimizer = torch.optim.Adam(model.parameters())
    moved = []
    for _ in range(6):
        before = model.generator.network[0].weight.clone()
        optimizer.zero_grad()
        objective.advance(0.0)
        objective(model, batch_of()).total.backward()
        optimizer.step()
        moved.append(not torch.equal(before, model.generator.network[0].weight))
    assert moved == [False, False, True, False, False, True]
    again = Adversarial(AdversarialObjective(discriminator_steps=3))
    again.restore(objective.state())
    assert again.taken == 6


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 64, 64), (1, 8, 8)])
def test_convolutional_players_fit_images_of_any_halving_size(shape):
    model = players("dcgan", shape, classes=3)
    labels = torch.tensor([0, 2])
    images = model.decode(model.noise(2, seed=0), labels)
    assert images.shape == (2, *shape)
    assert 0 <= images.min() <= images.max() <= 1
    assert model.discriminator(images, labels).shape == (2,)


def test_published_sizes_at_64():
    config = GanConfig(network=DcganPlayers(width=128), latent=100)
    generator = Gan(config, (3, 64, 64), 0).generator.network
    widths = [layer.out_channels for layer in generator if isinstance(layer, torch.nn.ConvTranspose2d)]
    assert widths == [1024, 512, 256, 128, 3]
    assert float(generator[1].weight.detach().std()) == pytest.approx(0.02, rel=0.05)


def test_sizes_that_do_not_halve_are_refused():
    with pytest.raises(ConfigError, match=r"30×30.*data\.size"):
        players("dcgan", (1, 30, 30))


def test_a_class_changes_the_image_and_the_verdict():
    model = players(classes=3).eval()
    noise = model.noise(1, seed=0)
    first, second = (model.decode(noise, torch.tensor([label])) for label in (0, 1))
    assert not torch.equal(first, second)
    verdicts = {model.discriminator(first, torch.tensor([label])).item() for label in range(3)}
    assert len(verdicts) == 3
