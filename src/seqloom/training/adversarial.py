"""Two players that learn against each other, by the one trainer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call

from seqloom.config.schema.objectives import AdversarialObjective
from seqloom.data.image_batches import ImageBatch
from seqloom.models.adversarial.gan import Discriminator, Gan
from seqloom.models.adversarial.losses import discriminator_loss, generator_loss
from seqloom.training.objectives import Loss, Objective


class Adversarial(Objective):
    """The game of Goodfellow et al. (2014), one step of both players at a time:

        min_G max_D  E_x log D(x) + E_z log(1 - D(G(z)))

    The discriminator minimises the negative of this; its target for real images may lie at 1 - ε (Salimans et al.
    2016). The generator minimises E_z log(1 - D(G(z))) (`minimax`) or -E_z log D(G(z)) (`non-saturating`).

    What is differentiated is the sum of both losses, made such that neither reaches the other's weights: the
    discriminator sees images cut off from their generator, and the generator a discriminator whose weights are
    constants. So one optimiser moves both at once (simultaneous gradient descent). On steps that are the
    discriminator's alone the generator has no gradient, and the optimiser passes it over.
    """

    config: AdversarialObjective
    taken = rows = 0

    def forward(self, model: Gan, batch: ImageBatch) -> Loss:
        real, labels = batch.images, batch.labels if model.classes else None
        self.rows = len(real)
        both = self.taken % self.config.discriminator_steps == 0
        noise = torch.randn(len(real), model.latent, device=real.device)
        with torch.set_grad_enabled(both):
            made = model.generator(noise, labels)
        real_logits, made_logits = model.discriminator(real, labels), model.discriminator(made.detach(), labels)
        discriminator = discriminator_loss(real_logits, made_logits, self.config.label_smoothing).sum()
        with torch.set_grad_enabled(both):
            generator = generator_loss(_constant(model.discriminator, made, labels), self.config.loss).sum()
        logs = {
            "loss": discriminator.detach(),
            "generator_loss": generator.detach(),
            "real_score": real_logits.detach().sigmoid().sum(),
            "made_score": made_logits.detach().sigmoid().sum(),
        }
        return Loss(discriminator + generator if both else discriminator, batch.tokens, logs)

    def advance(self, done: float) -> None:
        """Count the steps."""
        self.taken += 1

    def state(self) -> dict[str, Tensor]:
        """How many steps were taken, for every row of a batch."""
        return {"taken": torch.full((self.rows,), self.taken)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        self.taken, self.rows = int(state["taken"][0]), len(state["taken"])


def _constant(discriminator: Discriminator, images: Tensor, labels: Tensor | None) -> Tensor:
    """The logits of a discriminator that this gradient shall go through, but not into."""
    weights = {name: weight.detach() for name, weight in discriminator.named_parameters()}
    return functional_call(discriminator, weights, (images, labels))
