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
    from seqloom.data import scenes
    from seqloom.data.corpora import bundled

    found = [(corpus.name, corpus.kind, corpus.description) for corpus in bundled()]
    for name, kind, description in [*found, ("scenes", "captions", scenes.DESCRIPTION)]:
        if json:
            print_json({"name": name, "kind": kind, "description": description})
        else:
            typer.echo(f"{name:20} {kind:8} {description}")
