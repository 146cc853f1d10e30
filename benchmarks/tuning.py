"""python -m benchmarks.tuning text|pairs [--trials N] [--jobs J] [--threads 1] [--seeds 3] [--out FILE.md]

Tune every preset of the demo's ladders by the same number of trials: `text` those of `seqloom quickstart`, `pairs`
those of `seqloom compare --data cmudict`.

A trial is a random draw from the preset's space below, trained with seed 0 on the ladder's terms: its data, tokenisers
and number of tokens. The one with the lowest validation loss is chosen, among those that take no more than ALLOWANCE
times as long as the preset. It and the preset as it is are then trained with seeds that nothing was chosen by (1, 2,
...): before and after. Results are written to FILE.jsonl line by line, and what stands there is not trained again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean, stdev
from threading import Lock
from typing import Any

import torch

from benchmarks.machine import describe
from benchmarks.tables import Table
from seqloom.config import RunConfig, load_config, save_config
from seqloom.runs.comparison import QUICK
from seqloom.runs.contests import Contest, Entrant, PairContest, TextContest
from seqloom.training import read_metrics

Settings = dict[str, Any]
Space = list[list[Settings]]
"""Of each dimension the choices, each as settings that go together."""

DIVERGED = "is not finite"  # what the trainer says then
ALLOWANCE = 1.5  # times as long as the preset, at most
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Try, choose, train with seeds, write the tables."""
    arguments = _arguments()
    ladder = LADDERS[arguments.ladder]
    out: Path = arguments.out or RESULTS / f"tuning-{arguments.ladder}.md"
    out.parent.mkdir(parents=True, exist_ok=True)
    bench = Bench(ladder, Book(out.with_suffix(".jsonl")), arguments.jobs, arguments.threads, arguments.tokens)
    presets = arguments.presets or ladder.presets
    tried = bench.trained(trials(presets, arguments.trials))
    chosen = {preset: choose([result for result in tried if result.preset == preset]) for preset in presets}
    seeds = range(1, arguments.seeds + 1)
    settled = bench.trained(
        [
            Trial(preset, settings, seed)
            for preset in presets
            for settings in unique([{}, chosen[preset].settings])
            for seed in seeds
        ]
    )
    table, tables = before_and_after(presets, settled, chosen), [trial_table(tried, preset) for preset in presets]
    command = shlex.join(["python", "-m", "benchmarks.tuning", *sys.argv[1:]])
    machine = "\n".join(f"- {name}: {value}" for name, value in describe(torch.device("cpu")))
    head = f"# Tuning of {arguments.ladder}\n\n    {command}\n\n{machine}\n\n{_terms(arguments)}\n"
    parts = [head, str(table), _chosen(chosen), _spaces(presets), *map(str, tables)]
    out.write_text("\n".join(parts), encoding="utf-8")
    print(table, _chosen(chosen), sep="\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tune the presets of a ladder, all by as many trials.")
    parser.add_argument("ladder", choices=LADDERS)
    parser.add_argument("--trials", type=int, default=16, help="draws for each preset, itself not counted")
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side")
    parser.add_argument("--threads", type=int, default=1, help="of each training")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the last table")
    parser.add_argument("--presets", nargs="+", help="some of the ladder only")
    parser.add_argument("--tokens", type=int, help="fewer tokens than the ladder's: a look, not a result")
    parser.add_argument("--out", type=Path, help="the Markdown file; in results/ when not given")
    arguments = parser.parse_args()
    for preset in arguments.presets or ():
        if preset not in LADDERS[arguments.ladder].presets:
            parser.error(f"{preset} is not on the ladder: {', '.join(LADDERS[arguments.ladder].presets)}")
    return arguments


# --------------------------------------------------------------------------------------------------------- spaces


def vary(keys: str, *values: Any) -> list[Settings]:
    """A dimension: one value for all keys, or one tuple with a value for each."""
    names = keys.split()
    return [
        dict(zip(names, value if isinstance(value, tuple) else [value] * len(names), strict=True)) for value in values
    ]


