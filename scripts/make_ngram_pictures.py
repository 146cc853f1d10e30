"""Write the pictures of docs/ngrams.md into docs/images, from the plays that come with seqloom.

python scripts/make_ngram_pictures.py
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from seqloom.config import load_config
from seqloom.config.schema.ngram import NgramModelConfig
from seqloom.data.materials import prepare_text
from seqloom.models.ngram.counting import Counts, count
from seqloom.models.ngram.estimation import estimate
from seqloom.reports.ngrams import ngram_coverage, ngram_picture
from seqloom.reports.style import MUTED, save, scale_ticks, series, styled
from seqloom.text.special import BOS
from seqloom.text.zipf import zipf_exponent

IMAGES = Path(__file__).parent.parent / "docs" / "images"
ORDER = 5
MOST_POINTS = 400  # of one line; more cannot be seen


def main() -> None:
    """The plays as the page trains on them: words, the last tenth held out."""
    materials = prepare_text(load_config("ngram", ["data.train=shakespeare", "data.valid_fraction=0.1"]))
    counts = count(materials.train.tokens, ORDER, materials.tokenizer.size)
    save(ngram_zipf(counts), IMAGES / "ngram-zipf.svg")
    found = estimate(counts, NgramModelConfig(order=ORDER))  # the counts are used up
    orders = [asdict(figures) for figures in found.figures]
    save(ngram_picture(orders, ngram_coverage(found.model, materials.validation())), IMAGES / "ngrams.svg")
    for name in ("ngram-zipf.svg", "ngrams.svg"):
        print(IMAGES / name)


@styled()
def ngram_zipf(counts: Counts) -> Figure:
    """Count against rank of the n-grams of each order, both logarithmic, with the line fitted to single words."""
    figure = Figure(figsize=(7.6, 5.0))
    axes = figure.subplots()
    for order in range(1, counts.trie.order + 1):
        seen = counts.counts[counts.trie.level(order)].astype(np.int64)
        if order == 1:
            seen[BOS] = 0  # no word
        seen = np.sort(seen[seen > 0])[::-1]
        look = series(order - 1)
        if order == 1:
            fit = zipf_exponent(seen)
            ends = np.array([fit.ranks[0], fit.ranks[-1]], np.float64)
            name = f"count ∝ rank⁻ᵅ, α = {fit.exponent:.2f}"
            axes.plot(ends, fit.frequency(ends), color=MUTED, linestyle=(0, (4, 2)), linewidth=1.2, label=name)
        shown = np.unique(np.geomspace(1, len(seen), MOST_POINTS).round().astype(np.int64))
        axes.plot(
            shown,
            seen[shown - 1],
            color=look.color,
            marker=look.marker,
            markersize=4,
            markevery=0.1,
            linewidth=1.4,
            label=f"{order}-grams",
        )
    axes.set(xlabel="rank", ylabel="count")
    scale_ticks(axes, log_x=True, log_y=True)
    axes.legend(loc="upper right")
    return figure


if __name__ == "__main__":
    main()
