"""Training a sequence VAE into a run folder, and the report of it."""

from __future__ import annotations

import math

import torch

from seqloom.config import RunConfig
from seqloom.data.length_batches import LengthBatches
from seqloom.data.units import Units
from seqloom.errors import ConfigError
from seqloom.models.text_vae import TextVae, build_text_vae
from seqloom.reports import training_section, write_run_report
from seqloom.reports.text_vae import codes_section
from seqloom.runs.folder import RunFolder
from seqloom.runs.materials import prepare
from seqloom.runs.plans import plan_words
from seqloom.runs.text_vae import TrainedTextVae, bound_figures, text_vae_config
from seqloom.runs.vectors import start_embedding
from seqloom.text import Tokenizer
from seqloom.training import Processes, Reporter, Trainer, read_metrics
from seqloom.training.text_vae import TextElbo

SHOWN = 8  # sentences with what comes back from their codes
PATHS = 3  # ways from one sentence to another
STEPS = 7
SAMPLES = 8
JUDGED = 200  # units of the report's figures; `evaluate` takes them all


def train_text_vae(
    config: RunConfig, tokenizer: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit with the trainer; a run that has a tokeniser already goes on where its last checkpoint was written."""
    data, model_config = config.text_data, text_vae_config(config)
    if data.unit == "file":
        raise ConfigError("data.unit is 'file', and a sequence VAE reads sentences: set data.unit to line or paragraph")
    materials = processes.first_alone(lambda: prepare(config, tokenizer))
    units, valid = Units.of_store(materials.train), Units.of_store(materials.validation())
    train = units.no_longer_than(data.length)
    if not len(train) or not len(valid):
        which, key = ("training", "data.train") if not len(train) else ("validation", "data.valid")
        raise ConfigError(f"the {which} text has no {data.unit} of 1 to {data.length} tokens: see {key}, data.length")
    if processes.main:
        longer = f" ({len(units) - len(train):,} of more than {data.length} tokens left out)"
        said = longer if len(train) < len(units) else ""
        reporter.say(f"training: {len(train):,} {data.unit}s{said}; validation: {len(valid):,}")
    torch.manual_seed(config.seed)
    plan = plan_words(model_config.output, train.rows.tokens, materials.tokenizer)
    model = build_text_vae(model_config, materials.tokenizer.size, plan)
    if tokenizer is None and model_config.embedding.vectors is not None:
        reporter.say(start_embedding(model.embedding, materials.tokenizer, model_config.embedding.vectors))
    torch.manual_seed(config.seed * 1000 + processes.rank)  # the same weights, other noise, in each process
    trainer = Trainer(
        model,
        TextElbo(**model_config.objective.model_dump()),
        LengthBatches(train, data.batch_size * data.length, config.seed, processes.world),
        lambda: _validated(model, valid),
        config.training,
        folder.path,
        processes,
        reporter,
    )
    if processes.main:
        folder.write(config, materials.tokenizer)
    processes.wait()
    if tokenizer is not None:
        trainer.resume()
    trainer.fit()


def _validated(model: TextVae, units: Units) -> dict[str, float]:
    """-ELBO per token, the perplexity that it bounds from above, and the parts of the bound per unit."""
    found = bound_figures(model, units)
    perplexity = math.exp(min(found["loss"], 700.0))
    parts = {f"valid_{name}": found[name] for name in ("reconstruction", "divergence", "active_units")}
    return {"valid_loss": found["loss"], "valid_perplexity": perplexity, **parts}


def report_text_vae(trained: TrainedTextVae) -> None:
    """`report.html` of the run: its figures, how it came about, what comes back from codes and what lies between."""
    held_out = [text for text in trained.reference() or () if text.strip()][:JUDGED]
    figures = {name: score.value for name, score in trained.measure(held_out).items()} if held_out else {}
    shown = held_out[:SHOWN]
    ends = list(zip(held_out[0::2], held_out[1::2], strict=False))[:PATHS]
    write_run_report(
        trained.path / "report.html",
        trained.path.name,
        (trained.path / "config.yaml").read_text(encoding="utf-8"),
        training_section(read_metrics(trained.path)),
        {"parameters": trained.parameters, **figures},
        codes_section(
            trained.sample(SAMPLES, max_length=60),
            list(zip(shown, trained.reconstruct(shown), strict=True)),
            [(first, second, trained.interpolate(first, second, STEPS)) for first, second in ends],
        ),
    )