def _optimizer(*rates: float, decays: Sequence[float]) -> Space:
    return [
        vary("training.optimizer.learning_rate", *rates),
        vary("training.optimizer.weight_decay", *decays),
    ]


TEXT_RATES = (1e-3, 2e-3, 3e-3, 5e-3, 8e-3)
TEXT_DECAYS = (0.01, 0.1, 0.3)
TEXT_BATCHES = vary("data.batch_size", 8, 16, 32)
TEXT_DROPOUT = vary("model.embedding.dropout", 0.2, 0.3, 0.4, 0.5)
TOP_DROPOUT = vary("model.features.dropout", 0.2, 0.3, 0.4, 0.5)
RECURRENT: Space = [
    *_optimizer(*TEXT_RATES, decays=TEXT_DECAYS),
    TEXT_BATCHES,
    TEXT_DROPOUT,
    TOP_DROPOUT,
    vary(
        "model.embedding.size model.features.size model.features.layers",
        (160, 160, 1), (192, 192, 1), (256, 256, 1), (160, 160, 2),
    ),
]  # fmt: skip
PAIR_RATES = (2e-3, 3e-3, 5e-3, 8e-3)
PAIR_DECAYS = (0.0, 0.01, 0.1)
PAIR_BATCHES = vary("data.batch_tokens", 512, 1024, 2048)
PAIR_DROPOUT = vary("model.embedding.dropout", 0.0, 0.1, 0.2)
SIDES_DROPOUT = vary("model.encoder.dropout model.decoder.dropout", 0.0, 0.1, 0.2, 0.3)
PAIRED: Space = [
    *_optimizer(*PAIR_RATES, decays=PAIR_DECAYS),
    PAIR_BATCHES,
    PAIR_DROPOUT,
    SIDES_DROPOUT,
    vary(
        "model.embedding.size model.encoder.size model.decoder.size",
        (64, 160, 160), (64, 192, 192), (96, 192, 192), (64, 256, 256),
    ),
]  # fmt: skip

