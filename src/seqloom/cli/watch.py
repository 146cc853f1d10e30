"""`seqloom watch`"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli import completion
from seqloom.cli.options import Json, print_json
from seqloom.errors import SeqloomError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seqloom.runs.watching import Watched

ROWS = 12  # of a picture, in lines of the terminal
MARGIN = 9  # characters left of it, for the numbers
COLOURS = ("cyan", "yellow", "magenta", "green", "red", "blue")
LONGEST = 300  # characters of a sample


def watch(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN|FOLDER...", help="Run folders, or folders of several.", autocompletion=completion.runs
        ),
    ],
    every: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and print plain text.")] = False,
    json: Json = False,
) -> None:
    """How far trainings are, live: step, speed, time left, curves, and what the model writes.

    It reads the folders of runs that other processes train, and ends when none is trained any more, or with Ctrl-C.
    Where stdout is no terminal, it looks once. With --json it does too: one object for each run, {"run", "name",
    "kind", "state", "stage", "step", "steps", "epoch", "tokens_per_second", "unit", "seconds", "left", "best": {"name",
    "value", "title", "text"}, "panels": [{"title", "lines": [{"name", "points"}]}], "samples": [{"step", "input",
    "text"}]}, or {"run", "error"} where one of several cannot be read.

    \b
    Examples:
      seqloom watch runs/lstm
      seqloom watch runs/lstm runs/gru --every 5
      seqloom watch runs --once
      seqloom watch runs/lstm --json
    """
    from seqloom.runs.folder import RunFolder
    from seqloom.runs.watching import watched

    paths = [path for run in runs for path in RunFolder(run).runs]
    seen: list[Watched] = []
    for path in paths:
        try:
            seen.append(watched(path))
        except SeqloomError as error:
            if len(paths) == 1:
                raise
            print_json({"run": str(path), "error": str(error)}) if json else typer.echo(f"error: {error}", err=True)
    if not seen:
        raise typer.Exit(2)
    if json:
        for each in seen:
            print_json(each.record())
    elif once or not sys.stdout.isatty():
        typer.echo("\n".join(_told(each) for each in seen))
    else:
        _follow(seen, every)


def _follow(seen: list[Watched], every: float) -> None:
    """Show what can be seen, again and again; the error of a run that can no longer be read in its place."""
    from rich.live import Live

    from seqloom.runs.watching import watched

    def look(path: str) -> Watched | SeqloomError:
        try:
            return watched(path)
        except SeqloomError as error:
            return error

    paths = [each.run for each in seen]
    looks: list[Watched | SeqloomError] = [*seen]
    try:
        with Live(auto_refresh=False) as live:
            while True:
                live.update(_picture(looks, live.console.width), refresh=True)
                seen = [each for each in looks if not isinstance(each, SeqloomError)]
                if not any(each.goes_on for each in seen):
                    break
                time.sleep(every)
                looks = [look(path) for path in paths]
    except KeyboardInterrupt:
        return
    if not seen:
        raise typer.Exit(2)


def _told(run: Watched) -> str:
    """A run as plain text: how far it is, and what it wrote last."""
    return "\n".join([_headline(run), *_sample(run)])


def _headline(run: Watched) -> str:
    """How far a run is, in one line."""
    from seqloom.progress import clock

    facts = [run.run, run.state, *([f"stage {run.stage}"] if run.stage else [])]
    facts.append(f"step {run.step:,}" + (f" of {run.steps:,}" if run.steps else ""))
    if run.epoch is not None:
        facts.append(f"epoch {run.epoch:.3g}")
    if run.tokens_per_second is not None:
        facts.append(f"{run.tokens_per_second:,.0f} {run.unit}/s")
    if run.left is not None:
        facts.append(f"{clock(run.left)} left")
    if run.best is not None:
        facts.append(f"best {run.best.text}")
    return "  ".join(facts)


def _sample(run: Watched) -> list[str]:
    """What a run wrote last, on one line."""
    if not run.samples:
        return []
    last = run.samples[-1]
    given = f"{last['input']} → " if last["input"] else ""
    text = " ".join(f"{given}{last['text']}".split())
    return [f"  step {last['step']:,}: {text[:LONGEST]}"]


def _picture(looks: Sequence[Watched | SeqloomError], width: int) -> RenderableType:
    """All runs as a terminal shows them: a line for each, their curves together, what they wrote last."""
    from rich.console import Group
    from rich.text import Text

    runs = [each for each in looks if not isinstance(each, SeqloomError)]
    charts: dict[str, list[tuple[str, list[tuple[float, float]]]]] = {}
    for run in runs:
        for panel in run.panels[:1]:
            for line in panel["lines"]:
                name = " ".join(filter(None, [run.name if len(runs) > 1 else "", line["name"]]))
                charts.setdefault(panel["title"], []).append((name, line["points"]))
    parts = [
        Text(f"error: {each}", style="red") if isinstance(each, SeqloomError) else Text(_headline(each), style="bold")
        for each in looks
    ]
    for title, lines in charts.items():
        parts += _chart(title, lines, width)
    parts += [Text(line, style="italic") for run in runs for line in _sample(run)]
    return Group(*parts)


def _chart(title: str, lines: list[tuple[str, list[tuple[float, float]]]], width: int) -> list[Any]:
    """Some lines in one panel, with their names and the ends of both scales."""
    from rich.text import Text

    from seqloom.reports.braille import drawn
    from seqloom.reports.numbers import compact, significant

    columns = max(10, width - MARGIN - 1)
    points = [point for _, line in lines for point in line]
    low, high = min(y for _, y in points), max(y for _, y in points)
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    legend = Text(f"{title}  ")
    for number, (name, line) in enumerate(lines):
        legend.append(f"━ {name} {significant(line[-1][1])}  ", COLOURS[number % len(COLOURS)])
    rows = []
    for number, row in enumerate(drawn([line for _, line in lines], columns, ROWS)):
        label = significant(high) if number == 0 else significant(low) if number == ROWS - 1 else ""
        text = Text(f"{label:>{MARGIN - 1}} ")
        for character, owner in row:
            text.append(character, "" if owner is None else COLOURS[owner % len(COLOURS)])
        rows.append(text)
    ends = f"{compact(first)}{compact(last):>{columns - len(compact(first))}}"
    return [legend, *rows, Text(" " * MARGIN + ends)]
