"""A generator and a discriminator that learn against each other."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqloom.config.schema.adversarial import DcganPlayers, DensePlayers, GanConfig
from seqloom.models.adversarial.networks import Shape, discriminator_network, generator_network
from seqloom.models.network import Network


class Generator(nn.Module):
    """G(z, y): noise, and a class where there are classes, to an image (Goodfellow et al. 2014; Mirza & Osindero 2014).

    The class is a vector of one 1 beside the noise.
    """

    def __init__(self, network: DensePlayers | DcganPlayers, latent: int, shape: Shape, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.network = generator_network(network, latent + classes, shape)

    def forward(self, noise: Tensor, labels: Tensor | None = None) -> Tensor:
        """[rows, latent], [rows] -> [rows, channels, height, width], from 0 to 1."""
        if self.classes:
            assert labels is not None
            noise = torch.cat([noise, nn.functional.one_hot(labels, self.classes).to(noise.dtype)], dim=1)
        images: Tensor = self.network(noise)
        return (images + 1) / 2


class Discriminator(nn.Module):
    """log D(x) / (1 - D(x)), the logit of an image being real; D is the sigmoid of it.

    With classes it is that of a projection discriminator (Miyato & Koyama 2018), φ the features of the image and e_y a
    vector of the class:

        logit = w·φ(x) + b + e_y·φ(x)
    """

    def __init__(self, network: DensePlayers | DcganPlayers, shape: Shape, classes: int) -> None:
        super().__init__()
        self.network, size = discriminator_network(network, shape)
        self.output = nn.Linear(size, 1)
        self.classes = nn.Embedding(classes, size) if classes else None
        for weight in (self.output.weight, *(self.classes.parameters() if self.classes else ())):
            nn.init.normal_(weight, 0.0, 0.02)

    def forward(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        """[rows, channels, height, width] from 0 to 1, [rows] -> [rows]."""
        features = self.network(2 * images - 1)
        logits: Tensor = self.output(features).squeeze(1)
        if self.classes is not None:
            logits = logits + (self.classes(labels) * features).sum(1)
        return logits


class Gan(Network):
    """Both players. The model draws images; it has no density."""

    def __init__(self, config: GanConfig, shape: Shape, classes: int) -> None:
        super().__init__()
        self.latent, self.shape = config.latent, shape
        self.classes = classes if config.conditional else 0
        self.generator = Generator(config.network, config.latent, shape, self.classes)
        self.discriminator = Discriminator(config.network, shape, self.classes)

    def noise(self, rows: int, seed: int) -> Tensor:
        """z from N(0, 1), [rows, latent]; the same for the same seed on every device."""
        drawn = torch.randn(rows, self.latent, generator=torch.Generator().manual_seed(seed))
        return drawn.to(self.device)

    def decode(self, noise: Tensor, labels: Tensor | None = None) -> Tensor:
        """The images of noise vectors: [rows, channels, height, width], from 0 to 1."""
        return self.generator(noise, labels)
