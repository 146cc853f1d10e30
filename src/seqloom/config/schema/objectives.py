"""What training maximises."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seqloom.config.schema.base import NonNegative, Probability, Schema, Size


class LikelihoodObjective(Schema):
    kind: Literal["likelihood"] = "likelihood"
    """Maximum likelihood: the cross-entropy of the next token."""
    activation: NonNegative = 0.0
    """α of activation regularisation: α · mean(h²) on the dropped-out features (Merity et al. 2017)."""
    temporal: NonNegative = 0.0
    """β of temporal activation regularisation: β · mean((h_{t+1} - h_t)²)."""


class RandomTruncationObjective(Schema):
    kind: Literal["random-truncation"] = "random-truncation"
    """Maximum likelihood with randomly truncated back-propagation through time (Tallec & Ollivier 2017)."""
    keep: Annotated[float, Field(gt=0.0, le=1.0)] = 0.9
    """π: the probability that the gradient passes a boundary; when it does, it is scaled by 1/π."""
    every: Size = 8
    """A boundary every so many steps."""


class PairObjective(Schema):
    label_smoothing: Probability = 0.0
    """ε: so much of each target's probability is spread over all words (Szegedy et al. 2016)."""
    coverage: NonNegative = 0.0
    """λ of the coverage loss, Σ min(attention now, attention so far): looking twice at a place costs (See et al.
    2017)."""


class TeacherForcingObjective(PairObjective):
    kind: Literal["teacher-forcing"] = "teacher-forcing"
    """Maximum likelihood of the targets: the decoder always reads the true words before the one it predicts."""


class ScheduledSamplingObjective(PairObjective):
    kind: Literal["scheduled-sampling"] = "scheduled-sampling"
    """The decoder reads the true word with probability ε and else one it predicted itself (Bengio et al. 2015)."""
    decay: Literal["constant", "linear", "exponential", "inverse-sigmoid"] = "inverse-sigmoid"
    """How ε falls from `begin` to `end` with p, the part of the training that is done: `linear`, evenly; `exponential`,
    by the same factor with every step; `inverse-sigmoid`, as 1 / (1 + exp(12 p - 6)) does: slowly, fast, slowly;
    `constant`: it stays at `begin`."""
    begin: Annotated[float, Field(ge=0.0, le=1.0)] = 1.0
    """ε in the beginning."""
    end: Annotated[float, Field(ge=0.0, le=1.0)] = 0.5
    """ε in the end."""
    method: Literal["auto", "steps", "passes"] = "auto"
    """`steps`: word by word, each choice made when its word is read; `passes`: one pass over the true words to predict
    all, a second one over the mixture (Mihaylova & Martins 2019). `auto`: steps for recurrent decoders, else passes."""
    choice: Literal["best", "sample"] = "best"
    """Which predicted word is read: the most probable, or one drawn."""

    @model_validator(mode="after")
    def falls(self) -> ScheduledSamplingObjective:
        if self.end > self.begin:
            raise ValueError(f"end ({self.end:g}) may not be above begin ({self.begin:g})")
        if self.decay == "exponential" and self.end == 0:
            raise ValueError("exponential decay never reaches 0: set end above it")
        return self


ObjectiveConfig = Annotated[
    LikelihoodObjective | RandomTruncationObjective | TeacherForcingObjective | ScheduledSamplingObjective,
    Field(discriminator="kind"),
]
