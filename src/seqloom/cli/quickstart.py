"""`seqloom quickstart`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.compare import Minutes, Seeds, called_again, show
from seqloom.cli.naming import text_to_learn
from seqloom.cli.options import Json, typed


def quickstart(
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="Your own text, or a bundled corpus.")] = None,
    data: Annotated[str | None, typer.Option(help="The same.")] = None,
    out: Annotated[Path, typer.Option(help="The folder for the runs and report.html.")] = Path("runs/quickstart"),
    seeds: Seeds = 1,
    minutes: Minutes = None,
    json: Json = False,
) -> None:
    """Train the ladder of small models on a bundled novel in a few minutes; ends in a report.

    \b
    Examples:
      seqloom quickstart
      seqloom quickstart my.txt
      seqloom quickstart tang-poems
      seqloom quickstart --seeds 3
      seqloom quickstart --minutes 2
    """
    from seqloom.kinds import quickstart as run_quickstart
    from seqloom.training import reporter

    named = text_to_learn(text, data)
    with called_again():
        ladder = run_quickstart(named, out, reporter(), seeds, minutes, typed())
    show(ladder, out, json)
