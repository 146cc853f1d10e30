"""What training maximises when there are pairs: the likelihood of targets."""

from __future__ import annotations

import torch
from torch import Tensor

from seqloom.config.schema.objectives import PairObjective
from seqloom.data.caption_batches import CaptionBatch
from seqloom.data.pair_batches import PairBatch
from seqloom.models.conditional import Conditional
from seqloom.models.seq2seq import Seq2Seq
from seqloom.nn import State
from seqloom.nn.decoders import Reading
from seqloom.nn.decoders.transformer import TransformerDecoder
from seqloom.nn.encoders import TransformerEncoder
from seqloom.text.special import PAD
from seqloom.training.objectives import Context, Loss, Objective, Reads, true_words
from seqloom.training.recorded import RecordedNetwork

TargetBatch = PairBatch | CaptionBatch
"""Targets, each with what it is given: a source of words, an image."""


class TeacherForcing(Objective):
    """Σ_t -log p(y_t | y_1, ..., y_{t-1}, x): the decoder reads the true words before the one it predicts.

    `label_smoothing` moves so much of each target's probability to all words alike. `coverage` is λ of See et al. 2017
    (https://arxiv.org/abs/1704.04368), which makes looking at a place again cost something:

        λ Σ_t Σ_s min(α_{t,s}, c_{t,s}),   c_{t,s} = Σ_{i<t} α_{i,s}
    """

    config: PairObjective
    _recorded: RecordedNetwork | None = None

    def __init__(self, config: PairObjective, context: Context | None = None, reads: Reads = true_words) -> None:
        super().__init__(config, context)
        self.reads = reads

    def record(self, model: Conditional) -> None:
        """Transformers do the same work for every batch of a shape, unless they copy or mind what they covered."""
        parts = isinstance(model.encoder, TransformerEncoder) and isinstance(model.decoder, TransformerDecoder)
        if parts and type(model) is Seq2Seq and not self.config.coverage:
            self._recorded = RecordedNetwork(model)

    def forward(self, model: Conditional, batch: TargetBatch) -> Loss:
        if self._recorded is not None and isinstance(batch, PairBatch):
            reading = Reading(self._recorded(batch), look=_nothing)
            likelihood = model.loss(reading, State(), batch, self.config.label_smoothing)
            return Loss(likelihood, batch.tokens, {"loss": likelihood.detach()})
        source = model.source_of(batch)
        encoding = model.encode(source)
        state = model.begin(encoding, source)
        reading, _ = model(self.reads(model, batch.target_inputs, state), state)
        likelihood = model.loss(reading, state, batch, self.config.label_smoothing)
        total = likelihood
        logs = {"loss": likelihood.detach()}
        if self.config.coverage:
            looked_again = coverage_loss(reading.weights, batch.targets != PAD)
            total = total + self.config.coverage * looked_again
            logs["coverage"] = looked_again.detach()
        beside = model.side_loss(encoding, batch)
        if beside is not None:
            total = total + beside
            logs["beside"] = beside.detach()
        return Loss(total, batch.tokens, logs)


def _nothing() -> Tensor:
    raise AssertionError("a recording keeps no weights of attention")


def coverage_loss(weights: Tensor, real: Tensor) -> Tensor:
    """Σ_t Σ_s min(α_{t,s}, Σ_{i<t} α_{i,s}) over the steps [rows, time] that are real; weights [rows, time, places]."""
    before = weights.cumsum(1) - weights
    return (torch.minimum(weights, before).sum(2) * real).sum()
