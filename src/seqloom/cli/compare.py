"""`seqloom compare`"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.completion import sources as sources_there
from seqloom.cli.naming import Data, Misnamed, models_and_data, with_data
from seqloom.cli.options import Json, MinimalPairs, Settings, first_process, print_json, typed

if TYPE_CHECKING:
    from seqloom.reports.ladder import Ladder

Minutes = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        max=10**9,
        help="Minutes of training for all models together, shared out equally; for each: --set training.minutes=M.",
    ),
]
Seeds = Annotated[int, typer.Option(min=1, max=1000, help="Train each model with so many seeds: means ± deviations.")]


def compare(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PRESET|FILE.yaml|RUN|DATA",
            help="What to compare, or on what; the whole ladder if no models.",
            autocompletion=sources_there,
        ),
    ] = None,
    data: Data = None,
    settings: Settings = [],  # noqa: B006 - typer reads the default, nobody changes it
    vary: Annotated[
        list[str],
        typer.Option(metavar="KEY=A,B,...", help="One model for each value of a key (repeatable: all combinations)."),
    ] = [],  # noqa: B006 - as above
    tokens: Annotated[
        int | None, typer.Option(min=1, max=10**15, help="Training tokens for each; else the most that one asks for.")
    ] = None,
    seeds: Seeds = 1,
    minutes: Minutes = None,
    minimal_pairs: MinimalPairs = None,
    out: Annotated[Path, typer.Option(help="The folder for the runs and report.html.")] = Path("runs/compare"),
    json: Json = False,
    misnamed: Misnamed = None,
) -> None:
    """Train several models on the same text, pairs or images, measure them alike, and write one report.

    Data, tokenisers and validation data are the same for all, in whatever order they are named; language models and
    models of pairs also learn from as many tokens. Folders of finished runs are measured as they are. Runs that are in
    --out already are not trained again, so an interrupted comparison goes on when called again. Without names, pairs (a
    .tsv, two aligned files or a bundled corpus of pairs) and images (a folder, an idx file) have ladders of their own,
    and all else is given to that of language models. With --seeds, the report says how far seeds are apart, and which
    differences between models are noise; seeds can be added to a comparison later. Before anything is trained, a few
    steps of each model tell about how long all will take; --minutes says how long it may take, measuring aside. Models
    then learn for the same time, not from the same number of tokens. --minimal-pairs adds what models of text know: how
    often they prefer the good one of two sentences.

    \b
    Examples:
      seqloom compare my.txt
      seqloom compare --data my.en,my.de --set text.kind=bpe --set target_text=null
      seqloom compare lstm gru transformer --data my.txt --set text.kind=characters --out runs/mine
      seqloom compare lstm --vary model.output.kind=softmax,class-softmax,tree-softmax,noise-contrastive
      seqloom compare a.yaml b.yaml --tokens 2000000 --json
      seqloom compare rnn lstm gru --data my.txt --seeds 3
      seqloom compare --data my.txt --minutes 20
      seqloom compare ngram lstm transformer --data my.txt --minimal-pairs blimp
      seqloom compare mixture rbm vae --data digits
      seqloom compare runs/lstm runs/ngram
    """
    from seqloom.kinds import compare as compare_runs
    from seqloom.runs.comparison import ladder_for
    from seqloom.training import reporter

    sources, data = models_and_data(sources or [], data, misnamed)
    chosen = sources or ladder_for(data)
    settings = with_data(data, settings)
    with called_again():
        ladder = compare_runs(
            chosen, settings, out, tokens, reporter(), vary, seeds, minutes, typed(), minimal_pairs or None
        )
    show(ladder, out, json)


@contextmanager
def called_again() -> Iterator[None]:
    """Where a comparison is interrupted, say that the same command goes on."""
    from seqloom.training import Interrupted

    try:
        yield
    except (Interrupted, KeyboardInterrupt) as stopped:
        said = stopped if isinstance(stopped, Interrupted) else Interrupted("interrupted", signal.SIGINT)
        said.command = ("seqloom", *sys.argv[1:])
        raise said from None


def show(ladder: Ladder, out: Path, json: bool) -> None:
    """Print the table, where the report is, and what to do next."""
    if not first_process():
        return
    from seqloom.reports.ladder_numbers import ladder_json, ladder_table

    if json:
        print_json(ladder_json(ladder))
        return
    from rich.console import Console

    Console().print(ladder_table(ladder))
    typer.echo(f"report: {out / 'report.html'}")
    typer.echo(f"page:   seqloom serve {shlex.quote(str(out))}")
    typer.echo(f"next:   {ladder.next_command}")
