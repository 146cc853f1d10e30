"""Finding what was hidden: the objective of masked language models."""

from __future__ import annotations

from torch.nn import functional as F

from seqloom.config.schema.objectives import MaskedObjective
from seqloom.data.masked_texts import MaskedBatch
from seqloom.models.bert import MaskedLanguageModel
from seqloom.training.objectives import Loss, Objective


class MaskedLikelihood(Objective):
    """-Σ log p(x_t | what is read of x) over the chosen places t (Devlin et al. 2019, section 3.1); which these are,
    `Masking` says.

    Where there are pairs, the mean of -log p(B follows A, or not) is added to the mean over the chosen places.
    """

    config: MaskedObjective

    def forward(self, model: MaskedLanguageModel, batch: MaskedBatch) -> Loss:
        hidden = model.read(batch)
        found = model.output.loss(model.features(hidden, batch.places), batch.labels)
        if batch.unrelated is None:
            return Loss(found, batch.tokens, {"loss": found.detach()})
        pairs = F.nll_loss(model.relation_log_probs(hidden), batch.unrelated) * batch.tokens
        return Loss(found + pairs, batch.tokens, {"loss": found.detach(), "next_sentence_loss": pairs.detach()})
