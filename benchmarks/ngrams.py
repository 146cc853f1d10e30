"""N-gram models beside KenLM: estimating from a text file, loading, scoring, and beams."""

from __future__ import annotations

import os
import shlex
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
SEQLOOM = [sys.executable, "-m", "seqloom"]
STARTED = "import seqloom.cli.app; from seqloom.kinds import kind_named; kind_named('ngram'); import numba"
"""What a training imports before it begins."""
BEAM_LENGTH = 20
SMALL = 10_000  # words of a second, smaller vocabulary


@dataclass(frozen=True)
class Process:
    """What a program took from start to end."""

    seconds: float
    processor: float
    """Seconds of all cores together, those of the system too."""
    memory: float
    """Bytes, at the highest."""


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
    """Whole processes in turns: every order, words in place of what stands between spaces, and doing nothing."""
    last = sizes.orders[-1]
    ways: dict[str, Callable[[], Process]] = {"starting alone": partial(_run, [sys.executable, "-c", STARTED])}
    for order in sizes.orders:
        ways[f"order {order}"] = partial(_train, train, order, folder / f"ours-{order}")
        if lmplz:
            arpa = folder / f"theirs-{order}.arpa"
            ways[f"order {order}, `lmplz`"] = partial(_lmplz, lmplz, train, order, arpa)
    ways[f"order {last}, `text.kind=words`"] = partial(_train, train, last, folder / "words", "text.kind=words")
    taken: dict[str, list[Process]] = {way: [] for way in ways}
    for repetition in range(sizes.repetitions):
        for way, run in ways.items():
            say(f"n-grams: {way}, {repetition + 1} of {sizes.repetitions}")
            taken[way].append(run())
    rows = []
    for way, processes in taken.items():
        seconds = [process.seconds for process in processes]
        busy = [process.processor for process in processes]
        row = [way, f"{min(seconds):.2f}", f"{max(seconds):.2f}", f"{min(busy):.2f}", f"{max(busy):.2f}"]
        row.append(f"{max(process.memory for process in processes) / 1e9:.2f}")
        theirs = taken.get(f"{way}, `lmplz`")
        if theirs:
            row.append(f"{min(process.seconds for process in theirs) / min(seconds):.1f}")
            row.append(f"{min(process.processor for process in theirs) / min(busy):.1f}")
        rows.append(row + [""] * (8 - len(row)))
    tokens = number(sum(len(line.split()) + 1 for line in read_lines(train)))
    note = (
        f"Modified Kneser-Ney of {tokens} tokens, from a text file to a model that answers questions: `seqloom train "
        "ngram --no-report`, whole processes with empty caches and compiled loops, in turns, best and worst of "
        f"{sizes.repetitions}. `lmplz -S 4G` ends with an ARPA file, not yet a model."
    )
    header = ["what", "s", "worst", "processor s", "worst", "GB", "lmplz / seqloom", "by processor s"]
    return Table("Estimation", note, header, rows, words=1)


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
        speed = number(times * tokens / found.seconds)
        rows.append([str(times), number(times * tokens), f"{found.seconds:.1f}", speed, f"{found.memory / 1e9:.2f}"])
    note = (
        f"Order {order}, whole processes, the text repeated, `engine.memory={sizes.memory:g}` (GB): arrays that do not "
        "fit are files."
    )
    return Table("Growth", note, ["times", "tokens", "seconds", "tokens/s", "GB"], rows, words=0)


def _train(train: Path, order: int, out: Path, *settings: str) -> Process:
    """A model of the text, estimated by a process of its own that finds no tokens in its cache."""
    shutil.rmtree(out, ignore_errors=True)
    chosen = [f"data.train={train}", "text.kind=whitespace", f"model.order={order}", *settings]
    command = [*SEQLOOM, "train", "ngram", "--no-report", "--quiet", "--out", str(out)]
    with TemporaryDirectory(dir=out.parent) as cache:
        return _run([*command, *(word for setting in chosen for word in ("--set", setting))], SEQLOOM_CACHE=cache)


def _lmplz(program: str, train: Path, order: int, arpa: Path) -> Process:
    command = [program, "-o", str(order), "-S", "4G", "-T", str(arpa.parent), "--text", str(train), "--arpa", str(arpa)]
    return _run([*command, "--discount_fallback"])


def _run(command: list[str], **environment: str) -> Process:
    began = time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env={**os.environ, **environment}, **quiet)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{shlex.join(command)} failed")
    return Process(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


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
    ways: dict[str, Callable[[], object]] = {
        "scoring lines of text, all in one call": lambda: model.score(lines),
        "one line per call": lambda: [model.log_prob(line) for line in lines],  # log p alone, as kenlm's `score`
    }
    calls = [(call, tokens) for call in ways.values()]
    peer = _kenlm(folder / f"theirs-{sizes.orders[-1]}.arpa", lmplz)
    if peer is not None:
        calls.append((lambda: [peer.score(line) for line in lines], tokens))  # type: ignore[attr-defined]
    *own, other = [*alternate(calls, effort, CPU), *([] if peer else [None])]
    for way, found in zip(ways, own, strict=True):
        against = [number(other.rate), str(speed_ratio(found, other))] if other else ["", ""]
        rows.append([way, "words/s", number(found.rate), *against])

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
