"""`seqloom score`"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seqloom.cli.options import Device, Image, Input, Json, Run, load_reader, read_batches, read_images, to_json
from seqloom.progress import say

if TYPE_CHECKING:
    from seqloom.runs.capabilities import HasDensity, Scores
    from seqloom.runs.scores import Score, TokenScore

BASES = {"e": 1.0, "2": math.log(2), "10": math.log(10)}


def score(
    run: Run,
    input: Input = "-",
    image: Image = [],  # noqa: B006 - typer reads the default, nobody changes it
    tokens: Annotated[bool, typer.Option("--tokens", help="Texts: after each line its tokens, one by one.")] = False,
    base: Annotated[Literal["e", "2", "10"], typer.Option(help="Of the logarithms.")] = "e",
    total: Annotated[
        bool | None, typer.Option("--total/--no-total", help="Only the totals, or only the lines; else both.")
    ] = None,
    bos: Annotated[
        bool, typer.Option("--bos/--no-bos", help="N-grams: whether a line is known to begin with its first token.")
    ] = True,
    eos: Annotated[bool, typer.Option("--eos/--no-eos", help="Texts: whether the end of a line counts.")] = True,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """The log-probability of each line of a file, then totals and perplexity; or of each image, then the mean.

    Natural logarithms, unless --base says otherwise; each line is scored by itself and its end counts as a token. A
    model of pairs takes lines of source, tab, target, and scores the target. Plain output has the columns
    log-probability, tokens, unknown tokens, text. Lines of stdin are answered as they come.

    With --tokens, a line is followed by its tokens: an empty column, log-probability, order, 1 if unknown or 0, token.
    The order is that of the longest n-gram that an n-gram model has found; other models show a dash.

    Images have a density where pixels are grey. Plain output has the columns log-probability, image; after them stands
    how it was computed, and whether it is a lower bound.

    \b
    Examples:
      seqloom score runs/lstm --input test.txt
      echo "The Time Traveller smiled ." | seqloom score runs/lstm --json
      seqloom score runs/ngram --input test.txt --tokens --base 10
      seqloom score runs/lstm --input test.txt --total
      seqloom score runs/translate-en-zh --input pairs.tsv
      seqloom score runs/vae --image scan.png --image more-scans/
      seqloom score runs/rbm --image digits --json
    """
    from seqloom.errors import UserError
    from seqloom.runs.capabilities import HasDensity, Scores

    model = load_reader(run, Scores, HasDensity, input, image, device)
    form = Form(json, BASES[base], lines=total is not True, totals=total is not False)
    if not isinstance(model, HasDensity):
        _score_lines(model, input, form, tokens, bos, eos)
    elif tokens or not (bos and eos):
        raise UserError(f"{run} is a model of images: --tokens, --no-bos and --no-eos are for texts")
    else:
        _score_images(model, image, form)


@dataclass(frozen=True)
class Form:
    """What is written, and how."""

    json: bool
    unit: float
    """One of the logarithms' units, in nats."""
    lines: bool
    totals: bool

    def write(self, rows: Iterable[tuple[Any, ...]], records: Iterable[dict[str, Any]]) -> None:
        """Lines of columns, or objects; at once, for somebody may wait for them."""
        text = map(to_json, records) if self.json else ("\t".join(map(_shown, row)) for row in rows)
        sys.stdout.write("".join(line + "\n" for line in text))
        sys.stdout.flush()


def _shown(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _score_images(model: HasDensity, image: list[str], form: Form) -> None:
    named = read_images(model, image)
    scores = (model.log_prob(named.images) / form.unit).tolist()
    if form.lines:
        form.write(zip(scores, named.names, strict=True), ({"log_prob": log_prob} for log_prob in scores))
    if form.totals:
        total, count = sum(scores), len(scores)
        figures = {"total": total, "images": count, "mean": total / count}
        said = {"bound": "a lower bound" if model.bound else "no", "method": f"{model.method}; {model.signature}"}
        record = {"total_log_prob": total, "images": count, "mean": total / count, "bound": model.bound}
        form.write((figures | said).items(), [record | {"method": model.method, "signature": model.signature}])


def _score_lines(model: Scores, input: str, form: Form, tokens: bool, bos: bool, eos: bool) -> None:
    from seqloom.runs.scores import Score

    total = Score(0.0, 0, 0, 0.0)
    read = 0
    for batch in read_batches(input, 1024):
        asked = (batch, input, read + 1, bos, eos)
        each = model.token_lines(*asked) if tokens else None
        scores = model.score_lines(*asked) if each is None else [Score.of(line) for line in each]
        if model.estimate and not read:
            say(f"log-probabilities by {model.estimate}")
        for score in scores:
            total = total.plus(score)
        if form.lines:
            form.write(_rows(batch, scores, each, form.unit), _records(scores, each, form.unit))
        read += len(batch)
    if form.totals:
        _write_total(total, form)


def _rows(
    texts: list[str], scores: list[Score], each: list[list[TokenScore]] | None, unit: float
) -> Iterator[tuple[Any, ...]]:
    """The columns of each line, and of each token below it."""
    for number, (text, score) in enumerate(zip(texts, scores, strict=True)):
        yield score.log_prob / unit, score.tokens, score.unknown, text
        for token in each[number] if each else ():
            order = "-" if token.order is None else token.order
            written = token.text.replace("\n", "\\n").replace("\t", "\\t")
            yield "", token.log_prob / unit, order, int(token.unknown), written


def _records(scores: list[Score], each: list[list[TokenScore]] | None, unit: float) -> Iterator[dict[str, Any]]:
    """The object of each line, its tokens inside."""
    for number, score in enumerate(scores):
        record: dict[str, Any] = {"log_prob": score.log_prob / unit, "tokens": score.tokens, "unknown": score.unknown}
        if each:
            parts = [token._asdict() | {"log_prob": token.log_prob / unit} for token in each[number]]
            record |= {"token_scores": parts}
        yield record


def _write_total(total: Score, form: Form) -> None:
    likelihood = total.together([total])
    none = None if form.json else "none (no text)"
    figures = {
        "total_log_prob" if form.json else "total": total.log_prob / form.unit,
        "tokens": total.tokens,
        "unknown": total.unknown,
        "perplexity": likelihood.perplexity if total.tokens else none,
        "known_perplexity": likelihood.known_perplexity if total.tokens else none,
    }
    form.write(((name.replace("_", " "), value) for name, value in figures.items()), [figures])
