"""python -m benchmarks.quality SUITE --data DIR [--rows A;B] [--jobs N] [--steps N] [--out FILE.md]

Train the models that docs/pairs.md and docs/output-layers.md compare, measure each on the test set, write the table.

multi30k, attentions, scheduled-sampling: DIR holds train, val and test_2016_flickr, each .en and .de (gzipped or not).
dialogsum: DIR holds train.jsonl, validation.jsonl and test.jsonl with the keys source and target (a list in test).
outputs: DIR holds train.txt, valid.txt and test.txt (gzipped or not), words between spaces.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.outputs import LAYERS
from benchmarks.tables import Table

Config = dict[str, Any]
Scores = dict[str, dict[str, float]]
"""Of one run: "beam" and "greedy" (a language model: ""), each with its figures by name."""

SEEDS = (0, 1, 2)
ATTENTIONS = ("dot", "scaled-dot", "bilinear", "additive", "coverage", "location")
TRANSFORMER = {"kind": "transformer", "size": 256, "layers": 4, "heads": 4, "feedforward": 512, "dropout": 0.3}
SMALLER = TRANSFORMER | {"layers": 3, "dropout": 0.2}
CONVOLUTION = {"kind": "convolution", "size": 256, "layers": 6, "dropout": 0.2}


def main() -> None:
    """Train and decode everything, then print and write the table."""
    arguments = _arguments()
    runs, table = SUITES[arguments.suite]
    configs = runs(arguments.data)
    if arguments.rows:
        configs = {name: configs[name] for name in arguments.rows.split(";")}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = [(name, config, Path(folder), arguments.steps) for name, config in configs.items()]
        found = dict(pool.map(_measured, jobs))
    text = str(table(found))
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare how well models do.")
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", help="only these rows of the table, with ; between them")
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side: a GPU has room for several")
    parser.add_argument("--steps", type=int, help="fewer steps than the table's: a look, not a result")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _measured(job: tuple[str, Config, Path, int | None]) -> tuple[str, Scores]:
    """Train one configuration in a process of its own, and decode with it twice."""
    name, config, folder, steps = job
    if steps:
        config["training"]["steps"] = steps
    if "vectors" in config:
        config["model"]["output"]["vectors"] = str(_trained(f"{name} vectors", config.pop("vectors"), folder))
    run = _trained(name, config, folder)
    scores = {}
    for strategy in ("beam", "greedy") if config["model"]["kind"] == "seq2seq" else ("",):
        decoding = ("--strategy", strategy) if strategy else ()
        figures = json.loads(_seqloom("evaluate", str(run), *decoding, "--json"))
        scores[strategy] = {figure: score["value"] for figure, score in figures.items()}
        print(f"{name} {strategy}: {scores[strategy]}", file=sys.stderr, flush=True)
    if config["model"].get("output", {}).get("kind") in ("noise-contrastive", "negative-sampling", "softmax"):
        found = json.loads(_seqloom("inspect", "normaliser", str(run), "--out", str(run / "z.svg"), "--json"))
        scores["normaliser"] = {figure: found[figure] for figure in ("mean", "deviation")}
    return name, scores


def _trained(name: str, config: Config, folder: Path) -> Path:
    file, run = folder / f"{name}.yaml", folder / name
    file.write_text(json.dumps(config), encoding="utf-8")
    _seqloom("train", str(file), "--out", str(run), "--quiet")
    return run


def _seqloom(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "seqloom", *arguments], check=True, stdout=subprocess.PIPE
    ).stdout.decode()


# -------------------------------------------------------------------------------------------------- configurations


def _config(model: Config, data: Config, objective: Config, steps: int, rate: float, text: Config) -> Config:
    training = {
        "steps": steps,
        "precision": "bf16",
        "validate_every": 250,
        "optimizer": {"learning_rate": rate, "betas": [0.9, 0.98]},
        "schedule": {"kind": "cosine", "warmup": 200, "final": 0.02},
    }
    model = {"kind": "seq2seq", **model}
    return {"text": text, "data": data, "model": model, "objective": objective, "training": training}


def _recurrent(attention: str, size: int = 512, bidirectional: bool = True, **decoder: Any) -> Config:
    encoder = {"kind": "lstm", "size": size, "bidirectional": bidirectional, "dropout": 0.3}
    below = {"kind": "lstm", "size": size, "dropout": 0.3, "attention": {"kind": attention}}
    return {"embedding": {"size": size // 2, "dropout": 0.3}, "encoder": encoder, "decoder": below | decoder}


def _translating(
    model: Config, folder: Path, objective: Config | None = None, steps: int = 2500, rate: float = 2e-3
) -> Config:
    def pairs(part: str) -> str:
        ending = ".gz" if (folder / f"{part}.en.gz").is_file() else ""
        return f"{folder / part}.en{ending},{folder / part}.de{ending}"

    data = {"kind": "pairs", "train": pairs("train"), "valid": pairs("val"), "test": pairs("test_2016_flickr")}
    smoothed = {"kind": "teacher-forcing", "label_smoothing": 0.1}
    return _config(model, data, objective or smoothed, steps, rate, {"kind": "unigram", "max_size": 8000})


def multi30k(folder: Path) -> dict[str, Config]:
    """The ladder: without attention, with each kind of it, convolution, Transformer."""
    models = {
        "LSTM, one direction, last state": _recurrent("none", bidirectional=False),
        "LSTM, one direction, sum of states read at every step": _recurrent(
            "none", bidirectional=False, summary="sum", feed=True
        ),
        "LSTM, bidirectional, last state": _recurrent("none"),
        **{f"+ {kind}": _recurrent(kind) for kind in ATTENTIONS},
        "Transformer, 4 + 4 layers": {"embedding": {"size": 256}, "encoder": TRANSFORMER, "decoder": TRANSFORMER},
    }
    convolution = {"embedding": {"size": 256, "dropout": 0.3}, "encoder": CONVOLUTION, "decoder": CONVOLUTION}
    configs = {name: _translating(model, folder) for name, model in models.items()}
    return configs | {"convolution, 6 + 6 layers": _translating(convolution, folder, rate=1e-3)}


def attentions(folder: Path) -> dict[str, Config]:
    """Attending after each step (Luong et al. 2015) and before it (Bahdanau et al. 2015), three seeds each."""
    return {
        f"{name} {seed}": _translating(_recurrent("additive", attends=attends), folder) | {"seed": seed}
        for name, attends in (("after the step", "after"), ("before the step", "before"))
        for seed in SEEDS
    }


def scheduled_sampling(folder: Path) -> dict[str, Config]:
    """Teacher forcing and the three decays, on one recurrent model, three seeds each."""
    objectives: dict[str, Config] = {"teacher forcing": {"kind": "teacher-forcing"}}
    for decay in ("linear", "exponential", "inverse-sigmoid"):
        objectives[decay] = {"kind": "scheduled-sampling", "decay": decay, "begin": 1.0, "end": 0.5}
    model = _recurrent("bilinear")
    return {
        f"{name} {seed}": _translating(model, folder, objective, steps=1500) | {"seed": seed}
        for name, objective in objectives.items()
        for seed in SEEDS
    }


def dialogsum(folder: Path) -> dict[str, Config]:
    """Summaries with and without copying, coverage and selection."""
    names = {"train": "train", "valid": "validation", "test": "test"}
    data: Config = {key: str(folder / f"{name}.jsonl") for key, name in names.items()}
    data |= {"kind": "pairs", "max_length": 400, "batch_tokens": 8192}
    plain, covered = {"kind": "teacher-forcing"}, {"kind": "teacher-forcing", "coverage": 1.0}
    kinds: dict[str, tuple[str, str, Config]] = {
        "": ("none", "none", plain),
        " + copying": ("pointer", "additive", plain),
        " + copying, coverage": ("pointer", "coverage", covered),
        " + copying, coverage, selection": ("selective", "coverage", covered),
    }
    configs = {}
    for added, (copying, attention, objective) in kinds.items():
        second = SMALLER | {"attention": {"kind": attention}}
        models = {
            "LSTM": (_recurrent("additive" if attention == "none" else attention, size=256), 1.5e-3),
            "Transformer": ({"embedding": {"size": 256}, "encoder": SMALLER, "decoder": second}, 1e-3),
        }
        for name, (model, rate) in models.items():
            model = model | {"copying": {"kind": copying}}
            configs[name + added] = _config(model, data, objective, 3000, rate, {"kind": "words", "min_count": 5})
    return configs


def outputs(folder: Path) -> dict[str, Config]:
    """One LSTM under every output layer."""

    def text(part: str) -> str:
        return f"{folder / part}.txt" + (".gz" if (folder / f"{part}.txt.gz").is_file() else "")

    data = {"train": text("train"), "valid": text("valid"), "test": text("test"), "unit": "line"}
    shape = {"sampling": "sequential", "batch_size": 64, "length": 64}
    training = {
        "steps": 3000,
        "precision": "bf16",
        "validate_every": 500,
        "optimizer": {"learning_rate": 3e-3},
        "schedule": {"kind": "cosine", "warmup": 100, "final": 0.02},
    }
    configs = {}
    variants = {"untied": {"tied": False}, "learned Z": {"normaliser": "learned"}, "words alike": {"tree": "vectors"}}
    for layer in (
        "softmax",
        "softmax, untied",
        *LAYERS[1:],
        "tree-softmax, words alike",
        "noise-contrastive, learned Z",
    ):
        kind, _, variant = layer.partition(", ")
        output = {"kind": kind} | variants.get(variant, {})
        model = {
            "kind": "language",
            "embedding": {"size": 512, "dropout": 0.4},
            "features": {"kind": "lstm", "size": 512, "layers": 2, "dropout": 0.4, "hidden_dropout": 0.3},
            "output": output,
        }
        words = {"kind": "whitespace", "min_count": 3}
        configs[layer] = {"text": words, "data": data | shape, "model": model, "training": training}
        if variant == "words alike":
            skip_gram = {"kind": "word2vec", "architecture": "skip-gram", "output": "negative-sampling", "passes": 3}
            configs[layer]["vectors"] = {"text": words, "data": data, "model": skip_gram}
    return configs


# ---------------------------------------------------------------------------------------------------------- tables


def _ladder_table(found: dict[str, Scores]) -> Table:
    rows = [
        [
            name,
            *(f"{scores[strategy]['BLEU']:.1f}" for strategy in ("greedy", "beam")),
            f"{scores['beam']['perplexity']:.2f}",
        ]
        for name, scores in found.items()
    ]
    return Table("Multi30k", "sacreBLEU, 13a, cased.", ["model", "greedy", "beam 5", "perplexity"], rows)


def _seeds_table(found: dict[str, Scores]) -> Table:
    names = dict.fromkeys(name.rpartition(" ")[0] for name in found)
    rows = []
    for name in names:
        cells = [name]
        for strategy in ("beam", "greedy"):
            values = [found[f"{name} {seed}"][strategy]["BLEU"] for seed in SEEDS]
            cells.append(f"{mean(values):.1f} ({min(values):.1f}-{max(values):.1f})")
        rows.append(cells)
    return Table("Multi30k", "BLEU: mean of three seeds (lowest-highest).", ["training", "beam 5", "greedy"], rows)


def _summary_table(found: dict[str, Scores]) -> Table:
    figures = ("ROUGE-1", "ROUGE-2", "ROUGE-L", "repeated trigrams")
    rows = [[name, *(f"{scores['beam'][figure]:.1f}" for figure in figures)] for name, scores in found.items()]
    return Table("DialogSum", "Beam 5; ROUGE is F; per cent.", ["model", *figures], rows)


def _output_table(found: dict[str, Scores]) -> Table:
    rows = [
        [
            name,
            f"{scores['']['perplexity']:.1f}",
            "{mean:.2f} ± {deviation:.2f}".format(**scores["normaliser"]) if "normaliser" in scores else "",
        ]
        for name, scores in found.items()
    ]
    return Table("Output layers", "Test set, exact.", ["output layer", "perplexity", "log Z"], rows, words=1)


SUITES: dict[str, tuple[Callable[[Path], dict[str, Config]], Callable[[dict[str, Scores]], Table]]] = {
    "multi30k": (multi30k, _ladder_table),
    "attentions": (attentions, _seeds_table),
    "scheduled-sampling": (scheduled_sampling, _seeds_table),
    "dialogsum": (dialogsum, _summary_table),
    "outputs": (outputs, _output_table),
}

if __name__ == "__main__":
    main()
