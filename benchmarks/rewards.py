"""python -m benchmarks.rewards SUITE --data DIR [--models A;B] [--ways A;B] [--seeds N] [--minutes M] [--jobs N]
                                          [--work DIR] [--steps N] [--batches N]

Train by likelihood, go on from there in several ways for the same time, and compare what comes out on the test set.

multi30k: DIR holds train, val and test_2016_flickr, each .en and .de (gzipped or not); rewards and figures are BLEU.
dialogsum: DIR holds train.jsonl, validation.jsonl and test.jsonl with the keys source and target; ROUGE-L.
cost: the files of multi30k; what an update costs in each way, and where its time goes (benchmarks/reward_cost.py).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import torch

from benchmarks.quality import TRANSFORMER, Config, _recurrent, _seqloom, _translating, dialogsum
from benchmarks.tables import Table
from seqloom.metrics.bootstrap import PairedBootstrap, paired_bootstrap, paired_bootstrap_bleu
from seqloom.metrics.corpus_scores import scoring_tokens
from seqloom.metrics.rouge import rouge_l, rouge_words
from seqloom.runs.folder import RunFolder

CONTINUED = "likelihood, continued"
POLICY = {"kind": "policy-gradient"}
WAYS: dict[str, Config] = {
    CONTINUED: {"kind": "teacher-forcing"},
    "scheduled sampling": {"kind": "scheduled-sampling", "decay": "linear", "begin": 0.9, "end": 0.5},
    "reward-augmented likelihood": {"kind": "reward-augmented"},
    "self-critical": POLICY | {"baseline": "greedy"},
    "leave-one-out": POLICY,
    "minimum risk": {"kind": "minimum-risk"},
    "actor-critic": {"kind": "actor-critic"},
    "constant reward, no baseline": POLICY | {"reward": "constant", "baseline": "none"},
    "constant reward, leave-one-out": POLICY | {"reward": "constant"},
}
"""How training goes on, each with its objective."""
STRATEGIES = ("greedy", "beam")


class Suite(NamedTuple):
    """Models to begin with, and what they are judged by."""

    models: dict[str, Config]
    reward: str
    figure: str
    """Of `seqloom evaluate`."""


class Result(NamedTuple):
    """What a run came to on the test set, by strategy."""

    figures: dict[str, float]
    outputs: dict[str, list[str]]


def main() -> None:
    """Train and decode everything, then print and write the table."""
    arguments = _arguments()
    if arguments.suite == "cost":
        _finish(_costs(arguments), arguments.out)
        return
    suite = SUITES[arguments.suite](arguments.data)
    models = arguments.models.split(";") if arguments.models else list(suite.models)
    ways = arguments.ways.split(";") if arguments.ways else list(WAYS)
    seeds = range(arguments.seeds)
    with ExitStack() as stack, ThreadPoolExecutor(arguments.jobs) as pool:
        place = arguments.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place.mkdir(parents=True, exist_ok=True)
        begun = list(pool.map(lambda job: _begin(suite, *job, place), [(m, s) for m in models for s in seeds]))
        references = _references(place / f"{models[0]} 0")  # before the long part: a table needs no more than texts
        jobs = [(model, seed, way) for model in models for seed in seeds for way in ways]  # side by side: all ways
        went_on = list(filter(None, pool.map(lambda job: _tried(suite, *job, arguments.minutes, place), jobs)))
        found = {("likelihood", model, seed): result for (model, seed), result in begun}
        found |= {(way, model, seed): result for (model, seed, way), result in went_on}
    tables = [_table(suite, found, model, ["likelihood", *ways], list(seeds), references) for model in models]
    _finish(tables, arguments.out)


def _finish(tables: list[Table], out: Path | None) -> None:
    text = "\n".join(map(str, tables))
    print(text)
    if out:
        out.write_text(text + "\n", encoding="utf-8")


def _costs(arguments: argparse.Namespace) -> list[Table]:
    from benchmarks.reward_cost import WAYS as MEASURED
    from benchmarks.reward_cost import cost_table

    configs = multi30k(arguments.data).models
    models = arguments.models.split(";") if arguments.models else ["LSTM"]
    ways = arguments.ways.split(";") if arguments.ways else list(MEASURED)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return [cost_table(configs[model], ways, arguments.steps, arguments.batches, device) for model in models]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare ways to go on after maximum likelihood.")
    parser.add_argument("suite", choices=[*SUITES, "cost"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", help="only these, with ; between them")
    parser.add_argument("--ways", help="only these, with ; between them")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=1.5, help="how long each way goes on")
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side: a GPU has room for several")
    parser.add_argument("--steps", type=int, default=600, help="cost: of likelihood, before anything is measured")
    parser.add_argument("--batches", type=int, help="cost: measured in turn; all of an epoch when not given")
    parser.add_argument("--work", type=Path, help="keep runs here; what is there already is not made again")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _begin(suite: Suite, model: str, seed: int, folder: Path) -> tuple[tuple[str, int], Result]:
    run = folder / f"{model} {seed}"
    if not _finished(run):
        file = folder / f"{run.name}.yaml"
        file.write_text(json.dumps(suite.models[model] | {"seed": seed}), encoding="utf-8")
        _seqloom("train", str(file), "--out", str(run), "--quiet", "--no-report")
    return (model, seed), _measured(run, suite)


def _finished(run: Path) -> bool:
    """Whether a run is there to its end, or what it wrote; what is left of one that was killed is taken away."""
    if all(scores.exists() for _, scores in map(partial(_files, run), STRATEGIES)):
        return True
    if run.exists() and not RunFolder(run).finished:
        shutil.rmtree(run)
    return run.exists()


def _tried(suite: Suite, model: str, seed: int, way: str, minutes: float, folder: Path) -> Any:
    """A training that fails, for want of memory say, costs its own result alone."""
    try:
        return _go_on(suite, model, seed, way, minutes, folder)
    except subprocess.CalledProcessError as error:
        print(f"{model} {seed} {way}: failed with status {error.returncode}", file=sys.stderr, flush=True)
        return None


def _go_on(
    suite: Suite, model: str, seed: int, way: str, minutes: float, folder: Path
) -> tuple[tuple[str, int, str], Result]:
    """Go on from a trained run; all ways keep the weights that write best on the validation examples."""
    objective = dict(WAYS[way])
    if objective["kind"] in ("policy-gradient", "minimum-risk", "actor-critic"):
        objective.setdefault("reward", suite.reward)
    else:
        objective["label_smoothing"] = suite.models[model]["objective"].get("label_smoothing", 0.0)
    settings = {
        "objective": objective,
        "training.steps": 100_000,
        "training.minutes": minutes,
        "training.best": "bleu",
        "training.validate_every": 100,
        "training.optimizer.learning_rate": 1e-4,
        "training.schedule": {"kind": "constant"},
    }
    run = folder / f"{model} {seed} {way}"
    given = [part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    if not _finished(run):
        _seqloom("train", str(folder / f"{model} {seed}"), *given, "--out", str(run), "--quiet", "--no-report")
    result = _measured(run, suite)
    print(f"{run.name}: {result.figures}", file=sys.stderr, flush=True)
    return (model, seed, way), result


def _measured(run: Path, suite: Suite) -> Result:
    figures, outputs = {}, {}
    for strategy in STRATEGIES:
        file, scores = _files(run, strategy)
        if not scores.exists():
            printed = _seqloom("evaluate", str(run), "--strategy", strategy, "--output", str(file), "--json")
            scores.write_text(printed, encoding="utf-8")
        figures[strategy] = json.loads(scores.read_text(encoding="utf-8"))[suite.figure]["value"]
        outputs[strategy] = file.read_text(encoding="utf-8").split("\n")[:-1]
    return Result(figures, outputs)


def _files(run: Path, strategy: str) -> tuple[Path, Path]:
    """What a run wrote on the test set, and its figures: they stand beside it, and tell all that the table needs."""
    return Path(f"{run} {strategy}.txt"), Path(f"{run} {strategy}.json")


# ---------------------------------------------------------------------------------------------------------- suites


def multi30k(folder: Path) -> Suite:
    """English to German: an LSTM with attention, and a Transformer."""
    transformer = {"embedding": {"size": 256}, "encoder": TRANSFORMER, "decoder": TRANSFORMER}
    models = {"LSTM": _recurrent("additive"), "Transformer": transformer}
    return Suite({name: _translating(model, folder) for name, model in models.items()}, "bleu", "BLEU")


def summaries(folder: Path) -> Suite:
    """Dialogues to summaries: an LSTM that copies, and a Transformer."""
    configs = dialogsum(folder)
    models = {"LSTM": configs["LSTM + copying, coverage"], "Transformer": configs["Transformer + copying"]}
    return Suite(models, "rouge-l", "ROUGE-L")


SUITES = {"multi30k": multi30k, "dialogsum": summaries}

# ----------------------------------------------------------------------------------------------------------- table


def _references(run: Path) -> list[list[str]]:
    import seqloom

    file = Path(f"{run} references.json")
    if not file.exists():
        model: Any = seqloom.load(run, "cpu")
        file.write_text(json.dumps(list(model.held_out().references)), encoding="utf-8")
    return list(json.loads(file.read_text(encoding="utf-8")))


def _table(
    suite: Suite,
    found: dict[tuple[str, str, int], Result],
    model: str,
    ways: list[str],
    seeds: list[int],
    references: list[list[str]],
) -> Table:
    rows = []
    for way in ways:
        cells = [way]
        for strategy in STRATEGIES:
            own = [seed for seed in seeds if (way, model, seed) in found]
            figures = [found[way, model, seed].figures[strategy] for seed in own]
            spread = f" ± {stdev(figures):.2f}" if len(figures) > 1 else ""
            cells.append(f"{mean(figures):.2f}{spread}" if own else "failed")
            both = [seed for seed in own if (CONTINUED, model, seed) in found]
            if way in ("likelihood", CONTINUED) or not both:
                cells.append("")
                continue
            before, now = (
                [text for seed in both for text in found[each, model, seed].outputs[strategy]]
                for each in (CONTINUED, way)
            )
            result = _sure(suite, before, now, references, len(both))
            cells.append(f"{100 * result.difference:+.2f}, p {result.p:.3f}")
        rows.append(cells)
    note = (
        f"{suite.figure} on the test set, mean ± deviation of {len(seeds)} seeds; beside it the difference from "
        f"{CONTINUED}, all seeds together, and the share of resamples of the sentences in which it is not above 0 "
        "(paired bootstrap)."
    )
    header = ["training", "greedy", "difference", "beam 5", "difference"]
    return Table(f"{model}", note, header, rows, words=1)


def _sure(
    suite: Suite, before: list[str], now: list[str], references: list[list[str]], trainings: int
) -> PairedBootstrap:
    """The texts are those of several trainings, one after the other."""
    if suite.figure == "BLEU":
        split = [scoring_tokens(several) for several in references] * trainings
        return paired_bootstrap_bleu(scoring_tokens(before), scoring_tokens(now), split, trainings=trainings)
    words = [[rouge_words(each) for each in several] for several in references] * trainings
    first, second = (rouge_l([rouge_words(text) for text in texts], words).f for texts in (before, now))
    return paired_bootstrap(first, second, trainings=trainings)


if __name__ == "__main__":
    main()
