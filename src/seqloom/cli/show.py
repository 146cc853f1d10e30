"""`seqloom show`"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.completion import runs
from seqloom.cli.options import Json, print_json

if TYPE_CHECKING:
    from seqloom.runs.overview import Overview


def show(
    run: Annotated[
        Path, typer.Argument(metavar="RUN|FOLDER", help="A run folder, or a folder of several.", autocompletion=runs)
    ] = Path("runs"),
    json: Json = False,
) -> None:
    """What a run is, how good and how large it is, what it learned from, and the commands that use it.

    Of a folder that holds several runs, or comparisons of several: one line for each. With --json, one object for each
    run: {"run", "kind", "parts", "description", "state", "parameters", "bytes", "data", "figures", "plugins",
    "seqloom", "commands"}, or {"run", "error"} where one of several cannot be opened.

    \b
    Examples:
      seqloom show runs/lstm
      seqloom show runs
      seqloom show runs/compare --json
    """
    import seqloom.kinds  # noqa: F401 - which makes them known
    from seqloom.errors import SeqloomError
    from seqloom.runs.folder import RunFolder
    from seqloom.runs.overview import overview

    if (run / "run.json").is_file():
        found = overview(run)
        print_json(asdict(found)) if json else _tell(found)
        return
    several = RunFolder(run).runs_inside
    if not several:
        RunFolder(run).check_there()
    told: list[Overview] = []
    failure: SeqloomError | None = None
    for path in several:
        try:
            told.append(overview(path))
            if json:
                print_json(asdict(told[-1]))
        except SeqloomError as error:
            failure = error
            print_json({"run": str(path), "error": str(error)}) if json else typer.echo(f"error: {error}", err=True)
    if told and not json:
        _tabulate(told)
    if failure is not None and not told:
        raise typer.Exit(failure.exit_code)


def _tell(run: Overview) -> None:
    from seqloom.reports.numbers import compact

    lines = {
        "run": run.run,
        "kind": ", ".join([run.kind, *(f"{name} {kind}" for name, kind in run.parts.items())]),
        "description": run.description,
        "state": run.state,
        "parameters": "none yet" if run.parameters is None else f"{run.parameters:,}",
        "size": f"{compact(run.bytes)}B",
        **run.data,
        **{name.replace("_", " "): _number(value) for name, value in run.figures.items()},
        **{f"plugin of {kind!r}": home for kind, home in run.plugins.items()},
        "written by": f"seqloom {run.seqloom}",
    }
    width = max(map(len, lines))
    for name, value in lines.items():
        typer.echo(f"{name:{width}}  {value}")
    typer.echo("use")
    for command in run.commands:
        typer.echo(f"  {command}")


def _tabulate(runs: list[Overview]) -> None:
    """One line for each run: name, kind, state, parameters, size, and the figure that says how good it is."""
    from seqloom.reports.numbers import compact

    rows = [("run", "kind", "state", "parameters", "size", "figure")]
    for run in runs:
        parameters = "–" if run.parameters is None else f"{run.parameters:,}"
        rows.append((run.run, run.kind, run.state, parameters, f"{compact(run.bytes)}B", _headline(run.figures)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{cell:{side}{width}}" for cell, side, width in zip(row, "<<<>><", widths, strict=True)]
        typer.echo("  ".join(cells).rstrip())


def _headline(figures: dict[str, float]) -> str:
    names = ("valid_accuracy", "valid_perplexity", "perplexity", "valid_loss")
    return next((f"{name.replace('_', ' ')} {_number(figures[name])}" for name in names if name in figures), "–")


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
