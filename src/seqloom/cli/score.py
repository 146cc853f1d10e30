"""`seqloom score`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from seqloom.cli.options import Device, Image, Input, Json, Run, load_reader, print_json, read_batches, read_images

if TYPE_CHECKING:
    from seqloom.runs.trained import HasDensity, Scores


def score(
    run: Run,
    input: Input = "-",
    image: Image = [],  # noqa: B006 - typer reads the default, nobody changes it
    device: Device = "auto",
    json: Json = False,
) -> None:
    """The log-probability of each line of a file, then totals and perplexity; or of each image, then the mean.

    Natural logarithms; each line is scored by itself and its end counts as a token. A model of pairs takes lines of
    source, tab, target, and scores the target. Plain output has the columns log-probability, tokens, unknown tokens,
    text.

    Of images it is in nats, a density where pixels are grey. Plain output has the columns log-probability, image; after
    them stands how it was computed, and whether it is a lower bound.

    \b
    Examples:
      seqloom score runs/lstm --input test.txt
      echo "The Time Traveller smiled ." | seqloom score runs/lstm --json
      seqloom score runs/translate-en-zh --input pairs.tsv
      seqloom score runs/vae --image scan.png --image more-scans/
      seqloom score runs/rbm --image digits --json
    """
    from seqloom.runs.trained import HasDensity, Scores

    model = load_reader(run, Scores, HasDensity, input, image, device)
    if isinstance(model, HasDensity):
        _score_images(model, image, json)
    else:
        _score_lines(model, input, json)


def _score_images(model: HasDensity, image: list[str], json: bool) -> None:
    named = read_images(model, image)
    scores = model.log_prob(named.images).tolist()
    for name, log_prob in zip(named.names, scores, strict=True):
        if json:
            print_json({"log_prob": log_prob})
        else:
            typer.echo(f"{log_prob:.4f}\t{name}")
    total, count = sum(scores), len(scores)
    if json:
        figures = {"total_log_prob": total, "images": count, "mean": total / count}
        print_json(figures | {"bound": model.bound, "method": model.method, "signature": model.signature})
    else:
        typer.echo(f"total\t{total:.4f}\nimages\t{count}\nmean\t{total / count:.4f}")
        typer.echo(f"bound\t{'a lower bound' if model.bound else 'no'}\nmethod\t{model.method}; {model.signature}")


def _score_lines(model: Scores, input: str, json: bool) -> None:
    from seqloom.runs.generation import Score

    if model.estimate:
        typer.echo(f"log-probabilities by {model.estimate}", err=True)
    total = Score(0.0, 0, 0, 0.0)
    read = 0
    for batch in read_batches(input, 1024):
        for text, score in zip(batch, model.score_lines(batch, input, read + 1), strict=True):
            total = total.plus(score)
            if json:
                print_json({"log_prob": score.log_prob, "tokens": score.tokens, "unknown": score.unknown})
            else:
                typer.echo(f"{score.log_prob:.4f}\t{score.tokens}\t{score.unknown}\t{text}")
        read += len(batch)
    likelihood = Score.together([total])
    perplexities = (likelihood.perplexity, likelihood.known_perplexity) if total.tokens else (None, None)
    if json:
        counts = {"total_log_prob": total.log_prob, "tokens": total.tokens, "unknown": total.unknown}
        print_json(counts | dict(zip(("perplexity", "known_perplexity"), perplexities, strict=True)))
    else:
        typer.echo(f"total\t{total.log_prob:.4f}\ntokens\t{total.tokens}\nunknown\t{total.unknown}")
        for name, value in zip(("perplexity", "known perplexity"), perplexities, strict=True):
            typer.echo(f"{name}\t" + (f"{value:.4f}" if value is not None else "none (no text)"))
