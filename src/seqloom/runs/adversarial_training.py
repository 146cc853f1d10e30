"""Training adversarial networks into a run folder, and the reports of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from seqloom.config import RunConfig
from seqloom.config.schema import GanConfig
from seqloom.data.image_batches import ImageBatches
from seqloom.data.images import ImageSet
from seqloom.errors import ConfigError
from seqloom.files import atomic_file
from seqloom.models.adversarial import Gan
from seqloom.reports import growth_section, players_section, samples_section, write_run_report
from seqloom.reports.html import join
from seqloom.runs.adversarial import TrainedGan, draw, every_class, some
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.image_materials import prepare_images
from seqloom.runs.images import Pixels
from seqloom.runs.judges import Judge, check_judge, compare_images, settle_judge
from seqloom.text import Tokenizer
from seqloom.training import Processes, Reporter, Trainer, read_metrics
from seqloom.training.adversarial import Adversarial

GROWTH = "growth"
"""The part of a run folder with samples of the same noise, a picture for each validation."""
SHOWN = 10  # images in such a picture
ROWS = 8  # such pictures in a report
SAMPLES = 100
COUNTED = 1000  # samples whose classes a report counts
COMPARED = 2000  # images that a validation takes from each side


def train_gan(
    config: RunConfig, _: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit both players; a run that has begun goes on from its last checkpoint.

    `valid_loss` is the Fréchet distance between held-out images and as many samples, in the features of the judge.
    """
    wanted, data = config.model, config.image_data
    assert isinstance(wanted, GanConfig)
    going_on = folder.config_file.is_file()
    materials = prepare_images(config)
    images = ImageFormat.of(materials.train)
    if wanted.conditional and not images.classes:
        raise ConfigError(f"model.conditional needs classes, and the images of {data.train} have none")
    if wanted.discriminator_steps > 1 and processes.world > 1:
        raise ConfigError("model.discriminator_steps must be 1 under torchrun: all processes exchange all gradients")
    if wanted.judge is not None and not going_on:
        check_judge(wanted.judge, materials.train)
    torch.manual_seed(config.seed)
    model = Gan(wanted, images.shape, len(images.classes))
    if processes.main and not going_on:
        folder.write(config)
        images.write(folder)
    processes.wait()
    judge = settle_judge(config, wanted.judge, materials.train, folder, processes, reporter)
    torch.manual_seed(config.seed * 1000 + processes.rank)  # the same weights, other noise, in each process
    batches = ImageBatches(materials.train, data.batch_size, data.values, config.seed)
    held_out = some(materials.valid, COMPARED)

    def validate() -> dict[str, float]:
        if processes.main:
            _keep(draw(model, SHOWN, config.seed, every_class(model, SHOWN)), trainer.progress.step, folder)
        return _validate(model, judge, held_out)

    objective = Adversarial(wanted.loss, wanted.discriminator_steps, wanted.label_smoothing)
    trainer = Trainer(model, objective, batches, validate, config.training, folder.path, processes, reporter)
    if going_on:
        trainer.resume()
    trainer.fit()


def _validate(model: Gan, judge: Judge, held_out: ImageSet) -> dict[str, float]:
    drawn = ImageSet(draw(model, len(held_out), 0, every_class(model, len(held_out))), None)
    found = compare_images(judge, held_out, drawn)
    return {"valid_loss": found.pop("frechet_distance"), **{f"valid_{name}": value for name, value in found.items()}}


def _keep(images: Pixels, step: int, folder: RunFolder) -> None:
    """A row of images as one picture, nothing between them, to be read again for the report."""
    path = folder.path / GROWTH / f"step-{step:08d}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary, open(temporary, "wb") as file:
        Image.fromarray(np.concatenate(list(images), axis=1)).save(file, format="PNG")


def growth(path: Path) -> dict[int, Pixels]:
    """By step, the samples of the same noise that a run kept; a few of the steps, the first and the last among them."""
    files = sorted((path / GROWTH).glob("step-*.png"))
    places = sorted({round(place) for place in np.linspace(0, len(files) - 1, ROWS)}) if files else []
    found = {}
    for file in (files[place] for place in places):
        with Image.open(file) as picture:
            found[int(file.stem.removeprefix("step-"))] = np.stack(np.split(np.asarray(picture), SHOWN, axis=1))
    return found


def report_gan(trained: TrainedGan) -> None:
    """`report.html` of the run: its figures, how both players fared, samples over training and at its end."""
    figures = {name: score.value for name, score in trained.figures().items()}
    counts = trained.class_counts(COUNTED)
    write_run_report(
        trained.path / "report.html",
        trained.path.name,
        (trained.path / "config.yaml").read_text(encoding="utf-8"),
        players_section(read_metrics(trained.path)),
        {"parameters": trained.parameters, **figures},
        join(
            [
                growth_section(growth(trained.path)),
                samples_section(trained.sample(SAMPLES), trained.images.classes, counts),
            ]
        ),
    )
