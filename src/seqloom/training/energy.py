"""Training models by their energy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.energy import UpDownConfig
from seqloom.config.schema.objectives import (
    ClampedAndFreeObjective,
    ConditionalObjective,
    ContrastiveDivergenceObjective,
)
from seqloom.data.image_batches import ImageBatch
from seqloom.data.pixel_masks import half
from seqloom.models.energy.boltzmann import BoltzmannMachine
from seqloom.models.energy.dbn import DeepBeliefNetwork
from seqloom.models.energy.rbm import RestrictedBoltzmannMachine
from seqloom.training.objectives import Loss, Objective

WATCHED = 10  # one image in so many is reconstructed for the log: with persistent chains it costs a product


class Chains(Objective):
    """What learns by chains of Gibbs sampling that may go on from update to update."""

    chains: Tensor | None = None
    """Where the chains stand, a row for each."""

    def state(self) -> dict[str, Tensor]:
        """Where the chains stand."""
        return {} if self.chains is None else {"chains": self.chains}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on with the chains of a checkpoint."""
        self.chains = state.get("chains")


class ContrastiveDivergence(Chains):
    """Σ F(v) - F(v'), where v is data and v' comes from k steps of Gibbs sampling (Hinton 2002).

    The chains begin at the data (CD-k), or go on from the last update (persistent: PCD, Tieleman 2008). v' counts as
    given: the gradient of the difference with respect to the parameters is then, in closed form, what contrastive
    divergence learns by, and is what is computed. With `sparsity_cost` λ, a hidden unit that is on in a share q of the
    data is drawn towards the target ρ: its total input has λ(q - ρ) added to its gradient (Hinton 2012, §11).

    What is logged as loss is the squared error of reconstruction: the difference itself says nothing on its own.
    """

    config: ContrastiveDivergenceObjective

    def forward(self, model: RestrictedBoltzmannMachine, batch: ImageBatch) -> Loss:
        data = batch.images.flatten(1)
        with torch.no_grad():
            expected = model.hidden_mean(data)
            if self.chains is None:  # the first step of Gibbs sampling reconstructs the data
                first, fantasy, fantasy_expected = self._run(model, model.hidden.sample(expected))
                back = first[::WATCHED]
            else:
                _, fantasy, fantasy_expected = self._run(model, self.chains)
                back = model.visible_mean(model.hidden.sample(expected[::WATCHED]))
            error = (data[::WATCHED] - back).square().sum() * (len(data) / len(back))
            if self.config.sparsity_cost:
                expected = expected - self.config.sparsity_cost * (expected.mean(0) - self.config.sparsity_target)
            gradients = model.contrast((data, expected), (fantasy, fantasy_expected))
        total = with_gradients(model, gradients)
        return Loss(total, batch.tokens, {"loss": error})

    def _run(self, model: RestrictedBoltzmannMachine, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The means of the visible units in the first step; the visible units after the last, and the means of the
        hidden units given them."""
        first = means = model.visible_mean(hidden)
        for step in range(self.config.steps):
            if step:
                means = model.visible_mean(hidden)
            visible = model.visible.sample(means)
            expected = model.hidden_mean(visible)
            if self.config.persistent or step < self.config.steps - 1:
                hidden = model.hidden.sample(expected)
        if self.config.persistent:
            self.chains = hidden
        return first, visible, expected


class ClampedAndFree(Chains):
    """Learning of a general Boltzmann machine (Ackley, Hinton & Sejnowski 1985): Σ E(s) - E(s').

    In the clamped phase the visible units of s are data, and the hidden ones come from sweeps of Gibbs sampling; in the
    free phase all of s' do, from chains that go on from update to update. The gradient is the difference of the
    correlations ⟨s_i s_j⟩ in the two phases. What is logged as loss is how often a visible unit is not what the other
    units of s make it, in units per image.
    """

    config: ClampedAndFreeObjective

    def forward(self, model: BoltzmannMachine, batch: ImageBatch) -> Loss:
        data = batch.images.flatten(1)
        with torch.no_grad():
            clamped = model.imagine(data, self.config.sweeps)
            begin = model.noise(len(data)) if self.chains is None else self.chains
            self.chains = free = model.gibbs(begin, self.config.sweeps)
            back = (clamped @ model.weight + model.bias)[:, : model.visible].sigmoid()
            error = (back - data).abs().sum()
        total = (model.energy(clamped) - model.energy(free)).sum()
        return Loss(total, batch.tokens, {"loss": error})


class Conditional(Objective):
    """Learning of outputs y given inputs x, both parts of the visible units (Ackley, Hinton & Sejnowski 1985):
    Σ E(s) - E(s').

    In the first phase x and y of s are data, and the hidden units come from sweeps of Gibbs sampling. The second begins
    there and clamps x alone: y and the hidden units of s' come from as many sweeps more. The gradient, the difference
    of the correlations ⟨s_i s_j⟩ in the two phases, is that of -log p(y | x). What is logged as loss is how often an
    output is not what the other units of s make it, in units per image.
    """

    config: ConditionalObjective

    def forward(self, model: BoltzmannMachine, batch: ImageBatch) -> Loss:
        data = batch.images.flatten(1)
        _, channels, height, width = batch.images.shape
        inputs = torch.from_numpy(half(self.config.inputs, (channels, height, width))).flatten().to(data.device)
        with torch.no_grad():
            clamped = model.imagine(data, self.config.sweeps)
            free = model.gibbs(clamped, self.config.sweeps, clamped=model.clamping(inputs))
            back = (clamped @ model.weight + model.bias)[:, : model.visible].sigmoid()
            error = (back - data).abs()[:, ~inputs].sum()
        total = (model.energy(clamped) - model.energy(free)).sum()
        return Loss(total, batch.tokens, {"loss": error})


class UpDown(Objective):
    """The up-down algorithm: contrastive wake-sleep for a deep belief network (Hinton et al. 2006, §5).

    Wake: samples of q rise from the images; generative weights learn to give back each layer from the one above.
    The top machine learns by contrastive divergence between what arrives and what k steps of Gibbs sampling make of it.
    Sleep: from there samples of p fall; recognition weights learn to give back each layer from the one below.

    What is logged as loss is -log p(v | h¹), in nats per image.
    """

    config: UpDownConfig

    def forward(self, model: DeepBeliefNetwork, batch: ImageBatch) -> Loss:
        with torch.no_grad():
            rising = model.rise(batch.images.flatten(1))
            arrived = model.joined(rising[-1], batch.labels)
            fantasy = model.top.gibbs(arrived, self.config.steps)
            falling = model.fall(fantasy[:, : rising[-1].size(1)])
            falling.append(model.pixels.sample(model.picture(falling[-1])))
            found = [(visible, model.top.hidden_mean(visible)) for visible in (arrived, fantasy)]
            gradients = model.top.contrast(found[0], found[1])
        wake = [-log_prob.sum() for log_prob in model.given_above(rising)]
        asleep = falling[::-1]
        sleep = [
            _missed(layer(below), above)
            for layer, below, above in zip(model.recognition, asleep, asleep[1:], strict=False)
        ]
        total = with_gradients(model.top, gradients)
        return Loss(total + sum(wake) + sum(sleep), batch.tokens, {"loss": wake[0].detach()})


def _missed(logits: Tensor, values: Tensor) -> Tensor:
    """-log p of on-off units, summed."""
    return F.binary_cross_entropy_with_logits(logits, values, reduction="sum")


def with_gradients(model: nn.Module, gradients: dict[str, Tensor]) -> Tensor:
    """A loss of 0 whose gradients are those given, by the names of the model's parameters."""
    return _Given.apply(list(gradients.values()), *(model.get_parameter(name) for name in gradients))


class _Given(torch.autograd.Function):
    """A constant with gradients that somebody else computed: the optimiser and all wrappers see them as usual."""

    @staticmethod
    def forward(ctx: Any, gradients: list[Tensor], *parameters: Tensor) -> Tensor:
        ctx.gradients = gradients
        return parameters[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        gradients, ctx.gradients = ctx.gradients, None  # with no other owner, they become .grad without a copy
        return (None, *(gradient.mul_(scale) for gradient in gradients))
