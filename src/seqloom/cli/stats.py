"""`seqloom stats`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seqloom.cli.options import COUNTED, Json, print_json
from seqloom.progress import say

if TYPE_CHECKING:
    from seqloom.text.statistics import CorpusStatistics

ORDERS = {1: "unigrams", 2: "bigrams", 3: "trigrams"}


def stats(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A text file or the name of a bundled corpus.")],
    unit: Annotated[
        Literal["auto", "line", "paragraph", "file"], typer.Option(help="What counts as one text.")
    ] = "auto",
    field: Annotated[str, typer.Option(help="The key of the text in JSONL records.")] = "text",
    top: Annotated[int, typer.Option(min=1, max=COUNTED, help="How many of the most frequent to list.")] = 10,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Count The and the together.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw rank against frequency into this .svg, .png or .pdf.")] = None,
    json: Json = False,
) -> None:
    """Count words, stop words and n-grams, and fit Zipf's law.

    \b
    Examples:
      seqloom stats my.txt --plot zipf.svg
      seqloom stats time-machine --lowercase --json
    """
    from seqloom.data.corpus import Corpus
    from seqloom.text.statistics import CorpusStatistics

    corpus = Corpus.open(file, unit, field)
    if unit == "auto" and corpus.remark:
        say(corpus.remark.replace("data.unit=", "--unit "))
    found = CorpusStatistics.of(corpus, lowercase=lowercase)
    if plot:
        from seqloom.reports.plots import zipf
        from seqloom.reports.style import save

        save(zipf(found), plot)  # first: if it cannot be drawn, nothing is written
    if json:
        print_json(_figures(found, top))
    else:
        _show(_figures(found, top))
    if plot:
        say(f"picture: {plot}")


def _figures(found: CorpusStatistics, top: int) -> dict[str, Any]:
    fits = {name: found.zipf(order) for order, name in ORDERS.items()}
    return {
        "units": found.units,
        "words": found.words,
        "characters": found.characters,
        "distinct_words": found.distinct_words,
        "top_words": found.top_words(top),
        "top_words_without_stop_words": found.top_words(top, stop_words=False),
        "top_bigrams": [(" ".join(gram), count) for gram, count in found.top_ngrams(2, top)],
        "top_trigrams": [(" ".join(gram), count) for gram, count in found.top_ngrams(3, top)],
        "zipf_exponents": {name: fit.exponent for name, fit in fits.items()},
        "zipf_r_squared": {name: fit.r_squared for name, fit in fits.items()},
    }


def _show(figures: dict[str, Any]) -> None:
    for name, value in figures.items():
        title = name.replace("_", " ")
        if isinstance(value, list):
            typer.echo(f"{title:30} " + ", ".join(f"{word} {count:,}" for word, count in value))
        elif isinstance(value, dict):
            typer.echo(f"{title:30} " + ", ".join(f"{key} {number:.3f}" for key, number in value.items()))
        else:
            typer.echo(f"{title:30} {value:,}")
