"""Training on what texts are judged by: a reward, and the rules that follow it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import NonNegative, Positive, Share, Size
from seqloom.config.schema.objectives import PairObjective


class RewardedObjective(PairObjective):
    """What all objectives that follow a reward share."""

    reward: str = "bleu"
    """What a text is worth: `bleu`, `rouge-1`, `rouge-2`, `rouge-l`, `chrf` or `cider` (against its references, 0 to 1;
    cider 0 to 10), `log-prob:RUN` (per token, under another run), `length` (words), `repetition` (the share of its
    trigrams that stood in it before, as a loss), `constant`, a function of your own, `module:function` or
    `file.py:function`; or a weighted sum, as in `bleu + 0.5 * rouge-l + -0.1 * length`."""
    samples: Size = 5
    """Texts that the model writes for each example."""
    longest: Size | None = None
    """Tokens that a text may have; when not given, 10 more than twice as many as the longest true text of its
    batch."""
    prompt: Size = 8
    """Language models: tokens of each window that are given; what follows them is written."""
    likelihood: Share = 0.0
    """How much of the loss is the likelihood of the true texts, the rest being that of the reward."""
    entropy: NonNegative = 0.0
    """How much each nat of a text's -log p adds to its reward: it keeps the model from writing always the same."""
    divergence: NonNegative = 0.0
    """How much each nat of log p - log p₀ takes from the reward of a text; p₀ is the model that the training began
    with."""
    divergence_limit: Positive | None = None
    """Nats per text: while the divergence from p₀ is above it, steps bring it down, whatever the reward."""


class PolicyGradientObjective(RewardedObjective):
    kind: Literal["policy-gradient"] = "policy-gradient"
    """REINFORCE (Williams 1992): what the model writes becomes more probable by as much as its reward is above a
    baseline."""
    baseline: Literal["none", "mean", "learned", "leave-one-out", "greedy"] = "leave-one-out"
    """What a reward is compared with: nothing; the mean of all so far, a moving one; what a layer learned to expect at
    each word; the mean of the other samples of the same example; the reward of what is written greedily (self-critical,
    Rennie et al. 2017)."""
    mixer: Share = 0.0
    """MIXER (Ranzato et al. 2016): over this part of the training, the beginnings of the true texts that are given and
    learned by likelihood shrink from all to nothing; what follows them is written and learned by its reward."""

    def check_keys(self) -> None:
        if self.baseline == "leave-one-out" and self.samples < 2:
            raise ValueError("baseline leave-one-out compares samples with each other: set samples to 2 or more")


class MinimumRiskObjective(RewardedObjective):
    kind: Literal["minimum-risk"] = "minimum-risk"
    """The expected reward over the texts written for an example, as if there were no others (Shen et al. 2016)."""
    sharpness: Positive = 0.005
    """α: the texts weigh p^α, normalised over those of an example."""

    def check_keys(self) -> None:
        if self.samples < 2:
            raise ValueError("minimum risk weighs several texts of an example: set samples to 2 or more")


class ActorCriticObjective(RewardedObjective):
    kind: Literal["actor-critic"] = "actor-critic"
    """A second network, the critic, learns what reward to expect after each word, and tells the first one which words
    made it rise (Bahdanau et al. 2017; advantages of Schulman et al. 2016)."""
    samples: Size = 1
    decay: Share = 0.95
    """λ: how far an advantage looks ahead; 0 trusts the critic after one word, 1 waits for the reward."""
    discount: Share = 1.0
    """γ: what a reward is worth one word earlier."""
    target_rate: Annotated[float, Field(gt=0.0, le=1.0)] = 0.01
    """How much of the critic the target critic takes over with every step; the critic learns from its values."""
    pretraining: Share = 0.1
    """The part of the training in which only the critic learns."""
    critic_weight: Positive = 1.0
    """Of the critic's loss beside the actor's."""


class RewardAugmentedObjective(PairObjective):
    kind: Literal["reward-augmented"] = "reward-augmented"
    """Maximum likelihood of texts drawn around the true ones, the nearer the likelier (Norouzi et al. 2016)."""
    temperature: Annotated[float, Field(gt=0.0, le=100.0)] = 0.8
    """τ: n words of a text are replaced with a probability in proportion to exp(-n / τ)."""


REINFORCEMENT = (PolicyGradientObjective, MinimumRiskObjective, ActorCriticObjective, RewardAugmentedObjective)