SPACES: dict[str, Space] = {
    "average": [
        *_optimizer(*TEXT_RATES, decays=TEXT_DECAYS),
        TEXT_BATCHES,
        vary("model.embedding.dropout", 0.1, 0.2, 0.3, 0.4, 0.5),
        vary("model.embedding.size", 128, 192, 256),
    ],
    "ngram": [
        vary("model.order", 2, 3, 4, 5, 6),
        vary(
            "model.smoothing model.epsilon",
            ("modified-kneser-ney", 1.0), ("kneser-ney", 1.0), ("absolute", 1.0), ("laplace", 1.0), ("laplace", 5.0),
        ),
    ],
    "feedforward": [
        *_optimizer(*TEXT_RATES, decays=TEXT_DECAYS),
        TEXT_BATCHES,
        TEXT_DROPOUT,
        TOP_DROPOUT,
        vary("model.features.context", 3, 4, 6, 8),
        vary("model.embedding.size model.features.size", 128, 192, 256),
    ],
    "rnn": [*RECURRENT, vary("model.features.start", "uniform", "orthogonal")],
    "lstm": RECURRENT,
    "gru": RECURRENT,
    "transformer": [
        *_optimizer(5e-4, 1e-3, 2e-3, 3e-3, 5e-3, decays=TEXT_DECAYS),
        vary("training.schedule.warmup", 50, 100, 200),
        vary("data.batch_size data.length", (8, 32), (16, 32), (8, 64), (16, 64), (4, 128)),
        TEXT_DROPOUT,
        vary("model.features.dropout", 0.1, 0.2, 0.3, 0.4),
        vary(
            "model.embedding.size model.features.size model.features.layers",
            (128, 128, 2), (128, 128, 3), (192, 192, 1), (192, 192, 2), (256, 256, 1),
        ),
        vary("model.features.heads", 2, 4, 8),
        vary("model.features.positions", "rotary", "relative", "learned", "sinusoidal"),
        vary("model.output.tied", True, False),
    ],
    "seq2seq-rnn": PAIRED,
    "seq2seq-attention": [*PAIRED, vary("model.decoder.attends", "after", "before")],
    "seq2seq-convolution": [
        *_optimizer(1e-3, *PAIR_RATES, decays=PAIR_DECAYS),
        PAIR_BATCHES,
        PAIR_DROPOUT,
        SIDES_DROPOUT,
        vary(
            "model.embedding.size model.encoder.size model.decoder.size model.encoder.layers model.decoder.layers",
            (96, 96, 96, 3, 3), (128, 128, 128, 2, 2), (128, 128, 128, 3, 3), (80, 80, 80, 4, 4),
        ),
        vary("model.encoder.positions model.decoder.positions", "sinusoidal", "learned"),
    ],
    "seq2seq-transformer": [
        *_optimizer(5e-4, 1e-3, *PAIR_RATES, decays=PAIR_DECAYS),
        vary("training.schedule.warmup", 50, 200, 400),
        PAIR_BATCHES,
        PAIR_DROPOUT,
        SIDES_DROPOUT,
        vary(
            "model.embedding.size model.encoder.size model.decoder.size model.encoder.layers model.decoder.layers",
            (96, 96, 96, 2, 2), (128, 128, 128, 2, 2), (128, 128, 128, 2, 1), (96, 96, 96, 3, 2), (80, 80, 80, 3, 3),
        ),
        vary("model.encoder.heads model.decoder.heads", 2, 4, 8),
        vary("model.encoder.positions model.decoder.positions", "sinusoidal", "learned", "rotary", "relative"),
        vary("model.output.tied", True, False),
    ],
}  # fmt: skip


def draws(preset: str, number: int) -> Iterator[Settings]:
    """So many different draws from a preset's space; a larger number goes on after those of a smaller one."""
    return drawn(SPACES[preset], number, random.Random(preset))


def drawn(space: Space, number: int, chance: random.Random) -> Iterator[Settings]:
    """So many different draws from a space, or all there are."""
    seen: list[Settings] = []
    while len(seen) < min(number, math.prod(map(len, space))):
        drawn = {key: value for dimension in space for key, value in chance.choice(dimension).items()}
        if drawn not in seen:
            seen.append(drawn)
            yield drawn


# --------------------------------------------------------------------------------------------------------- trials


@dataclass(frozen=True)
class Trial:
    """A training: a preset with settings, and a seed."""

    preset: str
    settings: Settings
    seed: int = 0


@dataclass(frozen=True)
class Result(Trial):
    """What came of a trial: a line of the book."""

    config: str = ""
    """What it was trained with, as a checksum."""
    valid_loss: float = math.inf
    seconds: float = math.nan
    parameters: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    """On the test data, where there are some: of the last table alone, nothing is chosen by them."""
    failed: str = ""


@dataclass(frozen=True)
class TunedLadder:
    """A ladder, and its terms."""

    presets: Sequence[str]
    contest: type[Contest]
    figures: Sequence[str] = ()
    """Of `evaluate --json`, for the last table."""


LADDERS = {
    "text": TunedLadder(QUICK, TextContest),
    "pairs": TunedLadder(PairContest.presets, PairContest, ("BLEU", "exact match")),
}


def trials(presets: Sequence[str], number: int) -> list[Trial]:
    """Each preset as it is, and its draws: the first ones of all presets first."""
    columns = [[{}, *draws(preset, number)] for preset in presets]
    return [
        Trial(preset, column[row])
        for row in range(number + 1)
        for preset, column in zip(presets, columns, strict=True)
        if row < len(column)
    ]


def unique(several: Sequence[Settings]) -> list[Settings]:
    """Each of them once."""
    return [settings for index, settings in enumerate(several) if settings not in several[:index]]


