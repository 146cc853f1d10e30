"""Write the pictures of docs/ngrams.md into docs/images, from the plays that come with seqloom.

python scripts/make_ngram_pictures.py
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from seqloom.config import load_config
from seqloom.config.schema import NgramModelConfig
from seqloom.models.ngram import count, estimate
from seqloom.reports import ngram_coverage, ngram_picture, ngram_zipf, save
from seqloom.runs.materials import prepare

IMAGES = Path(__file__).parent.parent / "docs" / "images"
ORDER = 5


def main() -> None:
    """The plays as the page trains on them: words, the last tenth held out."""
    materials = prepare(load_config("ngram", ["data.train=shakespeare", "data.valid_fraction=0.1"]))
    counts = count(materials.train.tokens, ORDER, materials.tokenizer.size)
    save(ngram_zipf(counts), IMAGES / "ngram-zipf.svg")
    found = estimate(counts, NgramModelConfig(order=ORDER))  # the counts are used up
    orders = [asdict(figures) for figures in found.figures]
    save(ngram_picture(orders, ngram_coverage(found.model, materials.validation())), IMAGES / "ngrams.svg")
    for name in ("ngram-zipf.svg", "ngrams.svg"):
        print(IMAGES / name)


if __name__ == "__main__":
    main()
