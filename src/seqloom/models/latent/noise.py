"""What a denoising autoencoder must undo."""

from __future__ import annotations

import torch
from torch import Tensor

from seqloom.config.schema.latent import NoiseKind


def corrupt(images: Tensor, noise: NoiseKind, strength: float, random: torch.Generator | None = None) -> Tensor:
    """Images with noise (Vincent et al. 2010, section 3.3):

        masking          a share `strength` of the pixels is 0
        salt-and-pepper  a share `strength` of the pixels is 0 or 1, by the toss of a coin
        gaussian         x + N(0, strength²), not cut off at 0 and 1

    With a generator of the CPU, the same noise on every device.
    """
    if noise == "none":
        return images
    device = images.device if random is None else random.device
    if noise == "gaussian":
        added = torch.randn(images.shape, generator=random, device=device).to(images.device)
        return images + strength * added
    chances = torch.rand(images.shape, generator=random, device=device).to(images.device)
    if noise == "masking":
        return images * (chances >= strength)
    salted = (chances < strength / 2).to(images.dtype)
    return torch.where(chances < strength, salted, images)
