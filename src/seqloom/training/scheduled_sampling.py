"""Reading one's own words in training, as a model must when no one knows the true ones."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from seqloom.config.schema.objectives import LikelihoodObjective, ScheduledSamplingObjective
from seqloom.data.windows import TokenBatch
from seqloom.decoding.graphs import GraphSteps
from seqloom.decoding.protocol import StepModel
from seqloom.decoding.rollout import best, draw
from seqloom.models.conditional import Conditional
from seqloom.nn import State
from seqloom.text.special import BOS, PAD, SPECIALS
from seqloom.training.episodes import Writer, writing
from seqloom.training.objectives import Context, Loss, MaximumLikelihood, Objective
from seqloom.training.pair_objectives import TargetBatch, TeacherForcing


class ScheduledSampling(Objective):
    """Maximum likelihood where, with probability 1 - ε, the model reads instead of the true word before one that it
    predicted itself (Bengio et al. 2015, https://arxiv.org/abs/1506.03099).

    First the words are chosen, without gradients, then they are read as if they were given: no gradient flows through
    the choices. `method` "steps" chooses word by word, so that every choice follows from the mixture before it: the
    paper's definition. "passes" predicts all words from the true ones at once (Mihaylova & Martins 2019,
    https://arxiv.org/abs/1906.07651; Duckworth et al. 2019, https://arxiv.org/abs/1906.04331), as a Transformer needs
    to be trained in parallel. Choices are made without dropout, as a trained model writes. Dropout belongs to the
    reading that learns, which goes over the whole window at once: masks that stay the same for a window still do.

    The first word of a row is the true one. In running text a window goes on from the state that all words read before
    it left, the model's own ones among them.
    """

    config: ScheduledSamplingObjective
    _recorded: GraphSteps | None = None

    def __init__(self, config: ScheduledSamplingObjective, context: Context | None = None) -> None:
        super().__init__(config, context)
        self.teacher = config.begin
        """ε: how likely the true word is read."""
        self.choose = best if config.choice == "best" else draw
        self.of_text = MaximumLikelihood(LikelihoodObjective(), context, self.chosen)
        self.of_pairs = TeacherForcing(config, context, self.chosen)

    def advance(self, done: float) -> None:
        self.teacher = teacher_probability(self.config, done)

    def forward(self, model: Writer, batch: TokenBatch | TargetBatch) -> Loss:
        loss: Loss = (self.of_pairs if isinstance(model, Conditional) else self.of_text)(model, batch)
        loss.logs["teacher"] = torch.full_like(loss.logs["loss"], self.teacher * loss.tokens)
        return loss

    def state(self) -> dict[str, Tensor]:
        return self.of_text.state()

    def restore(self, state: dict[str, Tensor]) -> None:
        self.of_text.restore(state)

    def chosen(self, model: Writer, truth: Tensor, state: State | None) -> Tensor:
        """The words that a model in this state reads, [rows, time] like the true ones; from the start if none."""
        if self.teacher == 1.0:
            return truth
        told = torch.rand(truth.shape, device=truth.device) < self.teacher
        method = self.config.method
        by_steps = model.sequential if method == "auto" else method == "steps"
        with torch.no_grad(), writing(model):
            before = model.start(len(truth)) if state is None else state
            columns = self._steps(model, truth, told, before) if by_steps else self._passes(model, truth, told, before)
            return torch.stack(list(columns), dim=1)

    def _steps(self, model: Writer, truth: Tensor, told: Tensor, state: State) -> Iterator[Tensor]:
        steps: StepModel = model
        if model.device.type == "cuda":
            steps = self._recorded = self._recorded or GraphSteps(model)
        words = truth[:, 0]
        yield words
        for step in range(1, truth.size(1)):
            log_probs, state = steps.step(state, words)
            words = _mixed(truth[:, step], self.choose(log_probs), told[:, step])
            yield words

    def _passes(self, model: Writer, truth: Tensor, told: Tensor, state: State) -> Iterator[Tensor]:
        yield truth[:, 0]
        for step, log_probs in zip(range(1, truth.size(1)), model.predictions(state, truth), strict=False):
            yield _mixed(truth[:, step], self.choose(log_probs), told[:, step])


def _mixed(truth: Tensor, guesses: Tensor, told: Tensor) -> Tensor:
    """The truth where it is told, where a unit begins or is over, and where the guess is no word: after `<eos>`,
    nothing would be read any more."""
    words = (guesses >= len(SPECIALS)) & (truth != PAD) & (truth != BOS)
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
