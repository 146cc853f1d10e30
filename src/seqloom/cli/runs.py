"""`seqloom runs`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seqloom.cli import completion
from seqloom.cli.options import Json, print_json

if TYPE_CHECKING:
    from seqloom.runs.listing import Listed

Order = Literal["run", "model", "figure", "parameters", "size", "age"]
MISSING = "–"


def runs(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder of runs.", autocompletion=completion.runs)
    ] = Path("runs"),
    sort: Annotated[Order, typer.Option(help="What to sort by: by name, the smallest or the youngest first.")] = "run",
    reverse: Annotated[bool, typer.Option("--reverse", help="The other way round.")] = False,
    json: Json = False,
) -> None:
    """The runs in a folder, and in comparisons in it: model, data, best figure, size, state and age of each.

    Only small files are read, and no model is loaded: it takes a moment. With --json, one object for each run: {"run",
    "kind", "parts", "data", "figure": {"name", "value", "title", "text"}, "parameters", "bytes", "state", "changed",
    "age"}, times in seconds, or {"run", "error"} where one cannot be read.

    \b
    Examples:
      seqloom runs
      seqloom runs --sort figure
      seqloom runs runs/compare --sort size --reverse
      seqloom runs --json
    """
    list_runs(folder, sort, reverse, json)


def list_runs(folder: Path, sort: Order = "run", reverse: bool = False, json: bool = False) -> None:
    """One line for each run below a folder; those that cannot be read come last, on stderr."""
    from seqloom.runs.folder import RunFolder
    from seqloom.runs.listing import ORDERS, Damaged, Listed, listing

    found = listing(RunFolder(folder).runs)
    told = sorted((run for run in found if isinstance(run, Listed)), key=ORDERS[sort], reverse=reverse)
    damaged = [run for run in found if isinstance(run, Damaged)]
    if json:
        for record in [run.record() for run in told] + [run.record() for run in damaged]:
            print_json(record)
    else:
        for failed in damaged:
            typer.echo(f"error: {failed.error}", err=True)
        if told:
            _tabulate(told)
    if not told:
        raise typer.Exit(damaged[0].error.exit_code)


def _tabulate(runs: list[Listed]) -> None:
    from seqloom.reports.numbers import compact
    from seqloom.runs.listing import span

    rows = [("run", "model", "data", "figure", "parameters", "size", "state", "age")]
    for run in runs:
        parameters = MISSING if run.parameters is None else f"{run.parameters:,}"
        figure = MISSING if run.figure is None else run.figure.text
        size = f"{compact(run.bytes)}B"
        rows.append((run.run, run.model, run.data, figure, parameters, size, run.state, span(run.age)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{cell:{side}{width}}" for cell, side, width in zip(row, "<<<<>><>", widths, strict=True)]
        typer.echo("  ".join(cells).rstrip())
