"""`seqloom compare`"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.options import Json, Quiet, Settings, first_process, print_json

if TYPE_CHECKING:
    from seqloom.reports import Ladder, PairLadder


def compare(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PRESET|FILE.yaml]...", help="What to compare; the whole ladder if nothing."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Your text or pairs: a file, F.src,F.tgt, or a bundled corpus.")
    ] = None,
    settings: Settings = [],  # noqa: B006 - typer reads the default, nobody changes it
    vary: Annotated[
        list[str],
        typer.Option(metavar="KEY=A,B,...", help="One model for each value of a key (repeatable: all combinations)."),
    ] = [],  # noqa: B006 - as above
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Training tokens for each; the first one's if not given.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the runs and report.html.")] = Path("runs/compare"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train several models on one text, or on the same pairs, with the same tokens and budget; write one report.

    Data, tokenisers and validation data are the first one's for all. Runs that are in --out already are not trained
    again, so an interrupted comparison goes on when called again. Without names, pairs (a .tsv, two aligned files or a
    bundled corpus of pairs) are given to the ladder of models of pairs, and all else to that of language models.

    \b
    Examples:
      seqloom compare --data my.txt
      seqloom compare --data my.en,my.de --set text.kind=bpe --set target_text=null
      seqloom compare lstm gru transformer --data my.txt --set text.kind=characters --out runs/mine
      seqloom compare lstm --vary model.output.kind=softmax,class-softmax,tree-softmax,noise-contrastive
      seqloom compare a.yaml b.yaml --tokens 2000000 --json
    """
    from seqloom.runs.comparison import compare as compare_runs
    from seqloom.runs.comparison import data_settings, ladder_for
    from seqloom.training import reporter

    chosen = sources or ladder_for(data)
    if data is not None:
        settings = [*data_settings(data), *settings]
    ladder = compare_runs(chosen, settings, out, tokens, None if quiet else reporter(), vary)
    show(ladder, out, json)


def show(ladder: Ladder | PairLadder, out: Path, json: bool) -> None:
    """Print the table, where the report is, and what to do next."""
    if not first_process():
        return
    from seqloom.reports import PairLadder, ladder_json, ladder_table, pair_ladder_json, pair_ladder_table

    if isinstance(ladder, PairLadder):
        document, table = pair_ladder_json(ladder), pair_ladder_table(ladder)
        prompt = shlex.quote(min((source for source, _ in ladder.examples), key=len))
    else:
        document, table = ladder_json(ladder), ladder_table(ladder)
        prompt = f'"{ladder.prompts[0] if ladder.prompts else ""}"'
    if json:
        print_json(document)
        return
    from rich.console import Console

    Console().print(table)
    typer.echo(f"report: {out / 'report.html'}")
    typer.echo(f"next:   seqloom generate {ladder.best().folder} --prompt {prompt}")
