"""N-gram models beside KenLM: estimating from a text file, loading, scoring, and beams."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import seqloom
from benchmarks.tables import Table, number
from benchmarks.timing import Effort, alternate, measure, speed_ratio
from seqloom.decoding import Limits, beam_search
from seqloom.runs.language_model import TrainedLanguageModel
from seqloom.text.reading import read_lines

CPU = torch.device("cpu")
BEAM_LENGTH = 20
SMALL = 10_000  # words of a second, smaller vocabulary
LOADED = """\
import json, sys, time
import seqloom, torch
from seqloom.models.ngram import kernels
from seqloom.text import word_table
began = time.perf_counter()
seqloom.train("ngram", json.loads(sys.argv[1]), sys.argv[2])
print(time.perf_counter() - began)
"""


@dataclass(frozen=True)
class Process:
    """What a program took from start to end."""

    seconds: float
    memory: float
    """Bytes, at the highest."""
    output: str


@dataclass(frozen=True)
class NgramSizes:
    """What is measured."""

    orders: Sequence[int] = (3, 5)
    repeats: Sequence[int] = (1, 2, 4, 7)
    """How often the text is repeated, to see how time grows with its length."""
    memory: float = 1.0
    """Gigabytes that counting may take for the repeated texts."""
    beams: int = 64
    repetitions: int = 3


def run_ngrams(
    text: Path, lmplz: str | None, sizes: NgramSizes, effort: Effort, say: Callable[[str], None]
) -> Iterator[Table]:
    """Measure on a text file of one sentence per line; without `lmplz` seqloom stands alone where it would be."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        train, test = _split(text, folder)
        say("n-grams: compiling")
        _train(train, 2, folder / "warm")
        yield _estimation(train, lmplz, sizes, folder, say)
        yield _growth(train, sizes, folder, say)
        order = sizes.orders[-1]
        _train(train, order, folder / "small", f"text.max_size={SMALL}")
        models = seqloom.load(folder / f"ours-{order}"), seqloom.load(folder / "small")
        yield _queries(*models, folder, test, lmplz, sizes, effort, say)


# ------------------------------------------------------------------------------------------------------- estimating


def _estimation(train: Path, lmplz: str | None, sizes: NgramSizes, folder: Path, say: Callable[[str], None]) -> Table:
    rows = []
    tokens = sum(len(line.split()) + 1 for line in read_lines(train))
    for order in sizes.orders:
        say(f"n-grams: estimating order {order}")
        ours, theirs = [], []
        for repetition in range(sizes.repetitions):
            ours.append(_train(train, order, folder / f"ours-{order}", again=repetition > 0))
            if lmplz:
                theirs.append(_lmplz(lmplz, train, order, folder / f"theirs-{order}.arpa"))
        inside = min(float(process.output) for process in ours)
        whole = min(process.seconds for process in ours)
        memory = max(process.memory for process in ours) / 1e9
        row = [str(order), number(tokens), f"{inside:.2f}", f"{whole:.2f}", f"{memory:.2f}"]
        if theirs:
            seconds = min(process.seconds for process in theirs)
            peak = max(process.memory for process in theirs) / 1e9
            row += [f"{seconds:.2f}", f"{peak:.2f}", f"{seconds / inside:.1f}", f"{seconds / whole:.1f}"]
        rows.append(row)
    header = ["order", "tokens", "seqloom s", "whole process s", "GB"]
    if lmplz:
        header += ["lmplz s", "lmplz GB", "lmplz / seqloom", "lmplz / process"]
    note = (
        "Modified Kneser-Ney from a text file to a model that answers questions, best of "
        f"{sizes.repetitions}, in turns. *seqloom*: `seqloom.train` in Python, caches empty, loops compiled; *whole "
        "process*: with starting Python and importing torch. `lmplz -S 4G` ends with an ARPA file, not yet a model."
    )
    return Table("Estimation", note, header, rows, words=0)


def _growth(train: Path, sizes: NgramSizes, folder: Path, say: Callable[[str], None]) -> Table:
    """Time and memory against the length of the text."""
    order = sizes.orders[-1]
    once = train.read_bytes()
    tokens = sum(len(line.split()) + 1 for line in read_lines(train))
    rows = []
    for times in sizes.repeats:
        say(f"n-grams: the text {times} times")
        longer = folder / "longer.txt"
        with open(longer, "wb") as file:
            for _ in range(times):
                file.write(once)
        found = _train(longer, order, folder / "longer", f"engine.memory={sizes.memory}")
        shutil.rmtree(folder / "longer")
        seconds = float(found.output)
        rows.append(
            [
                str(times),
                number(times * tokens),
                f"{seconds:.1f}",
                number(times * tokens / seconds),
                f"{found.memory / 1e9:.2f}",
            ]
        )
    note = f"Order {order}, the text repeated, `engine.memory={sizes.memory:g}` (GB): arrays that do not fit are files."
    return Table("Growth", note, ["times", "tokens", "seconds", "tokens/s", "GB"], rows, words=0)


