"""Options that several verbs share, and where lines come from and go to."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any

import typer

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Settings = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change any key of the configuration.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]
Input = Annotated[str, typer.Option(help="A text file, one text per line; - is stdin.")]


def first_process() -> bool:
    """Whether this process talks to the user: under torchrun only one does."""
    return os.environ.get("RANK", "0") == "0"


def to_json(value: Any) -> str:
    """One JSON object on one line. JSON has no infinity: the log-probability of what is impossible is null."""
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def print_json(value: Any) -> None:
    """One JSON object on one line of stdout."""
    sys.stdout.write(to_json(value) + "\n")
    sys.stdout.flush()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


def read_batches(name: str, size: int) -> Iterator[list[str]]:
    """The lines of a file or of stdin, `size` at a time, as they come."""
    from seqloom.text.reading import read_units

    lines = read_units(Path("/dev/stdin" if name == "-" else name), "line")
    while batch := list(islice(lines, size)):
        yield batch


@contextmanager
def output_file(name: str) -> Iterator[IO[str]]:
    """stdout for -, else a file that appears whole when everything is written."""
    if name == "-":
        yield sys.stdout
        return
    from seqloom.files import atomic_file

    with atomic_file(Path(name)) as temporary, open(temporary, "w", encoding="utf-8") as file:
        yield file
