"""The lower bound of a sequence VAE as an objective."""

from __future__ import annotations

import torch
from torch import Tensor

from seqloom.data.units import UnitBatch
from seqloom.models.latent.variational import divergence
from seqloom.models.text_vae import TextVae
from seqloom.text.special import BOS, UNK
from seqloom.training.latent import Elbo
from seqloom.training.objectives import Loss


class TextElbo(Elbo):
    """-E_q[log p(x | z)] + β Σ_d max(λ, KL_d), as `Elbo`, where the decoder reads only some of the words before the one
    it predicts (word dropout, Bowman et al. 2016).

    A decoder that reads all words predicts almost as well without the code, and the divergence falls to 0 before the
    code means anything. Warm-up of β, free bits λ and word dropout each make it cheaper to use the code than not.
    """

    def __init__(
        self, beta: float = 1.0, warm_up: float = 0.0, free_bits: float = 0.0, word_dropout: float = 0.0
    ) -> None:
        super().__init__(1, beta, warm_up, free_bits)
        self.word_dropout = word_dropout

    def __call__(self, model: TextVae, batch: UnitBatch) -> Loss:
        mean, deviation = model.posterior(batch)
        codes = mean + deviation * torch.randn_like(mean)
        state = model.begin(model.encode(codes), codes)
        reading, _ = model(drop_inputs(batch.inputs, self.word_dropout), state)
        reconstruction = model.loss(reading, state, batch, 0.0)
        divergences = divergence(mean, deviation).sum(0)  # [size]
        counted = divergences.clamp(min=self.free_bits * len(mean)) if self.free_bits else divergences
        total = self.weight * counted.sum() + reconstruction
        logs = {"loss": total, "reconstruction": reconstruction, "divergence": divergences.sum()}
        return Loss(total, batch.tokens, {name: value.detach() for name, value in logs.items()})


def drop_inputs(inputs: Tensor, probability: float) -> Tensor:
    """Words [rows, time] that the decoder reads, each `<unk>` with this probability; `<bos>` stays."""
    if not probability:
        return inputs
    dropped = torch.rand(inputs.shape, device=inputs.device) < probability
    return inputs.masked_fill(dropped & (inputs != BOS), UNK)
