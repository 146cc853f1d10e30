"""`seqloom show`"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.completion import runs
from seqloom.cli.options import Json, print_json
from seqloom.cli.runs import list_runs

if TYPE_CHECKING:
    from seqloom.runs.overview import Overview


def show(
    run: Annotated[
        Path, typer.Argument(metavar="RUN|FOLDER", help="A run folder, or a folder of several.", autocompletion=runs)
    ] = Path("runs"),
    json: Json = False,
) -> None:
    """What a run is, how good and how large it is, what it learned from, and the commands that use it.

    With --json, one object: {"run", "kind", "parts", "description", "state", "parameters", "bytes", "data", "figures",
    "plugins", "seqloom", "commands"}. Of a folder that holds several runs, or comparisons of several: what
    `seqloom runs` says of them.

    \b
    Examples:
      seqloom show runs/lstm
      seqloom show runs
      seqloom show runs/compare --json
    """
    if not (run / "run.json").is_file():
        list_runs(run, json=json)
        return
    import seqloom.kinds  # noqa: F401 - which makes them known
    from seqloom.runs.overview import overview

    found = overview(run)
    print_json(asdict(found)) if json else _tell(found)


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


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
