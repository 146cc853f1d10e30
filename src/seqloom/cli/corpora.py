"""`seqloom corpora`"""

from __future__ import annotations

import typer

from seqloom.cli.options import Json, print_json


def corpora(json: Json = False) -> None:
    """List the corpora that come with seqloom; each name works wherever a file does.

    \b
    Examples:
      seqloom corpora
      seqloom train lstm --set data.train=shakespeare --set data.unit=file --set text.kind=characters
    """
    from seqloom.data.corpora import bundled

    for corpus in bundled():
        if json:
            print_json({"name": corpus.name, "kind": corpus.kind, "description": corpus.description})
        else:
            typer.echo(f"{corpus.name:20} {corpus.kind:8} {corpus.description}")
