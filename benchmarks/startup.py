"""How long one line takes, beside `import torch`: python -m benchmarks.startup [--repetitions N] [--out FILE]

Whole processes, by the processor time that they take (user and system, all threads): on a machine with others on it,
the clock on the wall measures the others. The commands take turns. Compiled loops and Python's bytecode are in caches
before the first one counts, as they are for everyone from the second call on.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

import seqloom
from benchmarks.machine import describe
from benchmarks.tables import Table

OUT = Path(__file__).parent / "results" / "startup.md"
LINE = "The Time Traveller smiled .\n"
TORCH = "python -c 'import torch'"
RUNS = {"ngram": [], "word2vec": [], "lstm": ["training.steps=20", "training.validate_every=20"]}
"""What is trained first, each on the bundled novel that its preset names, with these settings."""
COMMANDS = (
    TORCH,
    "seqloom --help",
    "seqloom presets",
    "seqloom stats line.txt",
    "seqloom score ngram --input line.txt",
    "seqloom evaluate ngram --source line.txt",
    "seqloom words neighbours word2vec time",
    "seqloom generate ngram --prompt The --max-length 10",
    "seqloom score lstm --input line.txt",
    "seqloom generate lstm --prompt The --max-length 10",
)


def main() -> None:
    """Measure, print, and write a Markdown file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description="Measure how seqloom starts.")
    parser.add_argument("--repetitions", type=int, default=11)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        (Path(folder) / "line.txt").write_text(LINE, encoding="utf-8")
        for name, settings in RUNS.items():
            seqloom.train(name, settings, Path(folder) / name, report=False)
        taken = measure(COMMANDS, Path(folder), arguments.repetitions)
    facts = [f"- {name}: {value}" for name, value in describe(torch.device("cpu"))]
    command = shlex.join(["python", "-m", "benchmarks.startup", *sys.argv[1:]])
    page = "\n".join(["# One line, from nothing", "", f"    {command}", "", *facts, "", str(table(taken))])
    print(page)
    arguments.out.write_text(page, encoding="utf-8")


def measure(commands: Sequence[str], folder: Path, repetitions: int) -> dict[str, list[float]]:
    """Seconds of processor time of each command, called in `folder` in turns, after one call that does not count."""
    # Not the checkout's own caches, which the user may have told Python not to write.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    taken: dict[str, list[float]] = {command: [] for command in commands}
    for repetition in range(repetitions + 1):
        for command in commands:
            seconds = processor_time(command, folder, environment)
            if repetition:
                taken[command].append(seconds)
    return taken


def processor_time(command: str, folder: Path, environment: Mapping[str, str]) -> float:
    """User and system seconds of a process and all its threads; what it writes is not looked at."""
    words = shlex.split(command)
    program = [sys.executable] if words[0] == "python" else [sys.executable, "-m", words[0]]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*program, *words[1:]], cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table(taken: Mapping[str, Sequence[float]]) -> Table:
    """Medians, how far they are apart, and the ratio to the first command: the median of those within a turn."""
    first = next(iter(taken.values()))
    rows = []
    for command, seconds in taken.items():
        ratio = median(mine / other for mine, other in zip(seconds, first, strict=True))
        rows.append(
            [f"`{command}`", f"{median(seconds):.2f}", f"{min(seconds):.2f} to {max(seconds):.2f}", f"{ratio:.2f}"]
        )
    note = "Processor seconds of the whole process, user and system: median, smallest and largest, in turns."
    return Table("Start-up", note, ["command", "seconds", "spread", "× import torch"], rows, words=1)


if __name__ == "__main__":
    main()
