"""Generative adversarial networks."""

from seqloom.models.adversarial.gan import Discriminator, Gan, Generator

__all__ = ["Discriminator", "Gan", "Generator"]
