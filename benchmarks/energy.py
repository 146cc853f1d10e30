"""An epoch of contrastive divergence, beside scikit-learn, a plain loop, and the products of matrices alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.tables import Table
from benchmarks.timing import epochs_in_turns
from seqloom.config.schema.energy import RbmConfig
from seqloom.config.schema.objectives import ContrastiveDivergenceObjective
from seqloom.config.schema.training import OptimizerConfig, TrainingConfig
from seqloom.data.image_batches import image_stream
from seqloom.data.images import ImageSet, load_images
from seqloom.models.energy.rbm import build_rbm
from seqloom.training import Processes, Trainer
from seqloom.training.energy import ContrastiveDivergence

RATE = 0.05


@dataclass(frozen=True)
class EnergySizes:
    """What is measured."""

    hidden: int = 500
    batch: int = 100
    repetitions: int = 3
    images: int | None = None
    """The first so many; all, when not given."""


def run_energy(source: str, sizes: EnergySizes, say: Callable[[str], None]) -> Table:
    """Seconds of an epoch of CD-1, the contestants taking turns; the median counts."""
    loaded = load_images(source)
    images = ImageSet(loaded.images[: sizes.images], None)
    rows = torch.from_numpy((images.images.reshape(len(images), -1) > 127).astype(np.float32))
    contestants: dict[str, Callable[[], None]] = {
        "products alone": lambda: _products(rows, sizes),
        "seqloom": lambda: _seqloom(images, sizes),
        "plain PyTorch": lambda: _plain(rows, sizes),
        "scikit-learn": lambda: _scikit_learn(rows, sizes),
    }
    medians = epochs_in_turns(contestants, sizes.repetitions, say)
    floor = medians["products alone"]
    lines = [[name, f"{median:.2f}", f"{median / floor:.2f}"] for name, median in medians.items()]
    note = (
        f"One epoch of CD-1: {len(rows):,} images of {rows.size(1)} pixels, {sizes.hidden} hidden units, batches of "
        f"{sizes.batch}, float32, {torch.get_num_threads()} threads; median of {sizes.repetitions} in turn. seqloom is "
        "the whole trainer: reading batches, gradient norm, momentum, log."
    )
    return Table("Contrastive divergence", note, ["contestant", "seconds", "× products"], lines, words=1)


@torch.no_grad()
def _products(rows: Tensor, sizes: EnergySizes) -> None:
    """The five products that CD-1 cannot do without."""
    weight, hidden = torch.randn(rows.size(1), sizes.hidden), torch.rand(sizes.batch, sizes.hidden)
    gradient = torch.empty_like(weight)
    for first in range(0, len(rows) - sizes.batch + 1, sizes.batch):
        data = rows[first : first + sizes.batch]
        torch.mm(data, weight)
        torch.mm(hidden, weight.T)
        torch.mm(data, weight)
        torch.mm(data.T, hidden, out=gradient)
        gradient.addmm_(data.T, hidden, alpha=-1)


def _seqloom(images: ImageSet, sizes: EnergySizes) -> None:
    mean = torch.full((int(np.prod(images.images.shape[1:])),), 0.1)
    model = build_rbm(RbmConfig(size=sizes.hidden), mean, mean)
    optimizer = OptimizerConfig(kind="sgd", learning_rate=RATE, momentum=0.5)
    training = TrainingConfig(epochs=1, clip=0, optimizer=optimizer, log_every=100)
    with tempfile.TemporaryDirectory() as folder:
        batches = image_stream(images, sizes.batch, "binary")
        processes = Processes.join("cpu")
        trainer = Trainer(
            model,
            ContrastiveDivergence(ContrastiveDivergenceObjective()),
            batches,
            lambda: {"valid_loss": 0.0},
            training,
            Path(folder),
            processes,
        )
        trainer.fit()


@torch.no_grad()
def _plain(rows: Tensor, sizes: EnergySizes) -> None:
    """The loop that one writes by hand."""
    weight = torch.randn(rows.size(1), sizes.hidden) * 0.01
    visible_bias, hidden_bias = torch.zeros(rows.size(1)), torch.zeros(sizes.hidden)
    velocity = torch.zeros_like(weight)
    order = torch.randperm(len(rows))
    for first in range(0, len(rows) - sizes.batch + 1, sizes.batch):
        data = rows[order[first : first + sizes.batch]]
        expected = torch.sigmoid(data @ weight + hidden_bias)
        hidden = torch.bernoulli(expected)
        fantasy = torch.bernoulli(torch.sigmoid(hidden @ weight.T + visible_bias))
        again = torch.sigmoid(fantasy @ weight + hidden_bias)
        velocity = 0.5 * velocity + (data.T @ expected - fantasy.T @ again) / sizes.batch
        weight += RATE * velocity
        visible_bias += RATE * (data - fantasy).mean(0)
        hidden_bias += RATE * (expected - again).mean(0)


def _scikit_learn(rows: Tensor, sizes: EnergySizes) -> None:
    """Its persistent chains take the same five products."""
    from sklearn.neural_network import BernoulliRBM

    BernoulliRBM(sizes.hidden, learning_rate=RATE, batch_size=sizes.batch, n_iter=1, random_state=0).fit(rows.numpy())
