"""How a game between two players stands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import get_args

import torch
from torch import Tensor, nn

from seqloom.models.adversarial.gan import Gan
from seqloom.models.adversarial.losses import GeneratorLoss, discriminator_loss, generator_loss

AT_ONCE = 500  # images whose gradients are computed together


def generator_gradients(model: Gan, noise: Tensor, labels: Tensor | None) -> dict[GeneratorLoss, float]:
    """|∂ E loss / ∂θ| by loss, θ all weights of the generator: how much it would learn next from its discriminator.

    Noise is [images, latent], classes are [images]. Of -log D the gradient by the logit is D - 1, of log(1 - D) it is
    -D: where D is sure that images are drawn, the second one has vanished and the first one has not.
    """
    weights = list(model.generator.parameters())
    losses: tuple[GeneratorLoss, ...] = get_args(GeneratorLoss)
    totals = {loss: [torch.zeros_like(weight) for weight in weights] for loss in losses}
    for logits in _made_logits(model, noise, labels):
        for loss in losses:
            gradients = torch.autograd.grad(generator_loss(logits, loss).sum(), weights, retain_graph=True)
            totals[loss] = [total + gradient for total, gradient in zip(totals[loss], gradients, strict=True)]
    return {loss: float(nn.utils.get_total_norm(totals[loss])) / len(noise) for loss in losses}


@torch.no_grad()
def made_logits(model: Gan, noise: Tensor, labels: Tensor | None) -> Tensor:
    """What the discriminator thinks of the images of noise [images, latent] and classes [images]: [images]."""
    return torch.cat(list(_made_logits(model, noise, labels)))


def _made_logits(model: Gan, noise: Tensor, labels: Tensor | None) -> Iterator[Tensor]:
    for first in range(0, len(noise), AT_ONCE):
        rows = slice(first, first + AT_ONCE)
        some_labels = None if labels is None else labels[rows]
        yield model.discriminator(model.generator(noise[rows], some_labels), some_labels)


def divergence_bound(real: Tensor, made: Tensor) -> float:
    """JS(p ‖ q) in nats as far as a discriminator sees it, of its logits for real and drawn images.

    Its mean over images that the discriminator did not learn from is never above the truth, which is at most log 2.
    """
    return jensen_shannon_of(-float(discriminator_loss(real, made).double().mean()))


def jensen_shannon_of(value: float) -> float:
    """JS(p ‖ q) = (V(D*) + log 4) / 2: what the value of the game says of the divergence; a bound from below for any D
    but the best one.
    """
    return (value + math.log(4)) / 2
