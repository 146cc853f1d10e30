"""`seqloom inspect`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import Json, print_json

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Look inside a trained model.")


@app.callback()
def inspect() -> None:
    """Look inside a trained model."""


@app.command()
def gradients(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, drawn into one picture.")],
    out: Annotated[Path, typer.Option(help="The picture: .svg, .png or .pdf.")] = Path("gradients.svg"),
    length: Annotated[int, typer.Option(min=2, help="How many words back.")] = 64,
    initial: Annotated[bool, typer.Option("--initial", help="With the weights before training.")] = False,
    json: Json = False,
) -> None:
    """How the gradient of the loss at one word fades or grows on its way back through time.

    For recurrent models the norm of ∂loss_T/∂h_t, for others of ∂loss_T/∂e_t, against the distance T - t, averaged
    over windows of the validation text.

    \b
    Examples:
      seqloom inspect gradients runs/rnn runs/lstm --out gradients.svg
      seqloom inspect gradients runs/rnn --initial --length 100 --json
    """
    from seqloom.reports import gradient_flow, save
    from seqloom.runs import gradient_norms

    norms = {str(run): gradient_norms(run, length, initial) for run in runs}
    save(gradient_flow(list(range(length)), norms), out)
    for run, values in norms.items():
        if json:
            print_json({"run": run, "norms": values})
        else:
            typer.echo(f"{run}: 1 word back {values[1]:.3g}, {length - 1} words back {values[-1]:.3g}")
    typer.echo(f"picture: {out}", err=True)
