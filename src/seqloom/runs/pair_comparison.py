"""The ladder of models of pairs: the same pairs, tokens and budget for all, in one report."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from seqloom.config import RunConfig
from seqloom.config.schema import Seq2SeqConfig
from seqloom.data.buckets import BucketBatches
from seqloom.data.pair_store import PairStore
from seqloom.data.pairs import Pair
from seqloom.errors import UserError
from seqloom.metrics import Scored
from seqloom.reports import PairLadder, PairRung, write_pair_ladder_report
from seqloom.runs.evaluation import grouped, text_scores
from seqloom.runs.folder import RunFolder
from seqloom.runs.generation import Strategy
from seqloom.runs.pair_materials import PairMaterials, prepare_pairs
from seqloom.runs.rungs import Course, machine, shown
from seqloom.runs.seq2seq import TrainedSeq2Seq
from seqloom.runs.training import train
from seqloom.training import Processes, Reporter

PAIR_LADDER = ("seq2seq-rnn", "seq2seq-attention", "seq2seq-convolution", "seq2seq-transformer")
BEAM = 5
EXAMPLES = 6


def compare_pairs(
    configs: Mapping[str, RunConfig], out: Path, tokens: int | None = None, reporter: Reporter | None = None
) -> PairLadder:
    """Train each on the pairs and tokenisers of the first, for as many target tokens; write `out/report.html`.

    They are measured on the validation pairs, so that those of `data.test` are still unseen when one is chosen.
    """
    first = next(iter(configs.values()))
    processes = Processes.join(first.training.device)  # once for all trainings
    try:
        materials = processes.first_alone(lambda: prepare_pairs(first))
        equal = _on_equal_terms(configs, materials.train, tokens, processes.world)
        for name, config in equal.items():
            RunFolder(out / name).check_same(config)
        pairs = grouped(materials.valid_corpus)
        shown_rows = _spread(len(pairs))
        rungs = []
        for name, config in equal.items():
            if processes.main and reporter:
                reporter.say(f"{name}: {config.description}")
            model = train(config, out=out / name, resume=True, reporter=reporter)
            assert isinstance(model, TrainedSeq2Seq)
            rung, signature = _measure(name, model, pairs, shown_rows)
            rungs.append(rung)
    finally:
        processes.leave()
    vocabulary_size, tokenizer = _vocabulary(materials)
    ladder = PairLadder(
        title="The ladder on " + shown(first.pair_data.train),
        corpus=shown(first.pair_data.train),
        tokenizer=tokenizer,
        vocabulary_size=vocabulary_size,
        training_pairs=len(materials.train),
        validation_pairs=len(pairs),
        signature=signature,
        beam=BEAM,
        rungs=rungs,
        examples=[(pairs[row].source, pairs[row].targets[0]) for row in shown_rows],
        machine=machine(),
    )
    if processes.main:
        write_pair_ladder_report(ladder, out / "report.html")
    return ladder


def _on_equal_terms(
    configs: Mapping[str, RunConfig], store: PairStore, tokens: int | None, processes: int
) -> dict[str, RunConfig]:
    """The first one's pairs, tokenisers and seed for all, and as many target tokens to learn from."""
    first = next(iter(configs.values()))
    budget = tokens or _budget(first, store, processes)
    equal = {}
    for name, config in configs.items():
        assert isinstance(config.model, Seq2SeqConfig)
        if config.model.copying.kind != "none" and first.target_text is not None:
            raise UserError(f"{name!r} copies, for which both sides need one tokeniser: add --set target_text=null")
        steps = max(1, round(budget / _per_step(config, store, processes)))
        equal[name] = config.model_copy(
            update={
                "text": first.text,
                "target_text": first.target_text,
                "data": first.pair_data.model_copy(update={"batch_tokens": config.pair_data.batch_tokens}),
                "seed": first.seed,
                "training": config.training.model_copy(update={"steps": steps, "epochs": None}),
            }
        )
    return equal


def _per_step(config: RunConfig, store: PairStore, processes: int) -> float:
    """How many target tokens an optimiser step sees on average."""
    batches = BucketBatches(store, config.pair_data.batch_tokens, processes=processes).batches_per_epoch
    return store.totals.target_tokens / batches * config.training.accumulate


def _budget(config: RunConfig, store: PairStore, processes: int) -> float:
    """How many target tokens a configuration trains on."""
    if config.training.steps is not None:
        return config.training.steps * _per_step(config, store, processes)
    return (config.training.epochs or 1) * store.totals.target_tokens


def _measure(name: str, model: TrainedSeq2Seq, pairs: Sequence[Pair], examples: list[int]) -> tuple[PairRung, str]:
    """What a trained rung reaches, and sacreBLEU's signature."""
    _, greedy, greedy_speed = _decode(model, pairs, "greedy")
    outputs, beam, beam_speed = _decode(model, pairs, "beam")
    course = Course.of(model.path)
    rung = PairRung(
        name=name,
        description=model.config.description,
        folder=str(model.path),
        parameters=model.parameters,
        perplexity=math.exp(min(point.loss for point in course.curve)),  # whose weights were kept
        bleu=greedy["BLEU"].value,
        beam_bleu=beam["BLEU"].value,
        chrf=beam["chrF"].value,
        training_seconds=course.seconds,
        training_speed=course.speed,
        greedy_speed=greedy_speed,
        beam_speed=beam_speed,
        curve=course.curve,
        outputs=[outputs[row] for row in examples],
    )
    return rung, beam["BLEU"].signature


def _decode(
    model: TrainedSeq2Seq, pairs: Sequence[Pair], strategy: Strategy
) -> tuple[list[str], dict[str, Scored], float]:
    """What a model makes of the sources, its scores, and how many it decodes in a second."""
    began = time.perf_counter()
    outputs = model.translate([pair.source for pair in pairs], strategy=strategy, beam=BEAM)
    seconds = time.perf_counter() - began
    return outputs, text_scores(outputs, [pair.targets for pair in pairs]), len(pairs) / seconds


def _spread(count: int) -> list[int]:
    """A few numbers below `count`, evenly apart."""
    few = min(EXAMPLES, count)
    return [place * count // few for place in range(few)]


def _vocabulary(materials: PairMaterials) -> tuple[int, str]:
    """The size of the target's vocabulary, and which tokenisers there are."""
    source, target = materials.tokenizer, materials.target_tokenizer
    if target is None:
        return source.size, f"{source.kind}, for both sides"
    return target.size, f"{target.kind} in the target; {source.size:,} {source.kind} in the source"
