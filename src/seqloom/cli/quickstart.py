"""`seqloom quickstart`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.compare import Minutes, Seeds, show
from seqloom.cli.options import Json


def quickstart(
    data: Annotated[str, typer.Option(help="Your own text, or another bundled corpus.")] = "time-machine",
    out: Annotated[Path, typer.Option(help="The folder for the runs and report.html.")] = Path("runs/quickstart"),
    seeds: Seeds = 1,
    minutes: Minutes = None,
    json: Json = False,
) -> None:
    """Train the ladder of small models on a bundled novel in a few minutes; ends in a report.

    \b
    Examples:
      seqloom quickstart
      seqloom quickstart --data tang-poems
      seqloom quickstart --seeds 3
      seqloom quickstart --minutes 2
    """
    from seqloom.kinds import quickstart as run_quickstart
    from seqloom.training import reporter

    show(run_quickstart(data, out, reporter(), seeds, minutes), out, json)