class Book:
    """A JSONL file of results; what was cut off by an interruption is left out."""

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, Lock()
        self.cut_off = path.is_file() and not path.read_bytes().endswith(b"\n")
        self.results: dict[str, Result] = {}
        for line in path.read_text("utf-8").splitlines() if path.is_file() else ():
            with suppress(json.JSONDecodeError):
                entry = json.loads(line)
                self.results[entry["config"]] = Result(**entry)

    def write(self, result: Result) -> None:
        """Add a result."""
        with self.lock, self.path.open("a", encoding="utf-8") as file:
            self.results[result.config] = result
            file.write("\n" * self.cut_off + json.dumps(asdict(result)) + "\n")
            self.cut_off = False


class Bench:
    """Trains trials side by side, each in a process of its own."""

    def __init__(self, ladder: TunedLadder, book: Book, jobs: int, threads: int, tokens: int | None) -> None:
        self.ladder, self.book, self.jobs, self.threads, self.tokens = ladder, book, jobs, threads, tokens

    def trained(self, several: Sequence[Trial]) -> list[Result]:
        """The results, in the same order."""
        configs = self._configs(several)
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                return list(pool.map(self._result, several, configs))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # what was not begun is for the next time
                raise

    def _configs(self, several: Sequence[Trial]) -> list[RunConfig]:
        """What each is trained with, on the terms of the ladder: those of its first preset as it is."""
        entrants = [Entrant("", load_config(self.ladder.presets[0]))]
        for number, trial in enumerate(several):
            settings = [f"{key}={json.dumps(value)}" for key, value in trial.settings.items()]
            entrants.append(Entrant(str(number), load_config(trial.preset, settings)))
        equal = self.ladder.contest.on_equal_terms(entrants[0], entrants, self.tokens)
        return [equal[str(number)].model_copy(update={"seed": trial.seed}) for number, trial in enumerate(several)]

    def _result(self, trial: Trial, config: RunConfig) -> Result:
        """From the book, or trained now."""
        key = hashlib.sha256(config.model_dump_json().encode()).hexdigest()[:16]
        if key not in self.book.results:
            result = self._train(trial, config, key)
            self.book.write(result)
            said = result.failed or f"loss {result.valid_loss:.4f} in {result.seconds:.1f} s {result.figures or ''}"
            print(f"{trial.preset} seed {trial.seed} {_shown(trial.settings)}: {said}", file=sys.stderr, flush=True)
        return replace(self.book.results[key], **asdict(trial))  # a draw may be the preset itself

    def _train(self, trial: Trial, config: RunConfig, key: str) -> Result:
        with tempfile.TemporaryDirectory() as folder:
            file, run = Path(folder) / "config.yaml", Path(folder) / "run"
            save_config(config, file)
            try:
                said = self._seqloom("train", str(file), "--out", str(run), "--no-report", "--quiet", "--json")
            except subprocess.CalledProcessError as error:
                message = error.stderr.decode().strip()
                if DIVERGED not in message:  # interrupted, say, or a space that has what cannot be trained
                    print(message, file=sys.stderr, flush=True)
                    raise
                return Result(**asdict(trial), config=key, failed=message[-300:])
            figures: dict[str, float] = {}
            if trial.seed and self.ladder.figures:
                scores = json.loads(self._seqloom("evaluate", str(run), "--json"))
                figures = {name: scores[name]["value"] for name in self.ladder.figures}
            best, seconds = json.loads(said), max(entry.get("seconds", 0.0) for entry in read_metrics(run))
            return Result(**asdict(trial), config=key, valid_loss=best["valid_loss"], seconds=seconds,
                          parameters=best["parameters"], figures=figures)  # fmt: skip

    def _seqloom(self, *arguments: str) -> str:
        threads = str(self.threads)
        environment = os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, "-m", "seqloom", *arguments]
        return subprocess.run(command, check=True, capture_output=True, env=environment).stdout.decode()


