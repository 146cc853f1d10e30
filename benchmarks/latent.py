"""An epoch of a variational autoencoder, beside pythae, a plain loop, and the products of matrices alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.tables import Table
from benchmarks.timing import epochs_in_turns
from seqloom.config.schema.latent import DenseNetworks, VaeConfig
from seqloom.config.schema.objectives import ElboObjective
from seqloom.config.schema.training import OptimizerConfig, TrainingConfig
from seqloom.data.image_batches import image_stream
from seqloom.data.images import ImageSet, load_images
from seqloom.models.latent.vae import Vae
from seqloom.training import Processes, Trainer
from seqloom.training.bounds import Elbo

RATE = 1e-3


@dataclass(frozen=True)
class LatentSizes:
    """What is measured."""

    layers: tuple[int, int] = (200, 200)
    code: int = 50
    batch: int = 100
    repetitions: int = 3
    images: int | None = None
    """The first so many; all, when not given."""


def run_latent(source: str, sizes: LatentSizes, say: Callable[[str], None]) -> Table:
    """Seconds of an epoch, the contestants taking turns; the median counts."""
    loaded = load_images(source)
    images = ImageSet(loaded.images[: sizes.images], None)
    rows = torch.from_numpy((images.images.reshape(len(images), -1) > 127).astype(np.float32))
    contestants: dict[str, Callable[[], None]] = {
        "products alone": lambda: _products(rows, sizes),
        "seqloom": lambda: _seqloom(images, sizes),
        "plain PyTorch": lambda: _plain(rows, sizes),
        "pythae": lambda: _pythae(rows, sizes),
    }
    medians = epochs_in_turns(contestants, sizes.repetitions, say)
    floor, peer = medians["products alone"], medians["pythae"]
    lines = [
        [name, f"{median:.2f}", f"{median / floor:.2f}", f"{peer / median:.2f}"] for name, median in medians.items()
    ]
    note = (
        f"One epoch of a variational autoencoder: {len(rows):,} images of {rows.size(1)} pixels, layers of "
        f"{' and '.join(map(str, sizes.layers))}, codes of {sizes.code}, batches of {sizes.batch}, Adam, float32, "
        f"{torch.get_num_threads()} threads; median of {sizes.repetitions} in turn. seqloom and pythae are whole "
        "trainers: reading batches, log, checkpoint."
    )
    return Table(
        "Variational autoencoder", note, ["contestant", "seconds", "× products", "times as fast"], lines, words=1
    )


def _shapes(pixels: int, sizes: LatentSizes) -> list[tuple[int, int]]:
    first, second = sizes.layers
    return [
        (pixels, first),
        (first, second),
        (second, 2 * sizes.code),
        (sizes.code, second),
        (second, first),
        (first, pixels),
    ]


@torch.no_grad()
def _products(rows: Tensor, sizes: LatentSizes) -> None:
    """For each layer forwards, backwards for its weights and, but for the first, backwards for its inputs."""
    shapes = _shapes(rows.size(1), sizes)
    weights = [torch.randn(shape) for shape in shapes]
    inputs = [torch.randn(sizes.batch, before) for before, _ in shapes]
    outputs = [torch.randn(sizes.batch, after) for _, after in shapes]
    for _ in range(len(rows) // sizes.batch):
        for index, (weight, given, out) in enumerate(zip(weights, inputs, outputs, strict=True)):
            torch.mm(given, weight)
            torch.mm(given.T, out)
            if index:
                torch.mm(out, weight.T)


def _seqloom(images: ImageSet, sizes: LatentSizes) -> None:
    config = VaeConfig(size=sizes.code, networks=DenseNetworks(sizes=sizes.layers))
    height, width = images.images.shape[1:]
    model = Vae(config, (1, height, width))
    training = TrainingConfig(
        epochs=1, clip=0, optimizer=OptimizerConfig(kind="adam", learning_rate=RATE), log_every=100
    )
    with tempfile.TemporaryDirectory() as folder:
        batches = image_stream(images, sizes.batch, "binary")
        processes = Processes.join("cpu")
        trainer = Trainer(
            model, Elbo(ElboObjective()), batches, lambda: {"valid_loss": 0.0}, training, Path(folder), processes
        )
        trainer.fit()


class _Networks(nn.Module):
    """The layers that all contestants have."""

    def __init__(self, pixels: int, sizes: LatentSizes) -> None:
        super().__init__()
        layers = [nn.Linear(before, after) for before, after in _shapes(pixels, sizes)]
        self.encoder = nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])
        self.decoder = nn.Sequential(layers[3], nn.Tanh(), layers[4], nn.Tanh(), layers[5])


def _plain(rows: Tensor, sizes: LatentSizes) -> None:
    """The loop that one writes by hand."""
    networks = _Networks(rows.size(1), sizes)
    optimizer = torch.optim.Adam(networks.parameters(), lr=RATE)
    order = torch.randperm(len(rows))
    for first in range(0, len(rows) - sizes.batch + 1, sizes.batch):
        data = rows[order[first : first + sizes.batch]]
        mean, log_variance = networks.encoder(data).chunk(2, dim=1)
        codes = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        missed = F.binary_cross_entropy_with_logits(networks.decoder(codes), data, reduction="sum")
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
        optimizer.zero_grad()
        ((missed + divergence) / sizes.batch).backward()
        optimizer.step()


def _pythae(rows: Tensor, sizes: LatentSizes) -> None:
    from pythae.data.datasets import BaseDataset
    from pythae.models import VAE
    from pythae.models import VAEConfig as PeerConfig
    from pythae.models.base.base_utils import ModelOutput
    from pythae.models.nn import BaseDecoder, BaseEncoder
    from pythae.trainers import BaseTrainer, BaseTrainerConfig

    networks = _Networks(rows.size(1), sizes)

    class Encoder(BaseEncoder):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = networks.encoder

        def forward(self, images: Tensor) -> Any:
            mean, log_variance = self.network(images.flatten(1)).chunk(2, dim=1)
            return ModelOutput(embedding=mean, log_covariance=log_variance)

    class Decoder(BaseDecoder):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = networks.decoder

        def forward(self, codes: Tensor) -> Any:
            return ModelOutput(reconstruction=self.network(codes).sigmoid())

    with tempfile.TemporaryDirectory() as folder:
        config = BaseTrainerConfig(
            output_dir=folder, num_epochs=1, per_device_train_batch_size=sizes.batch, learning_rate=RATE, no_cuda=True
        )
        peer = PeerConfig(input_dim=(rows.size(1),), latent_dim=sizes.code, reconstruction_loss="bce")
        model = VAE(peer, Encoder(), Decoder())
        dataset = BaseDataset(rows, torch.zeros(len(rows)))
        BaseTrainer(model=model, train_dataset=dataset, eval_dataset=None, training_config=config).train()
