"""Generative adversarial networks: what draws images, and what tells them from real ones."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import ModelPart, Schema, Size
from seqloom.config.schema.data import ImageData
from seqloom.config.schema.objectives import AdversarialObjective


class DensePlayers(Schema):
    kind: Literal["dense"] = "dense"
    """Both players are layers of all-to-all connections (Goodfellow et al. 2014), the generator's with batch
    normalisation; images of any size."""
    sizes: tuple[Size, ...] = (256, 256)
    """Sizes of the generator's hidden layers; the discriminator has the same, the other way round."""


class DcganPlayers(Schema):
    kind: Literal["dcgan"] = "dcgan"
    """Both players are convolutions with strides instead of pooling, and batch normalisation (Radford et al. 2016);
    images whose sides halve down to 4 to 7 pixels: 28, 32, 64, ..."""
    width: Size = 64
    """Channels of the largest feature maps; they double whenever the sides halve."""


PlayersConfig = Annotated[DensePlayers | DcganPlayers, Field(discriminator="kind")]


class GanConfig(ModelPart):
    learns_from = ImageData
    objectives = (AdversarialObjective,)
    figures = {"valid_loss": "Fréchet distance {:.2f}"}  # noqa: RUF012 - as in the base

    kind: Literal["gan"] = "gan"
    """A generator and a discriminator that learn against each other (Goodfellow et al. 2014). Set training.clip=0 and
    training.optimizer.betas=[0.5, 0.999]."""
    network: PlayersConfig = DensePlayers()
    latent: Size = 100
    """Length of the noise vector that an image is made of."""
    conditional: bool = False
    """Whether both players are told the class of an image, so that a class can be asked for."""
    judge: str | None = None
    """The folder of an image-classifier run, in whose features samples are compared with real images; it is copied, and
    not needed again. When not given, one is trained first if the images have classes; else the principal components of
    the pixels take its place."""
