"""Training restricted Boltzmann machines into a run folder, and their reports."""

from __future__ import annotations

import torch
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema import AnnealingConfig, RbmConfig
from seqloom.data.image_batches import ImageBatches, all_batches
from seqloom.data.images import ImageSet
from seqloom.metrics.annealing import log_z_above
from seqloom.models.energy import BernoulliUnits, LabelledUnits, RestrictedBoltzmannMachine, build_rbm
from seqloom.reports import write_run_report
from seqloom.reports.energy import chains_section, energy_training_section
from seqloom.runs.energy import TrainedRbm
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.image_materials import prepare_images
from seqloom.runs.images import seeded
from seqloom.text import Tokenizer
from seqloom.training import Processes, Reporter, Trainer, read_metrics
from seqloom.training.energy import ContrastiveDivergence

WATCHED = 5000  # images at most whose free energies are compared at each validation
SHOWN = 100  # filters and samples in a report
MOMENTS = [1, 10, 100, 1000]  # steps after which it shows chains


def train_rbm(
    config: RunConfig, _: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit a machine; a run that has a configuration already goes on from its last checkpoint."""
    wanted, data = config.model, config.image_data
    assert isinstance(wanted, RbmConfig)
    going_on = folder.config_file.is_file()
    images = prepare_images(config)
    mean, variance = pixel_statistics(images.train, config)
    torch.manual_seed(config.seed)
    model = build_rbm(wanted, mean, variance)
    torch.manual_seed(config.seed * 1000 + processes.rank)  # the same weights, other chains, in each process
    held_out, learned = all_rows(images.valid, config)[:WATCHED], all_rows(images.train, config, WATCHED)
    objective = ContrastiveDivergence(wanted.steps, wanted.persistent, wanted.sparsity_cost, wanted.sparsity_target)
    trainer = Trainer(
        model,
        objective,
        ImageBatches(images.train, data.batch_size, data.values, config.seed),
        lambda: watch(model, learned, held_out, wanted.annealing),
        config.training,
        folder.path,
        processes,
        reporter,
    )
    if processes.main and not going_on:
        folder.write(config)
        ImageFormat.of(images.train).write(folder)
    processes.wait()
    if going_on:
        trainer.resume()
    trainer.fit()


def pixel_statistics(images: ImageSet, config: RunConfig) -> tuple[Tensor, Tensor]:
    """The mean and the variance of each pixel."""
    rows = all_rows(images, config)
    return rows.mean(0), rows.var(0, correction=0)


def all_rows(images: ImageSet, config: RunConfig, most: int | None = None) -> Tensor:
    """Images as rows of pixels, the first `most` of them."""
    count = min(len(images), most or len(images))
    first = ImageSet(images.images[:count], None)
    return torch.cat([batch.images.flatten(1) for batch in all_batches(first, count, config.image_data.values)])


@torch.inference_mode()
def watch(
    model: RestrictedBoltzmannMachine, learned: Tensor, held_out: Tensor, annealing: AnnealingConfig
) -> dict[str, float]:
    """What is told of a machine at a validation: -log p of images held out above all.

    log Z is estimated from above: from below, the best weights would be those whose log Z is missed most.
    The gap is how much higher the free energy of images held out is than that of images learned from: it needs no
    normaliser, and grows when the machine learns images by heart (Hinton 2012, §6).
    """
    learned, held_out = learned.to(model.device), held_out.to(model.device)
    with seeded(0):  # the same noise every time, and training goes on as if nobody had looked
        log_z = log_z_above(model, held_out[: annealing.chains], annealing.valid_steps)
        free = model.free_energy(held_out).double().mean()
        figures = {
            "valid_loss": float(free) + log_z,
            "valid_reconstruction": float((model.reconstruction(held_out) - held_out).square().sum(1).mean()),
            "free_energy_gap": float(free - model.free_energy(learned).double().mean()),
        }
        if isinstance(model.visible, BernoulliUnits) and not isinstance(model.visible, LabelledUnits):
            figures["valid_pseudo_likelihood"] = float(model.pseudo_log_prob(held_out).mean())
    return figures


def report_rbm(trained: TrainedRbm) -> None:
    """`report.html` of the run: its figures, its training, what the hidden units look for, samples and chains."""
    figures = {name: score.value for name, score in trained.figures().items()}
    weight = trained.model.weight.detach().T[:SHOWN]
    filters = trained.as_images(0.5 + weight / (2 * weight.abs().amax(1, keepdim=True).clamp(min=1e-9)))
    write_run_report(
        trained.path / "report.html",
        trained.path.name,
        (trained.path / "config.yaml").read_text(encoding="utf-8"),
        energy_training_section(read_metrics(trained.path)),
        {"parameters": trained.parameters, **figures},
        chains_section(filters, trained.sample(SHOWN), dict(zip(MOMENTS, trained.chains(12, MOMENTS), strict=True))),
    )
