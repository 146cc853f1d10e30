"""Sequence-to-sequence models: an encoder reads the source, a decoder writes the target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from seqloom.config import RunConfig
from seqloom.config.schema.data import PairData
from seqloom.config.schema.seq2seq import Seq2SeqConfig
from seqloom.config.schema.tasks import SpanTask, TaskData
from seqloom.data.batch import Numbers
from seqloom.data.materials import PairMaterials, prepare_pairs
from seqloom.data.pair_batches import PairBatch
from seqloom.data.stream import Stream
from seqloom.data.task_materials import TaskMaterials, prepare_tasks
from seqloom.models.build import build_seq2seq
from seqloom.models.seq2seq import Seq2Seq
from seqloom.models.variational_pairs import VariationalSeq2Seq
from seqloom.runs.conditional_model import validated
from seqloom.runs.contests import PairContest
from seqloom.runs.generation import SAMPLES
from seqloom.runs.kind import Kind, Report, Work
from seqloom.runs.learning import every, learning
from seqloom.runs.neural_words import start_embedding, word_layout
from seqloom.runs.pair_model import Seq2SeqAssets, TrainedSeq2Seq, validation_batches
from seqloom.runs.stages import Figures, Steps
from seqloom.training.randomness import seeded

SHOWN = 8  # examples in the report
COUNTED = 500  # batches that say how often each word is a target, where there are several tasks
DECODED = 1000  # sources that its scores are taken from, at most


class Seq2SeqKind(Kind[PairMaterials | TaskMaterials, Seq2SeqAssets, TrainedSeq2Seq]):
    """Any encoder, decoder and output layer, trained on batches of pairs of similar lengths, or of several tasks."""

    config = Seq2SeqConfig
    assets = Seq2SeqAssets
    trained = TrainedSeq2Seq
    next_step = "generate {run} --prompt ..."
    contest = PairContest

    def prepare(
        self, config: RunConfig, kept: Seq2SeqAssets | None
    ) -> tuple[PairMaterials | TaskMaterials, Seq2SeqAssets]:
        if isinstance(config.data, TaskData):
            tasks = prepare_tasks(config, kept.tokenizer if kept else None)
            if kept is None:
                words = _some_targets(tasks.stream(config.data.batch_tokens))
                kept = Seq2SeqAssets(tasks.tokenizer, word_layout(config.model.output, words, tasks.tokenizer))
            return tasks, kept
        tokenizers = (kept.tokenizer, kept.target_tokenizer) if kept else (None, None)
        materials = prepare_pairs(config, *tokenizers)
        if kept is None:
            target = materials.target_tokenizer
            layout = word_layout(config.model.output, materials.train.target.tokens, target or materials.tokenizer)
            kept = Seq2SeqAssets(materials.tokenizer, layout, target)
        return materials, kept

    def build(self, config: RunConfig, assets: Seq2SeqAssets) -> Seq2Seq:
        target = assets.target_tokenizer
        return build_seq2seq(config.model, assets.tokenizer.size, target.size if target else None, assets.output)

    def begin(self, model: Seq2Seq, config: RunConfig, assets: Seq2SeqAssets, data: Any) -> Iterable[str]:
        vectors = config.model.embedding.vectors
        yield from start_embedding(model.source_embedding.weight, assets.tokenizer, vectors)
        if assets.target_tokenizer is not None:
            yield from start_embedding(model.embedding.weight, assets.target_tokenizer, vectors)

    def stages(self, work: Work[PairMaterials | TaskMaterials, Seq2SeqAssets]) -> Iterator[Steps]:
        config, model, materials, assets = work.config, work.model, work.data, work.assets
        data: PairData | TaskData = config.data
        validate = bounded if isinstance(model, VariationalSeq2Seq) else validated
        trained = self.trained(model, assets, config, work.folder.path)
        if isinstance(materials, TaskMaterials):
            work.reporter.say(f"training: {'; '.join(map(str, materials.tasks))}")
            stream = materials.stream(data.batch_tokens, config.seed, work.processes.world)
            firsts = [next(validation_batches(task.valid)).source[0].tolist() for task in materials.tasks[:SAMPLES]]
            given = [assets.tokenizer.decode(source) for source in firsts]
            yield learning(
                work,
                assets.tokenizer,
                stream,
                lambda: mixed(model, materials, validate),
                tuple,
                lambda: iter(()),
                samples=partial(trained.written, given),
            )
            return
        work.reporter.say(f"training: {materials.train.totals}; validation: {materials.valid.totals}")
        yield learning(
            work,
            assets.target_tokenizer or assets.tokenizer,
            Stream(materials.train, materials.train.buckets(data.batch_tokens, work.processes.world), config.seed),
            lambda: validate(model, validation_batches(materials.valid)),
            every(materials.train, len(materials.train)),
            lambda: validation_batches(materials.valid),
            materials.train,
            materials.valid,
            partial(trained.written, materials.valid.sources(np.arange(min(SAMPLES, len(materials.valid))))),
        )

    def report(self, trained: TrainedSeq2Seq) -> Report:
        from seqloom.reports.run_report import outputs_section

        evaluation = trained.evaluate(limit=DECODED)
        first_references = (several[0] for several in evaluation.references)
        examples = list(zip(evaluation.sources, first_references, evaluation.outputs, strict=True))
        step = max(1, len(examples) // SHOWN)
        scores = {name: score.value for name, score in evaluation.scores.items()}
        shown = [*examples[::step][:SHOWN], *_filled_windows(trained)]
        return Report({"pairs decoded": len(examples), **scores}, [outputs_section(shown)])


def mixed(model: Seq2Seq, materials: TaskMaterials, validate: Callable[..., Figures]) -> Figures:
    """What a validation of each task finds, and the loss of all: the mean of theirs, weighted by their shares."""
    each = {task.name: validate(model, validation_batches(task.valid)) for task in materials.tasks}
    if len(each) == 1:
        return next(iter(each.values()))
    loss = sum(task.share * each[task.name]["valid_loss"] for task in materials.tasks)
    own = {f"{figure}_{name}": value for name, figures in each.items() for figure, value in figures.items()}
    return {"valid_loss": loss, "valid_perplexity": math.exp(min(loss, 700.0)), **own}


@torch.inference_mode()
def bounded(model: VariationalSeq2Seq, batches: Iterable[PairBatch]) -> Figures:
    """-ELBO per token with one code for each pair, the perplexity that it bounds from above, and the parts of the bound
    per pair. The noise is the same every time."""
    totals, pairs, tokens = torch.zeros(2, dtype=torch.float64), 0, 0
    with seeded(0):
        for batch in batches:
            reconstruction, divergences = model.elbo(batch.to(model.device))
            totals += torch.stack([reconstruction.double().sum(), divergences.double().sum()]).cpu()
            pairs, tokens = pairs + len(batch.targets), tokens + batch.tokens
    reconstruction, divergence = totals.tolist()
    loss = (divergence - reconstruction) / tokens
    parts = {"valid_reconstruction": reconstruction / pairs, "valid_divergence": divergence / pairs}
    return {"valid_loss": loss, "valid_perplexity": math.exp(min(loss, 700.0)), **parts}


def _some_targets(stream: Stream) -> Numbers:
    """The words of the targets of some batches, as training reads them: spans have others each time."""
    batches = (next(stream) for _ in range(min(COUNTED, stream.batches_per_epoch)))
    return np.concatenate([batch.targets.flatten()[batch.places].numpy() for batch in batches])


def _filled_windows(trained: TrainedSeq2Seq) -> Iterator[tuple[str, str, str]]:
    """Of each task of spans, some windows with gaps, what was taken out of them, and what the model writes."""
    for name, task in trained.tasks.items():
        if isinstance(task, SpanTask):
            batch = next(validation_batches(trained.held_out_windows(name)))
            sources, targets = (
                list(map(trained.tokenizer.decode, side[:SHOWN].tolist())) for side in (batch.source, batch.targets)
            )
            yield from zip(sources, targets, trained.translate(sources), strict=True)


KIND = Seq2SeqKind()
