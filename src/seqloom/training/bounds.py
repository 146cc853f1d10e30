"""Lower bounds of the likelihood as objectives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seqloom.config.schema.objectives import BoundObjective, ElboObjective, ImportanceObjective, TextElboObjective
from seqloom.data.batch import shifted
from seqloom.data.pair_batches import PairBatch
from seqloom.data.text_units import UnitBatch
from seqloom.models.coded import Coded
from seqloom.models.latent.variational import divergence
from seqloom.text.special import BOS, UNK
from seqloom.training.objectives import Context, Loss, Objective


class Bound(Objective):
    """-E_q[log p(x | z)] + β Σ_d max(λ, KL_d), the divergence of number d of the codes averaged over the batch.

    β < 1 in the beginning (warm-up, Sønderby et al. 2016) and λ > 0 (free bits, Kingma et al. 2016) keep codes from
    being given up before they are learned; β > 1 asks for less in each (Higgins et al. 2017).
    """

    config: BoundObjective

    def __init__(self, config: BoundObjective, context: Context | None = None) -> None:
        super().__init__(config, context)
        self.weight = config.beta

    def advance(self, done: float) -> None:
        """The weight of the divergence by the time that has passed."""
        beta, warm_up = self.config.beta, self.config.warm_up
        self.weight = beta * min(1.0, done / warm_up) if warm_up else beta

    def bound(self, reconstruction: Tensor, mean: Tensor, deviation: Tensor, tokens: int) -> Loss:
        """The loss, from the summed -log p(x | z) and the posteriors [rows, size] of a batch."""
        divergences = divergence(mean, deviation).sum(0)  # [size]
        free = self.config.free_bits * len(mean)
        counted = divergences.clamp(min=free) if free else divergences
        total = self.weight * counted.sum() + reconstruction
        logs = {"loss": total, "reconstruction": reconstruction, "divergence": divergences.sum()}
        return Loss(total, tokens, {name: value.detach() for name, value in logs.items()})


class Elbo(Bound):
    """The bound of images, each with `samples` codes."""

    config: ElboObjective

    def forward(self, model: Any, batch: Any) -> Loss:
        mean, deviation = model.posterior(batch)
        reconstruction = -model.reconstruction(batch, mean, deviation, self.config.samples).sum()
        return self.bound(reconstruction, mean, deviation, batch.tokens)


class TextElbo(Bound):
    """The bound of sentences, or of targets given their sources, where the decoder reads only some of the words before
    the one it predicts (word dropout, Bowman et al. 2016).

    A decoder that reads all words predicts almost as well without the code, and the divergence falls to 0 before the
    code means anything. Warm-up of β, free bits λ and word dropout each make it cheaper to use the code than not.
    """

    config: TextElboObjective

    def forward(self, model: Coded, batch: UnitBatch | PairBatch) -> Loss:
        state, mean, deviation = model.draw(batch)
        reading, _ = model(drop_inputs(shifted(batch.targets), self.config.word_dropout), state)
        return self.bound(model.loss(reading, state, batch, 0.0), mean, deviation, batch.tokens)


def drop_inputs(inputs: Tensor, probability: float) -> Tensor:
    """Words [rows, time] that the decoder reads, each `<unk>` with this probability; `<bos>` stays."""
    if not probability:
        return inputs
    dropped = torch.rand(inputs.shape, device=inputs.device) < probability
    return inputs.masked_fill(dropped & (inputs != BOS), UNK)


class ImportanceWeighted(Objective):
    """-log (w₁ + ... + w_k) / k with the weights of `Variational` (Burda et al. 2016)."""

    config: ImportanceObjective

    def forward(self, model: Any, batch: Any) -> Loss:
        total = -model.importance_bound(batch, self.config.samples).sum()
        return Loss(total, batch.tokens, {"loss": total.detach()})
