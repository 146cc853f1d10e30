"""`seqloom evaluate`"""

from __future__ import annotations

from typing import Annotated

import typer

from seqloom.cli.options import Device, Json, Run, print_json


def evaluate(
    run: Run,
    source: Annotated[
        list[str] | None,
        typer.Option(help="Text to evaluate on (repeatable); else data.test of the run, or its validation text."),
    ] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Perplexity, perplexity per word and bits per character of running text.

    Unlike `score`, lines are read one after the other as one text: a recurrent state is carried from line to line, and
    other models see at least half a window of what came before. Every figure carries a signature that says how it was
    computed; the number of unknown tokens is always among them.

    \b
    Examples:
      seqloom evaluate runs/lstm --source test.txt
      seqloom evaluate runs/lstm --json
    """
    from seqloom.runs import load

    model = load(run, device)
    found, signature = model.evaluate(source), model.signature
    if json:
        print_json({name: {"value": value, "signature": signature} for name, value in found.as_dict().items()})
        return
    for name, value in found.as_dict().items():
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
        typer.echo(f"{name.replace('_', ' '):20} {shown}")
    typer.echo(f"{'signature':20} {signature}")