def choose(results: Sequence[Result]) -> Result:
    """The best of one preset's trials, the first of which is the preset itself: what takes too long is not allowed."""
    limit = ALLOWANCE * max(results[0].seconds, 1.0)  # a second more or less is nothing to choose by
    allowed = [result for result in results if result.seconds <= limit] or results[:1]
    return min(allowed, key=lambda result: result.valid_loss)


# --------------------------------------------------------------------------------------------------------- tables


def before_and_after(presets: Sequence[str], settled: Sequence[Result], chosen: dict[str, Result]) -> Table:
    """Every preset as it is and as it was tuned, over the seeds."""
    figures = sorted({name for result in settled for name in result.figures})
    rows = []
    for preset in presets:
        for settings in unique([{}, chosen[preset].settings]):
            results = [result for result in settled if result.preset == preset and result.settings == settings]
            perplexities = [math.exp(min(result.valid_loss, 700.0)) for result in results]
            cells = [f"{preset}, tuned" if settings else preset, spread(perplexities)]
            cells += [spread([result.figures.get(name, math.nan) for result in results], 1) for name in figures]
            cells += [spread([result.seconds for result in results], 1), f"{results[0].parameters:,}"]
            rows.append(cells)
    header = ["preset", "validation perplexity", *(f"test {name}" for name in figures), "seconds", "parameters"]
    note = "Mean ± standard deviation over the seeds. A preset with one row was not improved by any trial."
    return Table("Before and after", note, header, rows, words=1)


def trial_table(tried: Sequence[Result], preset: str) -> Table:
    """All that was tried of a preset, best first."""
    own = sorted((result for result in tried if result.preset == preset), key=lambda result: result.valid_loss)
    rows = [
        [_shown(result.settings), f"{result.valid_loss:.4f}", f"{result.seconds:.1f}", f"{result.parameters:,}"]
        if not result.failed
        else [_shown(result.settings), "failed", "", ""]
        for result in own
    ]
    header = ["settings", "validation loss", "seconds", "parameters"]
    return Table(preset, "All trials, with seed 0, the best first.", header, rows, words=1)


def spread(values: Sequence[float], decimals: int = 2) -> str:
    """Mean ± sample standard deviation, which one value has not."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return f"{mean(values):.{decimals}f}"
    return f"{mean(values):.{decimals}f} ± {stdev(values):.{decimals}f}"


def _shown(settings: Settings) -> str:
    """Settings without the first part of their keys; a preset that is left alone has none."""
    return " ".join(f"{key.partition('.')[2]}={value}" for key, value in settings.items()) or "(the preset)"


def _chosen(chosen: dict[str, Result]) -> str:
    """What to write into each preset."""
    lines = ["## What was chosen", ""]
    for preset, result in chosen.items():
        settings = " ".join(f"{key}={value}" for key, value in result.settings.items())
        lines.append(f"- **{preset}**: {settings or 'the preset as it is'}")
    return "\n".join([*lines, ""])


def _terms(arguments: argparse.Namespace) -> str:
    budget = f"{arguments.tokens:,} tokens" if arguments.tokens else "the ladder's number of tokens"
    return (
        f"{arguments.trials} random draws for each preset from the space below, trained on {budget} with seed 0 and "
        f"{arguments.threads} thread each, {arguments.jobs} side by side. Chosen is the lowest validation loss among "
        f"those that take at most {ALLOWANCE} times as long as the preset; seeds 1 to {arguments.seeds} then measure "
        "both."
    )


def _spaces(presets: Sequence[str]) -> str:
    lines = ["## The spaces", ""]
    for preset in presets:
        dimensions = []
        for dimension in SPACES[preset]:
            choices = ", ".join("/".join(map(str, dict.fromkeys(choice.values()))) for choice in dimension)
            dimensions.append(f"{' '.join(dimension[0])}: {choices}")
        lines.append(f"- **{preset}**: " + "; ".join(dimensions))
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
