"""Lower bounds of the likelihood as objectives."""

from __future__ import annotations

from typing import Any

from seqloom.config.schema.latent import BoundConfig, ElboConfig
from seqloom.models.latent.variational import divergence
from seqloom.training.objectives import Loss, Objective


class Elbo(Objective):
    """-E_q[log p(x | z)] + β Σ_d max(λ, KL_d), the divergence of number d of the codes averaged over the batch.

    β < 1 in the beginning (warm-up, Sønderby et al. 2016) and λ > 0 (free bits, Kingma et al. 2016) keep codes from
    being given up before they are learned; β > 1 asks for less in each (Higgins et al. 2017).
    """

    def __init__(self, samples: int = 1, beta: float = 1.0, warm_up: float = 0.0, free_bits: float = 0.0) -> None:
        self.samples, self.beta, self.warm_up, self.free_bits = samples, beta, warm_up, free_bits
        self.weight = beta

    def advance(self, done: float) -> None:
        """The weight of the divergence by the time that has passed."""
        self.weight = self.beta * min(1.0, done / self.warm_up) if self.warm_up else self.beta

    def __call__(self, model: Any, batch: Any) -> Loss:
        mean, deviation = model.posterior(batch)
        reconstruction = model.reconstruction(batch, mean, deviation, self.samples).sum()
        divergences = divergence(mean, deviation).sum(0)  # [size]
        counted = divergences.clamp(min=self.free_bits * batch.tokens) if self.free_bits else divergences
        total = self.weight * counted.sum() - reconstruction
        logs = {"loss": total, "reconstruction": -reconstruction, "divergence": divergences.sum()}
        return Loss(total, batch.tokens, {name: value.detach() for name, value in logs.items()})


class ImportanceWeighted(Objective):
    """-log (w₁ + ... + w_k) / k with the weights of `Variational` (Burda et al. 2016)."""

    def __init__(self, samples: int = 50) -> None:
        self.samples = samples

    def __call__(self, model: Any, batch: Any) -> Loss:
        total = -model.importance_bound(batch, self.samples).sum()
        return Loss(total, batch.tokens, {"loss": total.detach()})


def build_bound(config: BoundConfig) -> Objective:
    """The objective that a configuration describes."""
    if isinstance(config, ElboConfig):
        return Elbo(config.samples, config.beta, config.warm_up, config.free_bits)
    return ImportanceWeighted(config.samples)
