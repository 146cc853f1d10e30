"""Training models with codes behind images into a run folder."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema.latent import AutoencoderConfig, MixtureConfig, PcaConfig, VaeConfig
from seqloom.data.image_batches import LEVELS, ImageBatch, ImageBatches, all_batches
from seqloom.data.images import ImageSet
from seqloom.errors import ConfigError
from seqloom.files import atomic_file
from seqloom.metrics.images import psnr
from seqloom.models.latent import Autoencoder, BernoulliMixture, Pca, Vae, corrupt
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.image_materials import ImageMaterials, prepare_images
from seqloom.runs.images import seeded
from seqloom.text import Tokenizer
from seqloom.training import Interrupted, Interrupts, Journal, Objective, Processes, Reporter, Trainer, model_weights
from seqloom.training.checkpoints import save_tensors
from seqloom.training.latent import build_bound
from seqloom.training.own_loss import OwnLoss

BATCH = 500  # images validated together
FITTED = 5000  # training images whose codes a normal distribution is fitted to
JUDGED = 5000  # validation images, at most


# ------------------------------------------------------------------------------------------- by the one trainer


def train_autoencoder(
    config: RunConfig, _tokenizer: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit an autoencoder; a run that stopped goes on from its last checkpoint."""
    wanted = config.model
    assert isinstance(wanted, AutoencoderConfig)
    materials = prepare_images(config)
    torch.manual_seed(config.seed)
    model = Autoencoder(wanted, materials.shape)
    model.begin(_mean(materials.train))

    def validate() -> dict[str, float]:
        codes = [model.transform(each.images) for each in _some(config, materials.train, FITTED, processes.device)]
        model.fit_codes(torch.cat(codes))
        random = torch.Generator().manual_seed(0)
        again = torch.Generator().manual_seed(0)
        loss, quality, count = 0.0, 0.0, 0
        for batch in _some(config, materials.valid, JUDGED, processes.device):
            loss += float(model.loss(batch, random))
            noisy = corrupt(batch.images, wanted.noise, wanted.strength, again)
            quality += float(psnr(model.reconstruct(noisy), batch.images).sum())
            count += batch.tokens
        return {"valid_loss": loss / count, "valid_psnr": quality / count}

    _fit(config, materials, model, OwnLoss(), validate, folder, processes, reporter)


