"""Training a captioner into a run folder, and the report of it."""

from __future__ import annotations

import math

import torch

from seqloom.config import RunConfig
from seqloom.config.schema import CaptionerConfig
from seqloom.data.caption_batches import CaptionBatches, CaptionStore
from seqloom.models.captioner import Captioner, build_captioner
from seqloom.reports import captions_section, training_section, write_run_report
from seqloom.runs.caption_evaluation import evaluate_captions
from seqloom.runs.caption_materials import CaptionMaterials, prepare_captions
from seqloom.runs.captions import BATCH, TrainedCaptioner
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.plans import plan_words
from seqloom.runs.vectors import start_embedding
from seqloom.text import Tokenizer
from seqloom.training import Processes, Reporter, Trainer, build_objective, read_metrics

SHOWN = 8  # images in the report
CAPTIONED = 1000  # images that its scores are taken from, at most


def train_captioner(
    config: RunConfig, tokenizer: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit with the trainer; a run that has a tokeniser already goes on where its last checkpoint was written."""
    materials = processes.first_alone(lambda: prepare_captions(config, tokenizer))
    if processes.main:
        reporter.say(f"training: {len(materials.train):,} images; validation: {len(materials.valid):,}")
    trainer = _trainer(config, materials, folder, processes, reporter, fresh=tokenizer is None)
    if processes.main and tokenizer is None:
        folder.write(config, materials.tokenizer)
        ImageFormat(materials.train.shape, ()).write(folder)
    processes.wait()
    if tokenizer is not None:
        trainer.resume()
    trainer.fit()


def _trainer(
    config: RunConfig,
    materials: CaptionMaterials,
    folder: RunFolder,
    processes: Processes,
    reporter: Reporter,
    fresh: bool,
) -> Trainer:
    assert isinstance(config.model, CaptionerConfig)
    tokenizer = materials.tokenizer
    train, valid = CaptionStore(materials.train, tokenizer), CaptionStore(materials.valid, tokenizer)
    plan = plan_words(config.model.output, train.captions.tokens, tokenizer)
    torch.manual_seed(config.seed)
    model = build_captioner(config.model, materials.train.shape, tokenizer.size, plan)
    if fresh and config.model.embedding.vectors is not None:
        reporter.say(start_embedding(model.embedding, tokenizer, config.model.embedding.vectors))
    torch.manual_seed(config.seed * 1000 + processes.rank)  # the same weights, another dropout, in each process
    batches = CaptionBatches(train, config.caption_data.batch_size, config.seed)

    def validate() -> dict[str, float]:
        found = caption_cross_entropy(model, valid)
        return {"valid_loss": found, "valid_perplexity": math.exp(min(found, 700.0))}

    objective = build_objective(config.objective)
    return Trainer(model, objective, batches, validate, config.training, folder.path, processes, reporter)


@torch.inference_mode()
def caption_cross_entropy(model: Captioner, store: CaptionStore) -> float:
    """-Σ log p(caption | image) / tokens, in nats, `<eos>` counted, over all captions of a store."""
    total, tokens = 0.0, 0
    for _, batch in store.batches(BATCH):
        total += model.log_prob(batch.targets.to(model.device), batch.images).double().sum().item()
        tokens += batch.tokens
    return -total / tokens


def report_captioner(trained: TrainedCaptioner) -> None:
    """`report.html` of the run: its scores on held-out images, how it came about, and what it writes."""
    found = evaluate_captions(trained, limit=CAPTIONED)
    step = max(1, len(found.outputs) // SHOWN)
    shown = trained.generate(found.captioned.images[::step][:SHOWN], attention=True)
    references = found.captioned.captions[::step][:SHOWN]
    looks = [several[0].attention for several in shown]
    examples = [(look, several) for look, several in zip(looks, references, strict=True) if look is not None]
    write_run_report(
        trained.path / "report.html",
        trained.path.name,
        (trained.path / "config.yaml").read_text(encoding="utf-8"),
        training_section(read_metrics(trained.path)),
        {
            "parameters": trained.parameters,
            "images captioned": len(found.outputs),
            **{name: score.value for name, score in found.scores.items()},
        },
        captions_section(examples),
    )
