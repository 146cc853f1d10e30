"""python -m benchmarks.bert --text FILE --polarity DIR --conll DIR [--seeds 3] [--preset bert] [--rows A;B]
                                       [--work DIR] [--jobs N]

What pre-training is worth: a BERT and word2vec vectors learn from the same text, and then texts are classified
(`--polarity`: the folder of Pang & Lee's sentence polarity data, of which one in ten is held out to test on) and words
tagged (`--conll`: train.txt and test.txt of CoNLL-2000, gzipped or not) with what they know, by several seeds:

- learned: static vectors that begin as noise, a bidirectional LSTM above them: the presets `classifier` and `tagger`
- word2vec: the same, begun with word2vec vectors
- from scratch: BERT's network with random weights, trained for the task alone
- frozen: the layers of the pre-trained BERT, mixed, a bidirectional LSTM above them
- fine-tuned: the pre-trained BERT, trained along

`--set KEY=VALUE` changes the pre-training, `--tune KEY=VALUE` all that is trained for a task. What was trained stays in
`--work`, and is not trained again: a finished run called `bert` there takes the place of the pre-training. `--rows`
names the features to compare, with ; between them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import seqloom
from benchmarks.quality import _seqloom
from benchmarks.tables import Table
from seqloom.data.labelled import LabelledText, hold_out
from seqloom.files import write_text
from seqloom.runs.folder import RunFolder
from seqloom.text.reading import read_lines

HELD_OUT = 0.1  # of the texts with labels
TUNED = (  # above BERT's own network: no LSTM; a learning rate fit for it, as a part of that of the head
    "model.layers=0",
    "model.dropout=0.1",
    "training.epochs=6",
    "training.schedule={kind: linear, warmup: 0.1}",
)
RATES = {"fine-tuned": 0.3, "from scratch": 1.0}  # of what is there already less is to be learned


@dataclass(frozen=True)
class Task:
    """Something to be labelled."""

    preset: str
    data: tuple[str, ...]
    figure: str
    """What `evaluate` says of it on its test data."""
    name: str


@dataclass(frozen=True)
class Comparison:
    """One text to learn from, and tasks to learn for."""

    text: str
    tasks: Sequence[Task]
    work: Path
    preset: str = "bert"
    pretraining: tuple[str, ...] = ()
    tuning: tuple[str, ...] = ()

    @cached_property
    def bert(self) -> Path:
        """The pre-trained run."""
        return self._trained("bert", self.preset, self._text_settings())

    @cached_property
    def untrained(self) -> Path:
        """The same with random weights."""
        once = (
            *("training.steps=1", "training.schedule.warmup=0", "training.optimizer.learning_rate=1e-9"),
            "training.compile=false",
        )
        return self._trained("untrained", self.preset, (*self._text_settings(), *once))

    @cached_property
    def word2vec(self) -> Path:
        """Vectors of words, from the same text."""
        return self._trained("word2vec", "word2vec", (f"data.train={self.text}",))

    def settings(self, features: str) -> tuple[str, ...]:
        """What makes a preset that labels know of words what is asked for."""
        match features:
            case "learned":
                return ()
            case "word2vec":
                return (f"model.features.vectors={self.word2vec}",)
            case "frozen":
                return (f"model.features={{kind: run, run: {self.bert}}}",)
            case _:
                run = self.bert if features == "fine-tuned" else self.untrained
                below = f"model.features={{kind: run, run: {run}, frozen: false, rate: {RATES[features]}}}"
                return (below, "training.optimizer.learning_rate=1e-3", *TUNED)

    def score(self, task: Task, features: str, seed: int) -> float:
        """How good a run is on its test data, in per cent."""
        kept = self.work / f"{self._name(task, features, seed)}.json"
        if not kept.exists():  # written at once: what was trained elsewhere, or is gone, needs no more than this
            run: Any = seqloom.load(self.trained(task, features, seed))
            found = float(run.figures()[task.figure].value)
            print(f"{kept.stem}: {found:.2f}", flush=True)
            write_text(kept, json.dumps(found))
        return float(json.loads(kept.read_text(encoding="utf-8")))

    def trained(self, task: Task, features: str, seed: int) -> Path:
        """A run that has learned the task."""
        name = self._name(task, features, seed)
        settings = (*task.data, *self.settings(features), f"seed={seed}", *self.tuning)
        return self._trained(name, task.preset, settings)

    @staticmethod
    def _name(task: Task, features: str, seed: int) -> str:
        return f"{task.preset}-{features.replace(' ', '-')}-{seed}"

    def begun(self, features: set[str]) -> None:
        """Train what these begin with."""
        users = {"word2vec": {"word2vec"}, "untrained": {"from scratch"}, "bert": {"frozen", "fine-tuned"}}
        for name, those in users.items():
            if those & features:
                print(f"{getattr(self, name)} is there", flush=True)

    def missing(self, task: Task, features: str, seed: int) -> bool:
        """Whether a score is not known yet."""
        return not (self.work / f"{self._name(task, features, seed)}.json").exists()

    def _text_settings(self) -> tuple[str, ...]:
        return (
            f"data.train={self.text}",
            "data.valid=null",
            "data.test=null",
            "data.valid_fraction=0.02",
            *self.pretraining,
        )

    def _trained(self, name: str, preset: str, settings: Sequence[str]) -> Path:
        out = self.work / name
        if not RunFolder(out).finished:
            given = [part for each in settings for part in ("--set", each)]
            _seqloom("train", preset, *given, *(["--resume"] if out.exists() else []), "--out", str(out), "--no-report")
        return out


FEATURES = ("learned", "word2vec", "from scratch", "frozen", "fine-tuned")


def table(comparison: Comparison, seeds: int, wanted: Sequence[str] = FEATURES) -> Table:
    """A row for each kind of features, a column for each task."""
    rows = []
    for features in wanted:
        cells = []
        for task in comparison.tasks:
            scores = [comparison.score(task, features, seed) for seed in range(seeds)]
            spread = f" ± {statistics.stdev(scores):.2f}" if seeds > 1 else ""
            cells.append(f"{statistics.mean(scores):.2f}{spread}")
            print(f"{features}, {task.name}: {', '.join(f'{score:.2f}' for score in scores)}", flush=True)
        rows.append([features, *cells])
    found: Any = seqloom.load(comparison.bert).figures()
    known = ", ".join(
        f"{name.replace('_', ' ')} {found[name].value:.2f}" for name in ("masked_accuracy", "pseudo_perplexity")
    )
    note = f"Test data, per cent, mean and deviation over {seeds} seeds. The BERT, on held-out text: {known}."
    return Table("What pre-training is worth", note, ["features", *(task.name for task in comparison.tasks)], rows, 1)


def tasks(polarity: Path, conll: Path, work: Path) -> list[Task]:
    """Film reviews, of which some are held out to test on, and the chunks of CoNLL-2000."""
    named = [(file.name.split(".")[-1 - file.name.endswith(".gz")], file) for file in sorted(polarity.glob("rt-*"))]
    reviews = [LabelledText(line.strip(), label) for label, file in named for line in read_lines(file) if line.strip()]
    train, held_out = hold_out(reviews, 2 * HELD_OUT)
    valid, test = hold_out(held_out, HELD_OUT)  # by the same hash: half of them
    for name, examples in {"train": train, "valid": valid, "test": test}.items():
        write_text(work / f"{name}.tsv", "".join(f"{each.label}\t{each.text}\n" for each in examples))
    texts = tuple(f"data.{name}={work / name}.tsv" for name in ("train", "valid", "test"))
    files = {name: next(conll.glob(f"{name}.txt*")) for name in ("train", "test")}
    chunks = (f"data.train={files['train']}", "data.valid=null", f"data.test={files['test']}")
    return [Task("classifier", texts, "accuracy", "polarity, accuracy"), Task("tagger", chunks, "f1", "CoNLL-2000, F1")]


def main() -> None:
    """Train all that is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True, help="what to pre-train on: a file, or the name of a bundled corpus")
    parser.add_argument("--polarity", type=Path, required=True)
    parser.add_argument("--conll", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--preset", default="bert", help="what to pre-train: bert, bert-base or a file")
    parser.add_argument("--set", dest="pretraining", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--tune", dest="tuning", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--rows", default=";".join(FEATURES), help="only these features")
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side: a GPU has room for several")
    parser.add_argument(
        "--work", type=Path, help="where runs are kept; in a folder that is thrown away, when not given"
    )
    arguments = parser.parse_args()
    rows = arguments.rows.split(";")
    if unknown := set(rows) - set(FEATURES):
        parser.error(f"--rows: there is no {', '.join(sorted(unknown))}; there are {', '.join(FEATURES)}")
    with tempfile.TemporaryDirectory() as away, ThreadPoolExecutor(arguments.jobs) as pool:
        work: Path = arguments.work or Path(away)
        work.mkdir(parents=True, exist_ok=True)
        found = tasks(arguments.polarity, arguments.conll, work)
        settings = tuple(arguments.pretraining), tuple(arguments.tuning)
        comparison = Comparison(arguments.text, found, work, arguments.preset, *settings)
        wanted = [(task, each, seed) for task in found for each in rows for seed in range(arguments.seeds)]
        comparison.begun({job[1] for job in wanted if comparison.missing(*job)})
        list(pool.map(lambda job: comparison.score(*job), wanted))
        print(table(comparison, arguments.seeds, rows))


if __name__ == "__main__":
    main()
