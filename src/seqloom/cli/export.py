"""`seqloom export`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from seqloom.cli.options import Run


def export(
    run: Run,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; .gz is gzipped.")],
    to: Annotated[Literal["arpa"], typer.Option(help="The format.")],
) -> None:
    """Write a run's model in the format of other programs.

    arpa: an n-gram model for KenLM, SRILM and the many programs that read theirs.

    \b
    Examples:
      seqloom export runs/ngram --to arpa model.arpa
      seqloom export runs/ngram --to arpa model.arpa.gz
    """
    from seqloom.interop import export_arpa

    {"arpa": export_arpa}[to](run, out)
    typer.echo(str(out))
