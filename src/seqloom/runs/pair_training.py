"""Training a sequence-to-sequence model into a run folder, and the report of it."""

from __future__ import annotations

import math

import torch

from seqloom.config import RunConfig
from seqloom.config.schema import Seq2SeqConfig
from seqloom.data.buckets import BucketBatches
from seqloom.metrics import pair_cross_entropy
from seqloom.models import build_seq2seq
from seqloom.reports import outputs_section, training_section, write_run_report
from seqloom.runs.evaluation import evaluate_pairs
from seqloom.runs.folder import RunFolder
from seqloom.runs.pair_materials import PairMaterials, prepare_pairs
from seqloom.runs.plans import plan_words
from seqloom.runs.seq2seq import TrainedSeq2Seq
from seqloom.runs.vectors import start_embedding
from seqloom.text import Tokenizer
from seqloom.training import Processes, Reporter, Trainer, build_objective, read_metrics

SHOWN = 8  # examples in the report
DECODED = 1000  # pairs that its scores are taken from, at most


def train_seq2seq(
    config: RunConfig, tokenizer: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit with the trainer; a run that has a tokeniser already goes on where its last checkpoint was written."""
    target_tokenizer = folder.target_tokenizer() if tokenizer is not None else None
    materials = processes.first_alone(lambda: prepare_pairs(config, tokenizer, target_tokenizer))
    if processes.main:
        reporter.say(f"training: {materials.train.totals}; validation: {materials.valid.totals}")
    trainer = _trainer(config, materials, folder, processes, reporter, fresh=tokenizer is None)
    if processes.main:
        folder.write(config, materials.tokenizer, materials.target_tokenizer)
    processes.wait()
    if tokenizer is not None:
        trainer.resume()
    trainer.fit()


def _trainer(
    config: RunConfig,
    materials: PairMaterials,
    folder: RunFolder,
    processes: Processes,
    reporter: Reporter,
    fresh: bool,
) -> Trainer:
    assert isinstance(config.model, Seq2SeqConfig)
    target = materials.target_tokenizer
    plan = plan_words(config.model.output, materials.train.target.tokens, target or materials.tokenizer)
    torch.manual_seed(config.seed)
    model = build_seq2seq(config.model, materials.tokenizer.size, target.size if target else None, plan)
    if fresh and config.model.embedding.vectors is not None:
        reporter.say(start_embedding(model.source_embedding, materials.tokenizer, config.model.embedding.vectors))
        if target is not None:
            reporter.say(start_embedding(model.embedding, target, config.model.embedding.vectors))
    torch.manual_seed(config.seed * 1000 + processes.rank)  # the same weights, another dropout, in each process
    batches = BucketBatches(materials.train, config.pair_data.batch_tokens, config.seed, processes.world)

    def validate() -> dict[str, float]:
        found = pair_cross_entropy(model, materials.valid)
        return {"valid_loss": found, "valid_perplexity": math.exp(min(found, 700.0))}

    objective = build_objective(config.objective)
    return Trainer(model, objective, batches, validate, config.training, folder.path, processes, reporter)


def report_seq2seq(trained: TrainedSeq2Seq) -> None:
    """`report.html` of the run: its scores on held-out pairs, how it came about, and what it writes."""
    found = evaluate_pairs(trained, limit=DECODED)
    examples = list(zip(found.sources, (several[0] for several in found.references), found.outputs, strict=True))
    step = max(1, len(examples) // SHOWN)
    scores = {name: score.value for name, score in found.scores.items()}
    write_run_report(
        trained.path / "report.html",
        trained.path.name,
        (trained.path / "config.yaml").read_text(encoding="utf-8"),
        training_section(read_metrics(trained.path)),
        {"parameters": trained.parameters, "pairs decoded": len(examples), **scores},
        outputs_section(examples[::step][:SHOWN]),
    )
