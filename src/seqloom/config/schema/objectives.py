"""What training maximises, or by which rule it learns. Each model's part says which of these fit it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import Fraction, NonNegative, Probability, Schema, Share, Size, Times


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
    """The model reads the true word with probability ε and else one it predicted itself (Bengio et al. 2015)."""
    decay: Literal["constant", "linear", "exponential", "inverse-sigmoid"] = "inverse-sigmoid"
    """How ε falls from `begin` to `end` with p, the part of the training that is done: `linear`, evenly; `exponential`,
    by the same factor with every step; `inverse-sigmoid`, as 1 / (1 + exp(12 p - 6)) does: slowly, fast, slowly;
    `constant`: it stays at `begin`."""
    begin: Share = 1.0
    """ε in the beginning."""
    end: Share = 0.5
    """ε in the end."""
    method: Literal["auto", "steps", "passes"] = "auto"
    """`steps`: word by word, each choice made when its word is read; `passes`: one pass over the true words to predict
    all, a second one over true and predicted words (Mihaylova & Martins 2019). `auto`: steps for recurrent networks,
    else passes."""
    choice: Literal["best", "sample"] = "best"
    """Which predicted word is read: the most probable, or one drawn."""

    def check_keys(self) -> None:
        if self.end > self.begin:
            raise ValueError(f"end ({self.end:g}) may not be above begin ({self.begin:g})")
        if self.decay == "exponential" and self.end == 0:
            raise ValueError("exponential decay never reaches 0: set end above it")


class MaskedObjective(Schema):
    kind: Literal["masked"] = "masked"
    """Find tokens that were chosen at random, most of them hidden, from those around them (Devlin et al. 2019)."""
    rate: Fraction = 0.15
    """How many of the ordinary tokens of a sequence are chosen; one at least. They are drawn anew each time that a
    sequence is learned from."""
    masked: Share = 0.8
    """How many of the chosen ones are read as `[MASK]`."""
    random: Share = 0.1
    """How many of the chosen ones are read as another token, drawn from all ordinary ones; the rest are read as they
    are."""
    whole_words: bool = False
    """Choose whole words, all pieces of each, in place of single tokens."""

    def check_keys(self) -> None:
        if self.masked + self.random > 1.0:
            raise ValueError(f"masked ({self.masked:g}) and random ({self.random:g}) together are more than 1")


class OwnLossObjective(Schema):
    kind: Literal["own-loss"] = "own-loss"
    """What the model itself has for a loss: -log p of labels or words, the error of a reconstruction."""


class BoundObjective(Schema):
    """What evidence lower bounds share."""

    beta: NonNegative = 1.0
    """Weight of the KL divergence (Higgins et al. 2017); 1 is the bound itself."""
    warm_up: Share = 0.0
    """The part of the training over which the weight rises from 0 to `beta`."""
    free_bits: NonNegative = 0.0
    """Nats of KL divergence that each number of a code may have for nothing (Kingma et al. 2016)."""


class ElboObjective(BoundObjective):
    kind: Literal["elbo"] = "elbo"
    """The evidence lower bound (Kingma & Welling 2014)."""
    samples: Size = 1
    """Codes drawn for each image (M)."""


class ImportanceObjective(Schema):
    kind: Literal["iwae"] = "iwae"
    """The importance-weighted bound (Burda et al. 2016)."""
    samples: Size = 50
    """Codes drawn for each image (k); with 1 it is the evidence lower bound."""


class TextElboObjective(BoundObjective):
    kind: Literal["text-elbo"] = "text-elbo"
    """The evidence lower bound of sentences, and what keeps the decoder from doing without the code (Bowman et al.
    2016)."""
    word_dropout: Share = 0.0
    """How likely a word that the decoder reads in training is replaced by `<unk>`: what it cannot read it must learn
    from the code."""


class ContrastiveDivergenceObjective(Schema):
    kind: Literal["contrastive-divergence"] = "contrastive-divergence"
    """Data against what Gibbs sampling makes of it (Hinton 2002)."""
    steps: Times = 1
    """Steps of Gibbs sampling for each update: the k of CD-k."""
    persistent: bool = False
    """Go on with the chains of the last update (PCD, Tieleman 2008) instead of beginning at the data (CD)."""
    sparsity_target: Fraction = 0.1
    """How often a hidden unit should be on, where sparsity_cost is not 0."""
    sparsity_cost: NonNegative = 0.0
    """How strongly hidden units are drawn towards sparsity_target; 0 leaves them alone."""


class ClampedAndFreeObjective(Schema):
    kind: Literal["clamped-and-free"] = "clamped-and-free"
    """Correlations with the visible units clamped to data, less those of free chains (Ackley et al. 1985)."""
    sweeps: Size = 5
    """Sweeps of Gibbs sampling in each of the two phases, for each update."""


class ConditionalObjective(Schema):
    kind: Literal["conditional"] = "conditional"
    """Outputs given inputs, two parts of an image: correlations with both clamped to data, less those with the inputs
    clamped alone (Ackley et al. 1985). It learns p(outputs | inputs), and nothing about the inputs."""
    inputs: Literal["top", "bottom", "left", "right"] = "top"
    """The half of the pixels that is given; the rest are the outputs."""
    sweeps: Size = 5
    """Sweeps of Gibbs sampling in each of the two phases, for each update; the second begins where the first ended."""


class AdversarialObjective(Schema):
    kind: Literal["adversarial"] = "adversarial"
    """Generator against discriminator (Goodfellow et al. 2014)."""
    loss: Literal["minimax", "non-saturating"] = "non-saturating"
    """What the generator minimises: log(1 - D(G(z))), whose gradient vanishes while the discriminator wins, or
    -log D(G(z)), whose gradient does not."""
    discriminator_steps: Size = 1
    """Steps of the discriminator for each step of the generator."""
    label_smoothing: Probability = 0.0
    """How far the discriminator's target for real images lies below 1 (one-sided; Salimans et al. 2016)."""
