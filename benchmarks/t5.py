"""python -m benchmarks.t5 --text FILE [FILE ...] --pairs DIR [--seeds 3] [--pretraining M] [--minutes M] [--jobs J]

Does it pay to fill gaps first? A Transformer of T5's arrangement learns to fill gaps in texts, then to summarise;
beside it, the same model learns to summarise from nothing, for as long as the second training took, and as long as
both.

FILE is a text, gzipped or not; DIR holds train.jsonl, validation.jsonl and test.jsonl with the keys source and target
(DialogSum). Gaps are filled in the texts and in the sources of train.jsonl, mixed by their sizes. All models have the
tokeniser of the first one of their seed, and all keep the weights that write best on the validation pairs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import torch

from benchmarks.quality import Config, _seqloom
from benchmarks.rewards import Result, Suite, _files, _finished, _references, _sure
from benchmarks.tables import Table
from seqloom.config import load_config
from seqloom.data.materials import prepare_pairs
from seqloom.data.task_materials import prepare_tasks
from seqloom.text.kinds import load_tokenizer

AS_LONG = "from nothing, as long"
LONGER = "from nothing, as long as both"
TUNED = "after filling gaps"
SUITE = Suite({}, "rouge-l", "ROUGE-L")
LONGEST = 100  # tokens of a summary
DROPOUT = 0.1  # where there are few pairs; none while gaps are filled, as in T5 1.1


class Plan(NamedTuple):
    """What is trained, and for how long."""

    text: list[str]
    pairs: Path
    size: int
    layers: int
    words: int
    pretraining: float
    """Minutes of filling gaps."""
    minutes: float
    """Minutes of learning from pairs."""
    rate: float
    batch_tokens: int
    length: int
    """Of a window."""


def main() -> None:
    """Train and decode everything, then print and write the table."""
    arguments = _arguments()
    named = {name: getattr(arguments, name) for name in Plan._fields}
    plan, seeds = Plan(**named), range(arguments.seeds)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        place: Path = arguments.work or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        prepare_tasks(load_config(_filling(plan, 0)))  # once, before several processes would do it side by side
        begun = list(pool.map(lambda seed: _train(f"gaps {seed}", _filling(plan, seed), place), seeds))
        prepare_pairs(
            load_config(_from_nothing(plan, 0, begun[0], 0.0)), load_tokenizer(begun[0] / "assets" / "tokenizer.json")
        )
        jobs = [(way, seed) for seed in seeds for way in (LONGER, AS_LONG, TUNED)]  # the longest first
        found = dict(zip(jobs, pool.map(lambda job: _learned(plan, *job, begun[job[1]], place), jobs), strict=True))
        references = _references(place / f"{TUNED} 0")
        filled = [json.loads(_seqloom("evaluate", str(run), "--json")) for run in begun]
    for seed, figures in enumerate(filled):
        print(f"gaps {seed}: { {name: score['value'] for name, score in figures.items()} }", file=sys.stderr)
    table = str(_table(plan, found, list(seeds), references))
    print(table)
    if arguments.out:
        arguments.out.write_text(table + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare learning after filling gaps with learning from nothing.")
    parser.add_argument("--text", nargs="+", required=True)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--pretraining", type=float, default=6.0, help="minutes of filling gaps")
    parser.add_argument("--minutes", type=float, default=2.0, help="minutes of learning from pairs")
    parser.add_argument("--size", type=int, default=384)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--words", type=int, default=16000, help="subwords of the vocabulary")
    parser.add_argument("--rate", type=float, default=1e-3, help="the peak of the learning rate")
    parser.add_argument("--batch-tokens", type=int, default=16384)
    parser.add_argument("--length", type=int, default=256, help="tokens of a window with gaps")
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side: a GPU has room for several")
    parser.add_argument("--work", type=Path, help="keep runs here; what is there already is not made again")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


# -------------------------------------------------------------------------------------------------- configurations


def _filling(plan: Plan, seed: int) -> Config:
    """Filling gaps: in the texts, and in the sources of the pairs."""
    gaps = {"kind": "spans", "length": plan.length}
    texts = gaps | {"train": [str(Path(name)) for name in plan.text], "valid_fraction": 0.02}
    sources = gaps | {"train": str(plan.pairs / "train.jsonl"), "field": "source", "valid_fraction": 0.02}
    tasks = [texts | {"name": "texts"}, sources | {"name": "sources"}]
    data = {"kind": "tasks", "tasks": tasks, "batch_tokens": plan.batch_tokens}
    return _config(plan, seed, {"kind": "unigram", "max_size": plan.words}, data, plan.pretraining, "loss", 0.0)


def _config(
    plan: Plan, seed: int, text: Config, data: Config, minutes: float, best: str, dropout: float = DROPOUT
) -> Config:
    stack = {
        "kind": "transformer",
        "size": plan.size,
        "layers": plan.layers,
        "heads": max(1, plan.size // 64),
        "feedforward": 2 * plan.size,
        "dropout": dropout,
        "normalisation": "rms",
        "epsilon": 1e-6,
        "bias": False,
        "activation": "gelu-tanh",
        "gated": True,
        "scaled_scores": False,
        "positions": "relative",
    }
    model = {"embedding": {"size": plan.size, "deviation": 1.0}, "encoder": stack, "decoder": stack}
    return {
        "seed": seed,
        "text": text,
        "data": data,
        "model": {"kind": "seq2seq", **model, "output": {"tied": False, "bias": False}},
        "training": _training(plan, minutes, best),
    }


def _training(plan: Plan, minutes: float, best: str) -> Config:
    on_gpu = torch.cuda.is_available()
    return {
        "steps": 1_000_000,
        "minutes": minutes,
        "precision": "bf16" if on_gpu else "float32",
        "compile": on_gpu and plan.minutes > 1,  # all or none: the times are compared
        "best": best,
        "validate_every": 250,
        "optimizer": {"learning_rate": plan.rate, "weight_decay": 0.01},
        "schedule": {"kind": "cosine", "warmup": 0.05, "final": 0.02},
    }


def _train(name: str, config: Config, folder: Path) -> Path:
    """Train without a report, which would decode, into a folder."""
    file, run = folder / f"{name}.yaml", folder / name
    file.write_text(json.dumps(config), encoding="utf-8")
    if not _finished(run):
        _seqloom("train", str(file), "--out", str(run), "--quiet", "--no-report")
    return run


def _pairs(plan: Plan) -> Config:
    names = {"train": "train", "valid": "validation", "test": "test"}
    files = {key: str(plan.pairs / f"{name}.jsonl") for key, name in names.items()}
    return {"kind": "pairs", "max_length": 512, "batch_tokens": plan.batch_tokens, **files}


def _from_nothing(plan: Plan, seed: int, begun: Path, more: float) -> Config:
    """Learning from pairs alone, for so many minutes more, under the tokeniser of a run."""
    return _config(plan, seed, {"kind": "run", "path": str(begun)}, _pairs(plan), plan.minutes + more, "bleu")


def _learned(plan: Plan, way: str, seed: int, begun: Path, folder: Path) -> Result:
    """Learn from pairs, with the weights of a run or from nothing, and write summaries of the test set."""
    run = folder / f"{way} {seed}"
    file, kept = _files(run, "beam")
    if kept.exists() or _finished(run):
        pass
    elif way == TUNED:
        settings = {"data": _pairs(plan), "training": _training(plan, plan.minutes, "bleu")}
        settings |= dict.fromkeys(("model.encoder.dropout", "model.decoder.dropout"), DROPOUT)
        given = [part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")]
        _seqloom("train", str(begun), *given, "--out", str(run), "--quiet", "--no-report")
    else:
        _train(run.name, _from_nothing(plan, seed, begun, plan.pretraining if way == LONGER else 0.0), folder)
    if not kept.exists():
        printed = _seqloom(
            "evaluate", str(run), "--max-length", str(LONGEST), "--output", str(file), "--json", "--quiet"
        )
        kept.write_text(printed, encoding="utf-8")
    scores = json.loads(kept.read_text(encoding="utf-8"))
    print(f"{run.name}: {scores[SUITE.figure]['value']:.2f}", file=sys.stderr, flush=True)
    return Result({"beam": scores[SUITE.figure]["value"]}, {"beam": file.read_text(encoding="utf-8").split("\n")[:-1]})


# ----------------------------------------------------------------------------------------------------------- table


def _table(plan: Plan, found: dict[tuple[str, int], Result], seeds: list[int], references: list[list[str]]) -> Table:
    rows = []
    for way in (AS_LONG, LONGER, TUNED):
        figures = [found[way, seed].figures["beam"] for seed in seeds]
        cells = [way, f"{mean(figures):.2f}" + (f" ± {stdev(figures):.2f}" if len(figures) > 1 else "")]
        for other in (AS_LONG, LONGER):
            if way != TUNED:
                cells.append("")
                continue
            before, now = (
                [text for seed in seeds for text in found[each, seed].outputs["beam"]] for each in (other, way)
            )
            result = _sure(SUITE, before, now, references, len(seeds))
            cells.append(f"{100 * result.difference:+.2f}, p {result.p:.3f}")
        rows.append(cells)
    note = (
        f"ROUGE-L on the test set, beam 5, mean ± deviation of {len(seeds)} seeds; {plan.pretraining:g} minutes of "
        f"filling gaps, {plan.minutes:g} minutes of pairs. Beside it the difference from each training from nothing, "
        "all seeds together, and the share of resamples of the sentences in which it is not above 0 (paired bootstrap)."
    )
    return Table("Filling gaps first", note, ["training", "ROUGE-L", "against as long", "against both"], rows, words=1)


if __name__ == "__main__":
    main()
