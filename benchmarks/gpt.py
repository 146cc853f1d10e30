"""python -m benchmarks.gpt SUITE [--data DIR] [--trials N] [--seeds N] [--minutes M] [--jobs J] [--out FILE.md]

GPT: its optimiser, its recipes and its arrangements, beside what they replace.

muon: Muon against AdamW on one preset and text, each tuned by as many trials; steps and seconds to the same loss.
shakespeare: recipes for the characters of the bundled plays, with seeds; for a GPU where there is one.
wikitext: GPT, LSTM and Kneser-Ney. DIR holds train.txt, valid.txt and test.txt (gzipped or not), words between spaces.
arrangements: GPT-2's own arrangement against the modern one, presets gpt2 and gpt-modern, on DIR as above.

Without --data, `muon` reads what its preset names. Trainings are stopped by --steps or by the clock; nothing is chosen
by test data.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, median
from threading import Lock

import torch

from benchmarks.machine import describe
from benchmarks.quality import Config, _seqloom
from benchmarks.tables import Table, number
from benchmarks.tuning import Settings, Space, drawn, spread, vary
from seqloom.config import load_config
from seqloom.training import read_metrics

LOOKS = 40
"""Validations of a training whose curve is compared with another's."""


def main() -> None:
    """Train what a suite compares, then print and write its tables."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        bench = Bench(arguments, Path(folder), pool)
        tables = SUITES[arguments.suite](bench)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    machine = "\n".join(f"- {name}: {value}" for name, value in describe(device))
    command = shlex.join(["python", "-m", "benchmarks.gpt", *sys.argv[1:]])
    text = "\n".join([f"# GPT: {arguments.suite}\n\n    {command}\n\n{machine}\n", *map(str, tables)])
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare optimisers, recipes and arrangements of GPT.")
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--data", type=Path, help="a folder with train.txt, valid.txt and test.txt, gzipped or not")
    parser.add_argument("--preset", default="gpt", help="muon: what is trained by both")
    parser.add_argument("--rows", help="shakespeare, wikitext, arrangements: only these rows, with ; between them")
    parser.add_argument("--trials", type=int, default=8, help="muon: draws of rates and decay for each optimiser")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each row; after trials, of the chosen ones")
    parser.add_argument("--steps", type=int, help="of every training, in the place of its own")
    parser.add_argument("--minutes", type=float, help="of every training at most")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for every training")
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side: they take time from each other")
    parser.add_argument(
        "--book", type=Path, help="JSON lines: every result at once; what stands there is not made again"
    )
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.suite in ("wikitext", "arrangements") and arguments.data is None:
        parser.error(f"{arguments.suite} needs --data DIR, with train.txt, valid.txt and test.txt")
    return arguments


# ------------------------------------------------------------------------------------------------------- trainings


@dataclass(frozen=True)
class Result:
    """What came of a training."""

    name: str
    settings: Settings
    loss: float = math.inf
    """The lowest on the validation text."""
    curve: Sequence[tuple[int, float, float]] = ()
    """(step, seconds, loss) of each validation; models that are counted have none."""
    pace: float = math.nan
    """Seconds of a step, the median over the lines of the log: validations do not count."""
    parameters: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    """On the test text, where there is one."""

    @property
    def steps(self) -> int:
        """How many there were."""
        return self.curve[-1][0] if self.curve else 0

    @property
    def seconds(self) -> float:
        """How long they took, validations included."""
        return self.curve[-1][1] if self.curve else math.nan

    def reached(self, loss: float) -> tuple[float, float]:
        """Step and seconds of the first validation with a loss that is no higher; no numbers where there is none."""
        found = ((step, seconds) for step, seconds, found in self.curve if found <= loss)
        return next(found, (math.nan, math.nan))


@dataclass(frozen=True)
class Training:
    """A preset or a configuration with settings, and a seed."""

    name: str
    source: str | Config
    settings: Settings = field(default_factory=dict)
    seed: int = 0


class Bench:
    """Trains side by side, each training in a process of its own, on the terms of the command line."""

    def __init__(self, arguments: argparse.Namespace, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.arguments, self.folder, self.pool, self.lock = arguments, folder, pool, Lock()
        book: Path | None = arguments.book
        lines = book.read_text(encoding="utf-8").splitlines() if book and book.exists() else []
        self.kept = {each.pop("key"): Result(**each) for each in map(json.loads, lines)}

    def trained(self, trainings: list[Training]) -> list[Result]:
        """The results, in the same order."""
        return list(self.pool.map(self._trained, trainings))

    def rows(self, sources: dict[str, str | Config]) -> dict[str, list[Result]]:
        """The results of every row, one for each seed."""
        wanted = self.arguments.rows.split(";") if self.arguments.rows else sources
        trainings = [Training(name, sources[name], {}, seed) for name in wanted for seed in range(self.arguments.seeds)]
        results = iter(self.trained(trainings))
        return {name: [next(results) for _ in range(self.arguments.seeds)] for name in wanted}

    def _trained(self, training: Training) -> Result:
        config = self._config(training)
        key = hashlib.sha256(json.dumps([training.name, config], sort_keys=True).encode()).hexdigest()
        if key in self.kept:
            return self.kept[key]
        found = self._measured(training, config)
        if self.arguments.book and math.isfinite(found.loss):  # what broke off may have lacked memory
            with self.lock, open(self.arguments.book, "a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, **asdict(found)}) + "\n")
        return found

    def _measured(self, training: Training, config: Config) -> Result:
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            file, run = Path(folder) / "config.yaml", Path(folder) / "run"
            file.write_text(json.dumps(config), encoding="utf-8")
            try:
                best = json.loads(_seqloom("train", str(file), "--out", str(run), "--no-report", "--quiet", "--json"))
            except subprocess.CalledProcessError as error:
                if error.returncode != 1:  # 1: the loss is not finite, or exploded
                    raise
                print(f"{training.name} {shown(training.settings)}: broke off", file=sys.stderr, flush=True)
                return Result(training.name, training.settings)
            entries = read_metrics(run)
            curve = [(each["step"], each["seconds"], each["valid_loss"]) for each in entries if "valid_loss" in each]
            paces = [each["tokens"] / each["step"] / each["tokens_per_second"] for each in entries if "loss" in each]
            figures = {}
            if config["data"]["test"]:
                scores = json.loads(_seqloom("evaluate", str(run), "--json"))
                figures = {name: score["value"] for name, score in scores.items()}
        found = Result(training.name, training.settings, best["valid_loss"], curve,
                       median(paces or [math.nan]), best["parameters"], figures)  # fmt: skip
        said = f"loss {found.loss:.4f} after {found.steps:,} steps, {found.seconds:.0f} s"
        print(f"{training.name} seed {training.seed} {shown(training.settings)}: {said}", file=sys.stderr, flush=True)
        return found

    def _config(self, training: Training) -> Config:
        arguments = self.arguments
        given = [f"{key}={json.dumps(value)}" for key, value in training.settings.items()]
        if arguments.data is not None:
            given += [f"data.{part}={text(arguments.data, part)}" for part in ("train", "valid", "test")]
        if arguments.steps:
            given += [f"training.steps={arguments.steps}", "training.epochs=null"]
        if arguments.minutes:
            given.append(f"training.minutes={arguments.minutes}")
        return load_config(training.source, [*given, f"seed={training.seed}", *arguments.set]).model_dump(mode="json")


def text(folder: Path, part: str) -> str:
    """A part of a text in a folder."""
    return f"{folder / part}.txt" + (".gz" if (folder / f"{part}.txt.gz").is_file() else "")


def shown(settings: Settings) -> str:
    """Settings without all but the last part of their keys."""
    return " ".join(f"{key.rpartition('.')[2]}={value}" for key, value in settings.items())


# ------------------------------------------------------------------------------------------------- Muon and AdamW

DECAYS = vary("training.optimizer.weight_decay", 0.01, 0.1, 0.3)
OPTIMISERS: dict[str, Space] = {
    "AdamW": [
        vary("training.optimizer.kind training.optimizer.other_rate", ("adamw", None)),
        vary("training.optimizer.learning_rate", 3e-4, 6e-4, 1e-3, 2e-3, 3e-3, 6e-3),
        DECAYS,
    ],
    "Muon": [
        vary("training.optimizer.kind", "muon"),
        vary("training.optimizer.learning_rate", 1e-3, 2e-3, 5e-3, 1e-2, 2e-2),
        vary("training.optimizer.other_rate", 5e-4, 1e-3, 2e-3, 4e-3),
        DECAYS,
    ],
}


def muon(bench: Bench) -> list[Table]:
    """Both optimisers by as many trials; the chosen settings of each with seeds that nothing was chosen by."""
    arguments = bench.arguments
    trials = [
        Training(name, arguments.preset, settings)
        for name, space in OPTIMISERS.items()
        for settings in drawn(space, arguments.trials, random.Random(name))
    ]
    tried = bench.trained(trials)
    chosen = {name: min(_of(tried, name), key=lambda result: result.loss).settings for name in OPTIMISERS}
    looks = {"training.validate_every": max(1, max(result.steps for result in tried) // LOOKS)}
    seeds = range(1, arguments.seeds + 1)
    settled = bench.trained(
        [Training(name, arguments.preset, chosen[name] | looks, seed) for name in OPTIMISERS for seed in seeds]
    )
    return [_speeds(settled, chosen), *(_trials(name, _of(tried, name)) for name in OPTIMISERS)]


def _of(results: Sequence[Result], name: str) -> list[Result]:
    return [result for result in results if result.name == name]


def _speeds(settled: Sequence[Result], chosen: dict[str, Settings]) -> Table:
    """How soon each gets to where AdamW ends, and what a step costs, validations left out."""
    goal = max(result.loss for result in _of(settled, "AdamW"))
    pace = {name: mean(result.pace for result in _of(settled, name)) for name in OPTIMISERS}
    rows = []
    for name in OPTIMISERS:
        own = _of(settled, name)
        steps, seconds = zip(*(result.reached(goal) for result in own), strict=True)
        over = f"{100 * (pace[name] / pace['AdamW'] - 1):+.1f} %"
        losses = spread([result.loss for result in own], 4)
        rows.append(
            [name, shown(chosen[name]), losses, *map(known, (mean(steps), mean(seconds), 1e3 * pace[name])), over]
        )
    header = ["optimiser", "chosen", "loss", f"steps to {goal:.4f}", "seconds", "ms a step", "more"]
    note = "Validation loss at its lowest, and how long it took to get to the highest of AdamW's; means over the seeds."
    return Table("Muon against AdamW", note, header, rows)


def known(value: float) -> str:
    """A number, where there is one."""
    return "–" if math.isnan(value) else number(value)


def _trials(name: str, tried: Sequence[Result]) -> Table:
    rows = [
        [shown(result.settings), f"{result.loss:.4f}", f"{result.seconds:.0f}"]
        for result in sorted(tried, key=lambda result: result.loss)
    ]
    return Table(name, "All trials, with seed 0, the best first.", ["settings", "loss", "seconds"], rows, words=1)


# ---------------------------------------------------------------------------------------------------- other suites

MODERN = {"normalisation": "rms", "bias": False, "activation": "squared-relu", "query_key_norm": True}


def _characters(features: Config, training: Config, data: Config, dropout: float = 0.0) -> Config:
    """Characters of Shakespeare under a Transformer of the modern arrangement, with Muon."""
    shape = {"kind": "transformer", "dropout": dropout, **MODERN, **features}
    return {
        "text": {"kind": "characters"},
        "data": {"train": "shakespeare", "unit": "file", **data},
        "model": {
            "embedding": {"size": shape["size"], "dropout": dropout},
            "features": shape,
            "output": {"tied": False},  # tied, a Transformer begins by predicting the character it has just read
        },
        "training": {"precision": "bf16", "record": True, "schedule": {"kind": "linear", "warmup": 0.03}, **training},
    }


def _muon(rate: float, other: float, decay: float) -> Config:
    return {"kind": "muon", "learning_rate": rate, "other_rate": other, "weight_decay": decay, "betas": [0.9, 0.99]}


def _on_cpu() -> dict[str, str | Config]:
    """Two cores, three minutes (--minutes 2.8)."""
    sizes: dict[str, Config] = {
        "4 x 128": {"size": 128, "layers": 4, "heads": 4},
        "3 x 160": {"size": 160, "layers": 3, "heads": 5},
        "6 x 128": {"size": 128, "layers": 6, "heads": 4},
    }
    training = {"steps": 2000, "validate_every": 250, "optimizer": _muon(1e-2, 4e-3, 0.01)}
    rows: dict[str, str | Config] = {"shakespeare-chars": "shakespeare-chars"}
    for name, features in sizes.items():
        for length in (64, 128):
            data = {"batch_size": 2048 // length, "length": length}
            rows[f"Muon {name}, windows of {length}"] = _characters(features, training, data)
    return rows


def _on_gpu() -> dict[str, str | Config]:
    """10.7 M parameters as in the preset, or more and less; what overfits less."""
    rows: dict[str, str | Config] = {"shakespeare-chars-gpu": "shakespeare-chars-gpu"}
    wide = {"size": 384, "layers": 6, "heads": 6}
    for dropout in (0.2, 0.3, 0.4):
        for steps in (1500, 3000):
            training = {"steps": steps, "validate_every": 250, "compile": True, "optimizer": _muon(5e-3, 2e-3, 0.1)}
            data = {"batch_size": 64, "length": 256}
            rows[f"Muon 6 x 384, dropout {dropout}, {steps} steps"] = _characters(wide, training, data, dropout)
    training = {"steps": 3000, "validate_every": 250, "compile": True, "optimizer": _muon(5e-3, 2e-3, 0.3)}
    rows["Muon 6 x 384, dropout 0.3, decay 0.3"] = _characters(wide, training, {"batch_size": 64, "length": 256}, 0.3)
    rows["Muon 6 x 384, dropout 0.3, windows of 512"] = _characters(
        wide, training, {"batch_size": 32, "length": 512}, 0.3
    )
    averaged = training | {"averaging": {"kind": "exponential", "decay": 0.995}}
    rows["Muon 6 x 384, dropout 0.3, averaged"] = _characters(wide, averaged, {"batch_size": 64, "length": 256}, 0.3)
    return rows


def shakespeare(bench: Bench) -> list[Table]:
    """Recipes for the characters of the bundled plays, the last tenth of which are held out."""
    found = bench.rows(_on_gpu() if torch.cuda.is_available() else _on_cpu())
    note = "Lowest validation loss in nats per character, at which step, and how long all of the training took."
    rows = [
        [
            name,
            spread([result.loss for result in results], 4),
            ", ".join(known(result.reached(result.loss)[0]) for result in results),
            *_sizes(results),
        ]
        for name, results in found.items()
    ]
    return [Table("Tiny Shakespeare", note, ["recipe", "loss", "at step", "steps", "seconds", "parameters"], rows, 1)]


def wikitext(bench: Bench) -> list[Table]:
    """Three ways to predict the same words."""
    words = {"kind": "whitespace"}
    gpt = {"kind": "transformer", "size": 512, "layers": 8, "heads": 8, "positions": "rotary", "dropout": 0.3, **MODERN}
    training = {
        "steps": 6000,
        "validate_every": 250,
        "precision": "bf16",
        "compile": torch.cuda.is_available(),
        "record": True,
    }
    lstm = load_config("ptb-lstm").model_dump(mode="json", exclude_unset=True)
    found = bench.rows(
        {
            "Kneser-Ney, order 5": {"text": words, "model": {"kind": "ngram", "order": 5}},
            "LSTM (ptb-lstm)": lstm | {"text": words},
            "GPT, 8 x 512, Muon": {
                "text": words,
                "data": {"batch_size": 32, "length": 256},
                "model": {
                    "embedding": {"size": 512, "dropout": 0.3},
                    "features": gpt,
                    "output": {"bias": False, "cap": 30.0},
                },
                "training": training
                | {"optimizer": _muon(3e-3, 1e-3, 0.1), "schedule": {"kind": "linear", "warmup": 0.03}},
            },
        }
    )
    return [_perplexities("WikiText-2", found)]


def arrangements(bench: Bench) -> list[Table]:
    """GPT-2's own arrangement and the modern one."""
    return [_perplexities("Arrangements", bench.rows({"gpt2": "gpt2", "gpt-modern": "gpt-modern"}))]


def _perplexities(title: str, found: dict[str, list[Result]]) -> Table:
    rows = [
        [
            name,
            spread([result.loss for result in results], 4),
            *(
                spread([result.figures.get(figure, math.nan) for result in results])
                for figure in ("perplexity", "word_perplexity")
            ),
            *_sizes(results),
        ]
        for name, results in found.items()
    ]
    header = ["model", "validation loss", "test perplexity", "per word", "steps", "seconds", "parameters"]
    return Table(title, "Losses in nats per token.", header, rows, words=1)


def _sizes(results: Sequence[Result]) -> list[str]:
    seconds = mean(result.seconds for result in results)
    return [f"{results[0].steps:,}", known(seconds), f"{results[0].parameters:,}"]


SUITES: dict[str, Callable[[Bench], list[Table]]] = {
    "muon": muon,
    "shakespeare": shakespeare,
    "wikitext": wikitext,
    "arrangements": arrangements,
}

if __name__ == "__main__":
    main()
