"""Training a model of images given sentences into a run folder, and the report of it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema import TextToImageConfig
from seqloom.data.caption_batches import CaptionBatches, CaptionStore
from seqloom.data.captions import CaptionedImages
from seqloom.data.described_batches import DescribedBatch, DescribedBatches
from seqloom.data.image_batches import as_floats
from seqloom.data.scenes import SIDE
from seqloom.models.text_to_image import TextToImage
from seqloom.reports import training_section, write_run_report
from seqloom.reports.text_to_image import drawn_section
from seqloom.runs.caption_materials import CaptionMaterials, prepare_captions
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.images import seeded
from seqloom.runs.scene_judge import SceneJudge, scenes_of
from seqloom.runs.text_to_image import BATCH, TrainedTextToImage, first_captions
from seqloom.runs.vectors import start_embedding
from seqloom.text import Tokenizer
from seqloom.training import Processes, Reporter, Trainer, read_metrics
from seqloom.training.latent import build_bound

JUDGED = 200  # held-out images of the report's figures; `evaluate` takes them all
CODES = 10  # for each of them
PROMPTS = 8  # captions whose drawings the report shows
DRAWS = 8  # drawings of one of them
STEPS = 11  # images on the path between two codes


def train_text_to_image(
    config: RunConfig, tokenizer: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit with the trainer; a run that has a tokeniser already goes on where its last checkpoint was written.

    Where the captions tell of scenes, a judge of scenes is trained first.
    """
    materials = processes.first_alone(lambda: prepare_captions(config, tokenizer))
    trainer = _trainer(config, materials, folder, processes, reporter, fresh=tokenizer is None)
    if processes.main and tokenizer is None:
        folder.write(config, materials.tokenizer)
        ImageFormat(materials.train.shape, ()).write(folder)
    processes.wait()
    if _shows_scenes(materials.train):
        SceneJudge.train(folder, config.seed, config.training.device, processes, reporter)
    torch.manual_seed(config.seed * 1000 + processes.rank)  # the same weights, other draws, in each process
    if tokenizer is not None:
        trainer.resume()
    trainer.fit()


def _shows_scenes(train: CaptionedImages) -> bool:
    captions = [text for several in train.captions for text in several]
    return train.shape == (1, SIDE, SIDE) and scenes_of(captions) is not None


def _trainer(
    config: RunConfig,
    materials: CaptionMaterials,
    folder: RunFolder,
    processes: Processes,
    reporter: Reporter,
    fresh: bool,
) -> Trainer:
    wanted = config.model
    assert isinstance(wanted, TextToImageConfig)
    torch.manual_seed(config.seed)
    model = TextToImage(wanted, materials.train.shape, materials.tokenizer.size)
    model.begin(_mean(materials.train))
    if fresh and wanted.embedding.vectors is not None:
        reporter.say(start_embedding(model.embedding, materials.tokenizer, wanted.embedding.vectors))
    train, valid = (CaptionStore(each, materials.tokenizer) for each in (materials.train, materials.valid))
    batches = DescribedBatches(CaptionBatches(train, config.caption_data.batch_size, config.seed))
    samples = wanted.objective.samples if wanted.objective.kind == "iwae" else 1

    @torch.inference_mode()
    def validate() -> dict[str, float]:
        bound, count = 0.0, 0
        with seeded(0):
            for _, captions in valid.batches(BATCH):
                batch = DescribedBatch.of(captions).to(processes.device)
                bounds = model.elbo(batch) if samples == 1 else model.log_prob(batch, samples)
                bound += float(bounds.sum())
                count += batch.tokens
        return {"valid_loss": -bound / count}

    objective = build_bound(wanted.objective)
    return Trainer(model, objective, batches, validate, config.training, folder.path, processes, reporter)


def _mean(captioned: CaptionedImages) -> Tensor:
    """The mean image, [channels, height, width] from 0 to 1."""
    return as_floats(captioned.images.mean(0, keepdims=True).round().astype(np.uint8))[0]


def report_text_to_image(trained: TrainedTextToImage) -> None:
    """`report.html` of the run: its figures, how it came about, what it draws beside real images."""
    captioned = trained.captioned()
    shown = captioned.chosen(np.arange(min(PROMPTS, len(captioned))))
    some = captioned.chosen(np.arange(min(JUDGED, len(captioned))))
    captions = first_captions(shown)
    figures = {name: score.value for name, score in trained.measure(some, CODES).items()}
    write_run_report(
        trained.path / "report.html",
        trained.path.name,
        (trained.path / "config.yaml").read_text(encoding="utf-8"),
        training_section(read_metrics(trained.path)),
        {"parameters": trained.parameters, **figures},
        drawn_section(
            captions,
            shown.images,
            [trained.draw_each([text] * DRAWS) for text in captions],
            trained.interpolate(captions[0], steps=STEPS),
        ),
    )