def train_vae(
    config: RunConfig, _tokenizer: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit a variational autoencoder; a run that stopped goes on from its last checkpoint."""
    wanted = config.model
    assert isinstance(wanted, VaeConfig)
    materials = prepare_images(config)
    torch.manual_seed(config.seed)
    model = Vae(wanted, materials.shape, _classes(materials) if wanted.conditional else 0)
    model.begin(_mean(materials.train))
    samples = wanted.objective.samples if wanted.objective.kind == "iwae" else 1

    def validate() -> dict[str, float]:
        bound, count = 0.0, 0
        with seeded(0):
            for batch in _some(config, materials.valid, JUDGED, processes.device):
                bounds = model.elbo(batch) if samples == 1 else model.log_prob(batch, samples)
                bound += float(bounds.sum())
                count += batch.tokens
        return {"valid_loss": -bound / count}

    _fit(config, materials, model, build_bound(wanted.objective), validate, folder, processes, reporter)


def _fit(
    config: RunConfig,
    materials: ImageMaterials,
    model: torch.nn.Module,
    objective: Objective,
    validate: Callable[[], dict[str, float]],
    folder: RunFolder,
    processes: Processes,
    reporter: Reporter,
) -> None:
    data = config.image_data
    going_on = folder.config_file.is_file()
    torch.manual_seed(config.seed * 1000 + processes.rank)  # the same weights, other draws, in each process
    batches = ImageBatches(materials.train, data.batch_size, data.values, config.seed)
    judged = torch.inference_mode()(validate)
    trainer = Trainer(model, objective, batches, judged, config.training, folder.path, processes, reporter)
    if processes.main and not going_on:
        folder.write(config)
        ImageFormat.of(materials.train).write(folder)
    processes.wait()
    if going_on:
        trainer.resume()
    trainer.fit()


def _classes(materials: ImageMaterials) -> int:
    classes = ImageFormat.of(materials.train).classes
    if not classes:
        raise ConfigError("model.conditional needs classes: name images with labels, or set model.conditional=false")
    return len(classes)


def _mean(images: ImageSet) -> Tensor:
    """The mean image, [channels, height, width] from 0 to 1."""
    mean = torch.from_numpy(images.images.mean(0) / LEVELS).float()
    return mean.unsqueeze(0) if mean.dim() == 2 else mean.permute(2, 0, 1)


def _some(config: RunConfig, images: ImageSet, most: int, device: torch.device) -> list[ImageBatch]:
    return [batch.to(device) for batch in all_batches(images.first(most), BATCH, config.image_data.values)]


# -------------------------------------------------------------------------------------------------- all at once


def train_pca(
    config: RunConfig, _tokenizer: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Compute principal components, in the first process."""
    if processes.main and not folder.weights_file.is_file():
        wanted = config.model
        assert isinstance(wanted, PcaConfig)
        began = time.perf_counter()
        materials = prepare_images(config)
        images = _all(config, materials.train)
        model = Pca(wanted.size, materials.shape).fit(images)
        model.fit_codes(model.transform(images[:FITTED]))
        valid = _all(config, materials.valid)
        random = torch.Generator().manual_seed(0)
        noisy = corrupt(valid, wanted.noise, wanted.strength, random)
        error = (model.reconstruct(noisy) - valid).square().flatten(1).sum(1).mean()
        seconds = time.perf_counter() - began
        reporter.say(f"{wanted.size} components of {len(images):,} images in {seconds:.1f} s")
        entry = {"step": 1, "tokens": len(images), "seconds": seconds, "tokens_per_second": len(images) / seconds}
        entry |= {"valid_loss": float(error), "valid_psnr": float(psnr(model.reconstruct(noisy), valid).mean())}
        _write(config, materials, model, [entry], folder)
    processes.wait()


def train_mixture(
    config: RunConfig, _tokenizer: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit a mixture of Bernoullis by EM, in the first process."""
    if processes.main and not folder.weights_file.is_file():
        _fit_mixture(config, folder, processes.device, reporter)
    processes.wait()


def _fit_mixture(config: RunConfig, folder: RunFolder, device: torch.device, reporter: Reporter) -> None:
    wanted = config.model
    assert isinstance(wanted, MixtureConfig)
    materials = prepare_images(config)
    train, valid = (_all(config, images).to(device) for images in (materials.train, materials.valid))
    model = BernoulliMixture(wanted, materials.shape).to(device)
    model.begin(train, torch.Generator().manual_seed(config.seed))
    entries: list[dict[str, float]] = []
    began, before = time.perf_counter(), -float("inf")
    reporter.start("EM", 0, wanted.iterations)
    try:
        with Interrupts() as interrupts:
            for step in range(1, wanted.iterations + 1):
                log_prob, objective = model.improve(train)
                seconds = time.perf_counter() - began
                entries.append({"step": step, "loss": -log_prob, "objective": objective, "seconds": seconds})
                entries[-1]["valid_loss"] = -float(model.log_prob(valid).double().mean())
                entries[-1]["tokens"] = step * len(train)
                entries[-1]["tokens_per_second"] = step * len(train) / seconds
                reporter.advance(step, f"log p {log_prob:.2f}")
                if interrupts.number is not None:
                    raise Interrupted(f"stopped in round {step} of EM: nothing was written", interrupts.number)
                if objective - before < wanted.tolerance:
                    break
                before = objective
    finally:
        reporter.stop()
    _write(config, materials, model, entries, folder)


def _all(config: RunConfig, images: ImageSet) -> Tensor:
    return torch.cat([batch.images for batch in all_batches(images, BATCH, config.image_data.values)])


def _write(
    config: RunConfig,
    materials: ImageMaterials,
    model: torch.nn.Module,
    entries: list[dict[str, float]],
    folder: RunFolder,
) -> None:
    """The weights last: a run folder that has them is finished."""
    folder.write(config)
    ImageFormat.of(materials.train).write(folder)
    journal = Journal(folder.path)
    for entry in entries:
        journal.write(entry)
    journal.close()
    with atomic_file(folder.weights_file) as temporary:
        save_tensors(model_weights(model), temporary)
