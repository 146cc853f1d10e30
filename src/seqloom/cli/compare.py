"""`seqloom compare`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.options import Json, Quiet, Settings, first_process, print_json

if TYPE_CHECKING:
    from seqloom.reports import Ladder


def compare(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PRESET|FILE.yaml]...", help="What to compare; the whole ladder if nothing."),
    ] = None,
    data: Annotated[str | None, typer.Option(help="Your text: a file or a bundled corpus.")] = None,
    settings: Settings = [],  # noqa: B006 - typer reads the default, nobody changes it
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Training tokens for each; the first one's if not given.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the runs and report.html.")] = Path("runs/compare"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train several models on one text with the same tokens and budget; write one report.

    Text, tokeniser and validation text are the first one's for all. Runs that are in --out already are not trained
    again, so an interrupted comparison goes on when called again.

    \b
    Examples:
      seqloom compare --data my.txt
      seqloom compare lstm gru transformer --data my.txt --set text.kind=characters --out runs/mine
      seqloom compare a.yaml b.yaml --tokens 2000000 --json
    """
    from seqloom.runs import LADDER
    from seqloom.runs import compare as compare_runs
    from seqloom.training import reporter

    chosen = sources or list(LADDER)
    if data is not None:
        settings = [f"data.train={data}", "data.valid=null", *settings]
    ladder = compare_runs(chosen, settings, out, tokens, None if quiet else reporter())
    show(ladder, out, json)


def show(ladder: Ladder, out: Path, json: bool) -> None:
    """Print the table, and where the report is."""
    if not first_process():
        return
    from seqloom.reports import ladder_json, ladder_table

    if json:
        print_json(ladder_json(ladder))
        return
    from rich.console import Console

    Console().print(ladder_table(ladder))
    best = ladder.best()
    typer.echo(f"report: {out / 'report.html'}")
    typer.echo(f'next:   seqloom generate {best.folder} --prompt "{ladder.prompts[0] if ladder.prompts else ""}"')
