"""The objective of models that know their own loss."""

from __future__ import annotations

from typing import Any

from seqloom.training.objectives import Loss, Objective


class OwnLoss(Objective):
    """-log p of what a batch holds, as `model.loss(batch)` gives it: summed over the batch's `tokens` predictions."""

    def __call__(self, model: Any, batch: Any) -> Loss:
        total = model.loss(batch)
        return Loss(total, batch.tokens, {"loss": total.detach()})
