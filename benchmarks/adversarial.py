"""python -m benchmarks.adversarial [--pictures FOLDER] [--steps N] [--seeds N]

What theory says of adversarial training, beside what happens, on toys with known densities: the best discriminator and
the divergence that the game measures, the gradient that vanishes, covering against seeking fits, and how many modes of
25 and of 8 Gaussians a generator finds.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.adversarial_theory import (
    ModeCoverage,
    best_discriminator,
    covering_fit,
    game_value,
    generator_gradient,
    grid_centres,
    jensen_shannon,
    mixture,
    mode_coverage,
    ring_centres,
    seeking_fit,
    train_discriminator,
)
from seqloom.config.schema.adversarial import DensePlayers, GanConfig
from seqloom.config.schema.objectives import AdversarialObjective
from seqloom.data.image_batches import ImageBatch
from seqloom.models.adversarial.diagnostics import jensen_shannon_of
from seqloom.models.adversarial.gan import Gan
from seqloom.models.adversarial.losses import GeneratorLoss
from seqloom.reports.style import MUTED, save, series, styled
from seqloom.training.adversarial import Adversarial

DEVIATION = 0.05  # of each mode in the plane
BATCH = 256
COUNTED = 2500
LOSSES: tuple[GeneratorLoss, GeneratorLoss] = ("minimax", "non-saturating")
REAL, MADE = mixture([-1.5, 1.0], 0.6), mixture([0.8], 0.9)
TWO_MODES = mixture([-3.0, 3.0], 0.7)


def train_on_modes(centres: NDArray[np.float64], loss: GeneratorLoss, steps: int, seed: int = 0) -> NDArray[np.float32]:
    """Points drawn by a generator that learned from points at modes of the plane; a point is an image of two pixels."""
    torch.manual_seed(seed)
    config = GanConfig(network=DensePlayers(sizes=[128, 128]), latent=16)
    model, objective = Gan(config, (1, 1, 2), 0), Adversarial(AdversarialObjective(loss=loss))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.5, 0.999))
    fading = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    places = torch.from_numpy(centres).float()
    for _ in range(steps):
        points = places[torch.randint(len(places), (BATCH,))] + DEVIATION * torch.randn(BATCH, 2)
        batch = ImageBatch(((points + 1) / 2).view(BATCH, 1, 1, 2), None)
        optimizer.zero_grad()
        objective.advance(0.0)
        (objective(model, batch).total / BATCH).backward()
        optimizer.step()
        fading.step()
    with torch.inference_mode():
        drawn: Tensor = model.eval().decode(model.noise(COUNTED, seed=1))
    return (2 * drawn.view(-1, 2) - 1).numpy()


@dataclass(frozen=True)
class Outcome:
    """What generators of one loss draw where data have modes, a set of points for each seed."""

    name: str
    loss: GeneratorLoss
    centres: NDArray[np.float64]
    drawn: list[NDArray[np.float32]]

    @property
    def coverage(self) -> list[ModeCoverage]:
        """The modes that each seed finds."""
        return [mode_coverage(points, self.centres, DEVIATION) for points in self.drawn]


def outcomes(steps: int, seeds: int) -> list[Outcome]:
    """Both arrangements of modes, both losses."""
    return [
        Outcome(name, loss, centres, [train_on_modes(centres, loss, steps, seed) for seed in range(seeds)])
        for name, centres in (("grid of 25", grid_centres()), ("ring of 8", ring_centres()))
        for loss in LOSSES
    ]


def theory_figure(learned: Callable[[Tensor], Tensor]) -> Figure:
    """The best discriminator beside a learned one; gradients by distance; covering and seeking fits."""
    with styled():
        figure = Figure(figsize=(9.4, 3.1), layout="constrained")
        axes = figure.subplots(1, 3)
        points = torch.linspace(-4, 4, 400, dtype=torch.float64)
        for density, name, look in ((REAL, "p (data)", series(0)), (MADE, "q (generator)", series(1))):
            axes[0].plot(points, density.log_prob(points).exp(), color=look.color, label=name, linewidth=1.3)
        axes[0].plot(points, best_discriminator(REAL, MADE, points), color=MUTED, label="D* = p / (p + q)")
        axes[0].plot(points, learned(points), color=series(2).color, linestyle=":", label="D, learned")
        axes[0].set(title="The best discriminator", xlabel="x")
        distances = np.linspace(0.1, 8, 60)
        for index, loss in enumerate(LOSSES):
            slopes = [generator_gradient(float(distance), loss) for distance in distances]
            axes[1].plot(distances, slopes, color=series(index).color, label=loss)
        axes[1].set(title="Gradient of the generator", xlabel="distance from the data, in σ", yscale="log")
        wide = torch.linspace(-7, 7, 400, dtype=torch.float64)
        axes[2].plot(wide, TWO_MODES.log_prob(wide).exp(), color=MUTED, label="p")
        fits = {"min KL(p ‖ q): covers": covering_fit(TWO_MODES), "min KL(q ‖ p): seeks": seeking_fit(TWO_MODES)}
        for index, (name, fit) in enumerate(fits.items()):
            axes[2].plot(wide, fit.log_prob(wide).exp(), color=series(index).color, label=name)
        axes[2].set(title="One Gaussian for two modes", xlabel="x", ylim=(0, 0.85))
        for each in axes:
            each.legend(frameon=False, fontsize=8)
    return figure


def modes_figure(found: list[Outcome]) -> Figure:
    """What the generators of the first seed draw where data have 25 or 8 modes."""
    with styled():
        figure = Figure(figsize=(9.4, 2.7), layout="constrained")
        axes = figure.subplots(1, len(found))
        for each, outcome in zip(axes, found, strict=True):
            points, count = outcome.drawn[0], outcome.coverage[0]
            each.scatter(*points[:1000].T, s=2, color=series(0).color, rasterized=True)
            each.scatter(*outcome.centres.T, s=12, marker="+", color=series(1).color, linewidth=0.8)
            title = f"{outcome.loss}\n{count.covered} of {len(outcome.centres)} modes, {count.quality:.0%} near one"
            each.set_title(title, fontsize=9)
            each.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
    return figure


def main() -> None:
    """Measure, print one JSON object, and draw pictures where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, help="write adversarial-theory.svg and adversarial-modes.png here")
    parser.add_argument("--steps", type=int, default=3000, help="of each generator of points in the plane")
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    learned = train_discriminator(REAL, MADE)
    inside = torch.linspace(-3, 3, 200, dtype=torch.float64)
    gap = (learned(inside) - best_discriminator(REAL, MADE, inside)).abs().max()
    found = {
        "largest |D - D*| within [-3, 3]": float(gap),
        "Jensen-Shannon, by integration": jensen_shannon(REAL, MADE),
        "Jensen-Shannon, by the learned D": jensen_shannon_of(game_value(REAL, MADE, learned)),
        "log 2": math.log(2),
        "Jensen-Shannon, 30 sigma apart": jensen_shannon(mixture([0.0]), mixture([30.0])),
        "gradients 8 sigma apart": {loss: generator_gradient(8.0, loss) for loss in LOSSES},
        "covering fit": str(covering_fit(TWO_MODES)),
        "seeking fit": str(seeking_fit(TWO_MODES)),
    }
    modes = outcomes(arguments.steps, arguments.seeds)
    for each in modes:
        found[f"modes, {each.name}, {each.loss}"] = [count.covered for count in each.coverage]
        found[f"near a mode, {each.name}, {each.loss}"] = [round(count.quality, 3) for count in each.coverage]
    print(json.dumps(found, indent=2, ensure_ascii=False))
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
        save(theory_figure(learned), arguments.pictures / "adversarial-theory.svg")
        save(modes_figure(modes), arguments.pictures / "adversarial-modes.png")


if __name__ == "__main__":
    main()
