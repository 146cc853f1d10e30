"""`seqloom inspect`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli import completion
from seqloom.cli.options import COUNTED, Device, Json, Run, Verbs, load_able, print_json, print_scores, scored_json
from seqloom.progress import say

if TYPE_CHECKING:
    from seqloom.reports.ngrams import OrderCoverage

app = Verbs(rich_markup_mode=None, no_args_is_help=True, help="Look inside a trained model.")


@app.callback()
def inspect() -> None:
    """Look inside a trained model."""


@app.command()
def gradients(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run folders, drawn into one picture.", autocompletion=completion.runs),
    ],
    out: Annotated[Path, typer.Option(help="The picture: .svg, .png or .pdf.")] = Path("gradients.svg"),
    length: Annotated[int, typer.Option(min=2, max=COUNTED, help="How many words back.")] = 64,
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
    from seqloom.reports.plots import gradient_flow
    from seqloom.reports.style import save
    from seqloom.runs.capabilities import HasGradients

    norms = {str(run): load_able(run, HasGradients, "cpu").gradient_norms(length, initial) for run in runs}
    save(gradient_flow(list(range(length)), norms), out)
    for run, values in norms.items():
        if json:
            print_json({"run": run, "norms": values})
        else:
            typer.echo(f"{run}: 1 word back {values[1]:.3g}, {length - 1} words back {values[-1]:.3g}")
    say(f"picture: {out}")


@app.command()
def ngrams(
    run: Run,
    source: Annotated[
        list[str] | None,
        typer.Option(help="Text to look up (repeatable); else data.test of the run, or its validation text."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The picture: .svg, .png or .pdf.")] = Path("ngrams.svg"),
    json: Json = False,
) -> None:
    """How sparse an n-gram model's counts are, and how much of another text is among them.

    For each order: the distinct n-grams of the training text, how many of them it holds only once, and the discounts.
    Then, for a held-out text, how many of its n-grams are in the model; and by the longest n-gram that the model has
    for a token, how many tokens there are and their perplexity.

    \b
    Examples:
      seqloom inspect ngrams runs/ngram --source test.txt
      seqloom inspect ngrams runs/ngram --out sparsity.png --json
    """
    from seqloom.reports.ngrams import ngram_picture, ngram_tables
    from seqloom.reports.style import save
    from seqloom.runs.capabilities import HasNgrams

    model = load_able(run, HasNgrams, "cpu")
    orders, coverage = model.orders(), model.coverage(source)
    save(ngram_picture(orders, coverage), out)
    if json:
        print_json({"run": str(run), "orders": orders, "text": _records(coverage)})
    else:
        from rich.console import Console

        for table in ngram_tables(orders, coverage):
            Console().print(table)
    say(f"picture: {out}")


@app.command()
def normaliser(
    run: Run,
    source: Annotated[
        list[str] | None,
        typer.Option(help="Text to read (repeatable); else data.test of the run, or what it held out."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The picture: .svg, .png or .pdf.")] = Path("normaliser.svg"),
    device: Device = "auto",
    json: Json = False,
) -> None:
    """How far Z(h), the sum of exp(score) over all words, is from 1 at the places of a text.

    Noise-contrastive estimation learns scores that are log-probabilities by themselves, so that one word can be scored
    without the others. This says how well it did; a plain softmax has no reason to.

    \b
    Examples:
      seqloom inspect normaliser runs/lstm
      seqloom inspect normaliser runs/lstm --source test.txt --json
    """
    import numpy as np

    from seqloom.reports.plots import normaliser_histogram
    from seqloom.reports.style import save
    from seqloom.runs.capabilities import HasNormaliser

    values = load_able(run, HasNormaliser, device).log_normalisers(source)
    save(normaliser_histogram(values), out)
    mean, deviation = float(values.mean()), float(values.std())
    low, high = np.quantile(values, [0.05, 0.95]).tolist()
    if json:
        figures = {"mean": mean, "deviation": deviation, "low": low, "high": high}
        print_json({"run": str(run), "places": len(values), **figures})
    else:
        typer.echo(f"log Z over {len(values):,} places: mean {mean:.3f}, deviation {deviation:.3f}")
        typer.echo(f"nine of ten lie between {low:.3f} and {high:.3f}; 0 is normalised")
    say(f"picture: {out}")


@app.command()
def gan(
    run: Run,
    source: Annotated[str | None, typer.Option(help="Real images to compare with; else held-out ones.")] = None,
    out: Annotated[Path, typer.Option(help="The picture: .svg, .png or .pdf.")] = Path("gan.svg"),
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Whether one player of an adversarial network has won, and whether the generator repeats itself.

    Saturation: what the discriminator thinks of real and drawn images, and the gradient that it leaves the generator
    under both losses. Collapse: how much of what is real is drawn, and how many samples are nearly the same. Copying:
    how many lie as near to a training image.

    \b
    Examples:
      seqloom inspect gan runs/gan
      seqloom inspect gan runs/gan --out players.png --json
    """
    from seqloom.reports.style import save
    from seqloom.runs.capabilities import HasPlayers

    scores, picture = load_able(run, HasPlayers, device).diagnose(source)
    save(picture, out)
    if json:
        print_json({"run": str(run), **scored_json(scores)})
    else:
        print_scores(scores)
    say(f"picture: {out}")


def _records(coverage: list[OrderCoverage]) -> list[dict[str, Any]]:
    """One for each order; JSON has neither infinity nor undefined numbers, so null stands for both."""
    from dataclasses import asdict
    from math import isfinite

    records = [asdict(order) | {"perplexity": order.perplexity} for order in coverage]
    return [{key: value if isfinite(value) else None for key, value in record.items()} for record in records]
