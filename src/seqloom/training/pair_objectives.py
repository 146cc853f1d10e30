"""What training maximises when there are pairs: the likelihood of targets, and how much of them the decoder is told."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from seqloom.config.schema.objectives import PairObjective, ScheduledSamplingObjective
from seqloom.data.caption_batches import CaptionBatch
from seqloom.data.pair_batches import PairBatch
from seqloom.models.conditional import Conditional
from seqloom.models.seq2seq import Seq2Seq
from seqloom.nn import State
from seqloom.nn.decoders import Reading
from seqloom.nn.decoders.transformer import TransformerDecoder
from seqloom.nn.encoders import TransformerEncoder
from seqloom.text.special import PAD, SPECIALS
from seqloom.training.objectives import Context, Loss, Objective
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

    def record(self, model: Conditional) -> None:
        """Transformers do the same work for every batch of a shape, unless they copy or mind what they covered."""
        parts = isinstance(model.encoder, TransformerEncoder) and isinstance(model.decoder, TransformerDecoder)
        if parts and type(model) is Seq2Seq and type(self) is TeacherForcing and not self.config.coverage:
            self._recorded = RecordedNetwork(model)

    def forward(self, model: Conditional, batch: TargetBatch) -> Loss:
        if self._recorded is not None and isinstance(batch, PairBatch):
            reading = Reading(self._recorded(batch), look=_nothing)
            likelihood = model.loss(reading, State(), batch, self.config.label_smoothing)
            return Loss(likelihood, batch.tokens, {"loss": likelihood.detach()})
        source = model.source_of(batch)
        encoding = model.encode(source)
        state = model.begin(encoding, source)
        reading = self.read(model, batch, state)
        likelihood = model.loss(reading, state, batch, self.config.label_smoothing)
        total = likelihood
        logs = {"loss": likelihood.detach(), **self.figures(batch)}
        if self.config.coverage:
            looked_again = coverage_loss(reading.weights, batch.targets != PAD)
            total = total + self.config.coverage * looked_again
            logs["coverage"] = looked_again.detach()
        beside = model.side_loss(encoding, batch)
        if beside is not None:
            total = total + beside
            logs["beside"] = beside.detach()
        return Loss(total, batch.tokens, logs)

    def read(self, model: Conditional, batch: TargetBatch, state: State) -> Reading:
        """What the decoder makes of the targets so far, at each of them."""
        return model(batch.target_inputs, state)[0]

    def figures(self, batch: TargetBatch) -> dict[str, Tensor]:
        """What else to log, summed over the batch's targets."""
        return {}


def _nothing() -> Tensor:
    raise AssertionError("a recording keeps no weights of attention")


def coverage_loss(weights: Tensor, real: Tensor) -> Tensor:
    """Σ_t Σ_s min(α_{t,s}, Σ_{i<t} α_{i,s}) over the steps [rows, time] that are real; weights [rows, time, places]."""
    before = weights.cumsum(1) - weights
    return (torch.minimum(weights, before).sum(2) * real).sum()


class ScheduledSampling(TeacherForcing):
    """With probability 1 - ε the decoder reads, instead of the true word before, one that it predicted itself
    (Bengio et al. 2015, https://arxiv.org/abs/1506.03099), as it will have to when no one knows the truth.

    `method` "steps" goes word by word, so that every choice follows from the mixture before it. "passes" predicts all
    words from the true ones first, then reads the mixture at once (Mihaylova & Martins 2019,
    https://arxiv.org/abs/1906.07651): what a Transformer needs, to be trained in parallel. No gradient flows through
    the choices.
    """

    config: ScheduledSamplingObjective

    def __init__(self, config: ScheduledSamplingObjective, context: Context | None = None) -> None:
        super().__init__(config, context)
        self.teacher = config.begin
        """ε: how likely the true word is read."""

    def advance(self, done: float) -> None:
        self.teacher = teacher_probability(self.config, done)

    def figures(self, batch: TargetBatch) -> dict[str, Tensor]:
        return {"teacher": torch.tensor(self.teacher * batch.tokens, device=batch.targets.device)}

    def read(self, model: Conditional, batch: TargetBatch, state: State) -> Reading:
        if self.teacher == 1.0:
            return super().read(model, batch, state)
        truth = batch.target_inputs
        told = torch.rand(truth.shape, device=truth.device) < self.teacher
        method = self.config.method
        by_steps = model.decoder.sequential if method == "auto" else method == "steps"
        return self._steps(model, truth, told, state) if by_steps else self._passes(model, truth, told, state)

    def _passes(self, model: Conditional, truth: Tensor, told: Tensor, state: State) -> Reading:
        with torch.no_grad():
            reading, _ = model(truth, state)
            guesses = self._choose(model.predict_all(reading, state))
        inputs = truth.clone()
        inputs[:, 1:] = _mixed(truth[:, 1:], guesses[:, :-1], told[:, 1:])
        reading, _ = model(inputs, state)
        return reading

    def _steps(self, model: Conditional, truth: Tensor, told: Tensor, state: State) -> Reading:
        inputs = truth[:, :1]
        readings: list[Reading] = []
        for step in range(truth.size(1)):
            if step:
                with torch.no_grad():
                    guesses = self._choose(model.predict(readings[-1], state))
                inputs = _mixed(truth[:, step], guesses, told[:, step]).unsqueeze(1)
            reading, state = model(inputs, state)
            readings.append(reading)
        features = torch.cat([reading.features for reading in readings], dim=1)
        return Reading(features, lambda: torch.cat([reading.weights for reading in readings], dim=1))

    def _choose(self, log_probs: Tensor) -> Tensor:
        """One word from each distribution [..., vocabulary]."""
        if self.config.choice == "best":
            return log_probs.argmax(-1)
        noise = torch.rand_like(log_probs, dtype=torch.float32).clamp_(min=1e-20).log_().neg_().log_()
        return (log_probs - noise).argmax(-1)  # Gumbel: the largest is a draw


def _mixed(truth: Tensor, guesses: Tensor, told: Tensor) -> Tensor:
    """The truth where it is told, and where the guess is no word: after `<eos>`, nothing would be read any more."""
    words = (guesses >= len(SPECIALS)) & (truth != PAD)
    return torch.where(words & ~told, guesses, truth)


def teacher_probability(config: ScheduledSamplingObjective, done: float) -> float:
    """ε when the fraction `done` of the training lies behind.

    linear: begin + (end - begin) done;  exponential: begin (end / begin)^done;  inverse-sigmoid: end + (begin - end) /
    (1 + exp(12 done - 6)), the paper's k / (k + exp(i / k)) with k = e⁶ and i / k = 12 done.
    """
    begin, end, done = config.begin, config.end, min(1.0, done)
    match config.decay:
        case "constant":
            return begin
        case "linear":
            return begin + (end - begin) * done
        case "exponential":
            return begin * (end / begin) ** done
        case "inverse-sigmoid":
            return end + (begin - end) / (1 + math.exp(12 * done - 6))
