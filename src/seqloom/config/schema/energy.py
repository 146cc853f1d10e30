"""Models by their energy: restricted Boltzmann machines and deep belief networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import ModelPart, NonNegative, Positive, Probability, Schema, Size, Times
from seqloom.config.schema.data import ImageData
from seqloom.config.schema.objectives import (
    ClampedAndFreeObjective,
    ConditionalObjective,
    ContrastiveDivergenceObjective,
)

if TYPE_CHECKING:
    from seqloom.config.schema.run import RunConfig


class AnnealingConfig(Schema):
    chains: Annotated[Size, Field(ge=2)] = 100
    """Independent chains: the error bars come from how far they disagree."""
    steps: Size = 10_000
    """Temperatures on the way from independent pixels to the model: more are slower and closer to the truth."""
    valid_steps: Size = 1000
    """The same at each validation during training, from images back to independent pixels: too few make the figure
    worse than the model, by some nats with 1000 and large machines, but never better than anything that exists."""


class RbmConfig(ModelPart):
    learns_from = ImageData
    objectives = (ContrastiveDivergenceObjective,)
    may_change = ("annealing",)

    kind: Literal["rbm"] = "rbm"
    """A restricted Boltzmann machine, trained by contrastive divergence. Learning rate, momentum and weight decay are
    those of `training.optimizer` (kind sgd), the decay of the rate that of `training.schedule`."""
    visible: Literal["bernoulli", "gaussian"] = "bernoulli"
    """What a pixel is: on or off (data.values binary or sampled), or a brightness with a learned variance
    (data.values grey)."""
    hidden: Literal["bernoulli", "gaussian"] = "bernoulli"
    """What a hidden unit is: on or off, or a real number of variance 1 (with bernoulli visible units only)."""
    size: Size = 500
    """Hidden units."""
    annealing: AnnealingConfig = AnnealingConfig()
    """How the normaliser is estimated, where it cannot be summed."""

    def check_keys(self) -> None:
        if self.visible == self.hidden == "gaussian":
            raise ValueError("visible and hidden units cannot both be gaussian: the energy would have no lower bound")

    def check(self, run: RunConfig) -> None:
        if run.objective.sparsity_cost and self.hidden == "gaussian":
            raise ValueError("objective.sparsity_cost is for bernoulli hidden units: a gaussian unit is never off")
        refuse_other_values(self.visible, run)


class UpDownConfig(Schema):
    epochs: NonNegative = 0.0
    """Passes over the images by the up-down algorithm after the layers are trained; 0 leaves it out."""
    learning_rate: Positive = 0.01
    """Of these passes; it falls to 0."""
    steps: Times = 3
    """Steps of Gibbs sampling in the top machine for each update."""


class FineTuningConfig(Schema):
    epochs: NonNegative = 0.0
    """Passes over the images as a classifier, which come last; 0 leaves it out. It needs images with classes."""
    learning_rate: Positive = 1e-3
    """Of Adam; it falls to 0."""
    dropout: Probability = 0.0
    """Dropout on every hidden layer."""


class DbnConfig(ModelPart):
    learns_from = ImageData
    objectives = (ContrastiveDivergenceObjective,)
    may_change = ("annealing",)

    kind: Literal["dbn"] = "dbn"
    """A deep belief network: machines one on top of another, each trained on what the one below makes of the images
    (Hinton et al. 2006). `training` holds for each of them; `training.steps`, where given, for the other stages too."""
    visible: Literal["bernoulli", "gaussian"] = "bernoulli"
    """What a pixel is: on or off (data.values binary or sampled), or a brightness with a learned variance (data.values
    grey): the first machine is then one of gaussian pixels, and likelihoods are densities."""
    sizes: Annotated[tuple[Size, ...], Field(min_length=1)] = (500, 500, 2000)
    """Hidden units of each machine, the lowest first."""
    pretrain: bool = True
    """Train the machines one by one; without, all weights begin as noise, for comparison."""
    labels: bool = False
    """Classes as units beside the inputs of the top machine: it then draws images of a class. Images need classes."""
    upper_rate: Positive = 0.05
    """Learning rate of the machines above the first, as a part of that of `training.optimizer`. They begin as the
    machine below turned over, where they are large enough, and would forget it at full rate; over gaussian pixels,
    which need a low rate, they begin as noise, and take many times that rate."""
    up_down: UpDownConfig = UpDownConfig()
    fine_tuning: FineTuningConfig = FineTuningConfig()
    annealing: AnnealingConfig = AnnealingConfig()
    """How the normaliser of the top machine is estimated."""

    def check_keys(self) -> None:
        if self.up_down.epochs and len(self.sizes) < 2:
            raise ValueError("up_down needs two machines at least: add to sizes")
        if not self.pretrain and not self.fine_tuning.epochs:
            raise ValueError("without pretrain nothing is learned unless fine_tuning.epochs is more than 0")
        if self.visible == "gaussian" and self.labels and len(self.sizes) < 2:
            raise ValueError("classes stand beside on-off units: with gaussian pixels, add to sizes, or labels=false")

    def check(self, run: RunConfig) -> None:
        refuse_other_values(self.visible, run)


class BoltzmannConfig(ModelPart):
    learns_from = ImageData
    objectives = (ClampedAndFreeObjective, ConditionalObjective)
    may_change = ("annealing",)

    kind: Literal["boltzmann"] = "boltzmann"
    """A general Boltzmann machine of small images, all units connected: pixels and hidden units. Every unit is updated
    by itself, so that it is slow; with 20 units together, everything about it is exact."""
    hidden: Annotated[int, Field(ge=0, le=12)] = 4
    """Hidden units, summed over for the likelihood."""
    annealing: AnnealingConfig = AnnealingConfig(steps=1000)
    """How the normaliser is estimated, with more than 20 units."""

    def check(self, run: RunConfig) -> None:
        refuse_grey(self, run)


def refuse_other_values(visible: str, run: RunConfig) -> None:
    """Refuse pixels that are not what the visible units of a machine are."""
    if (visible == "gaussian") != (run.data.values == "grey"):
        raise ValueError(
            f"{visible} visible units do not fit data.values {run.data.values}: bernoulli units need "
            "binary or sampled, gaussian units need grey"
        )


def refuse_grey(model: ModelPart, run: RunConfig) -> None:
    """Refuse pixels between 0 and 1, for models whose pixels are on or off."""
    if run.data.values == "grey":
        raise ValueError(f"a model of kind {model.kind!r} has pixels of 0 and 1: set data.values to binary or sampled")