def _train(train: Path, order: int, out: Path, *settings: str, again: bool = False) -> Process:
    """A model of the text, estimated by a process of its own that finds no tokens in its cache."""
    import json

    if again:
        shutil.rmtree(out)
    chosen = [f"data.train={train}", "text.kind=whitespace", f"model.order={order}", *settings]
    with TemporaryDirectory(dir=out.parent) as cache:
        environment = {**os.environ, "SEQLOOM_CACHE": cache}
        return _run([sys.executable, "-c", LOADED, json.dumps(chosen), str(out)], environment)


def _lmplz(program: str, train: Path, order: int, arpa: Path) -> Process:
    command = [program, "-o", str(order), "-S", "4G", "-T", str(arpa.parent), "--text", str(train), "--arpa", str(arpa)]
    return _run([*command, "--discount_fallback"], dict(os.environ))


def _run(command: list[str], environment: dict[str, str]) -> Process:
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{command[0]} failed")
    return Process(seconds, usage.ru_maxrss * 1024, output)


# --------------------------------------------------------------------------------------------------------- queries


def _queries(
    model: TrainedLanguageModel,
    small: TrainedLanguageModel,
    folder: Path,
    test: Path,
    lmplz: str | None,
    sizes: NgramSizes,
    effort: Effort,
    say: Callable[[str], None],
) -> Table:
    say("n-grams: scoring")
    lines = list(read_lines(test))
    tokens = sum(len(line.split()) + 1 for line in lines)
    rows = []
    ours = lambda: model.score(lines)  # noqa: E731
    peer = _kenlm(folder / f"theirs-{sizes.orders[-1]}.arpa", lmplz)
    if peer is not None:
        theirs = lambda: [peer.score(line) for line in lines]  # type: ignore[attr-defined]  # noqa: E731
        own, other = alternate([(ours, tokens), (theirs, tokens)], effort, CPU)
        ratio = str(speed_ratio(own, other))
        rows.append(["scoring lines of text", "words/s", number(own.rate), number(other.rate), ratio])
    else:
        rows.append(["scoring lines of text", "words/s", number(measure(ours, tokens, effort, CPU).rate), "", ""])

    say("n-grams: beams")
    for searched in (small, model):
        _search(searched, lines[0], sizes.beams * 8)  # enough for compiled code to take over, as it does in longer work
        beams = measure(partial(_search, searched, lines[0], sizes.beams), sizes.beams * BEAM_LENGTH, effort, CPU)
        what = f"beam search, {sizes.beams} beams, {searched.tokenizer.size:,} words"
        rows.append([what, "hypothesis-steps/s", number(beams.rate), "", ""])
    loading = measure(lambda: seqloom.load(model.path), 1, effort, CPU)
    rows.append(["loading", "s", f"{loading.median:.2f}", "", ""])
    note = f"The model of order {model.config.model.order} above, on the last lines of the text, which it has not seen."
    return Table("Questions", note, ["what", "unit", "seqloom", "kenlm", "seqloom / kenlm"], rows)


def _search(model: TrainedLanguageModel, line: str, beams: int) -> object:
    limits = Limits(max_length=BEAM_LENGTH, min_length=BEAM_LENGTH)
    return beam_search(model.model, [model.tokenizer.encode(line)[:3]], beams, limits)


def _kenlm(arpa: Path, lmplz: str | None) -> object | None:
    """The kenlm module with the same model, in its fastest form (a probing hash table)."""
    if lmplz is None:
        return None
    import kenlm

    binary = arpa.with_suffix(".bin")
    builder = shutil.which("build_binary", path=str(Path(lmplz).parent)) or shutil.which("build_binary")
    if builder:
        subprocess.run([builder, str(arpa), str(binary)], check=True, capture_output=True)
    return kenlm.Model(str(binary if builder else arpa))


def _split(text: Path, folder: Path) -> tuple[Path, Path]:
    """All lines but the last hundredth to train on, and those to score, blank ones left out."""
    lines = [line for line in read_lines(text) if line.strip()]
    cut = len(lines) - max(1, len(lines) // 100)
    for name, part in (("train.txt", lines[:cut]), ("test.txt", lines[cut:])):
        (folder / name).write_text("\n".join(part) + "\n", encoding="utf-8")
    return folder / "train.txt", folder / "test.txt"
