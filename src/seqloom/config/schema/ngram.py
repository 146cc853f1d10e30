"""N-gram models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import Count, ModelPart, Positive, Share
from seqloom.config.schema.data import TextData


class NgramModelConfig(ModelPart):
    learns_from = TextData

    kind: Literal["ngram"] = "ngram"
    """Counts of n-grams, smoothed."""
    order: Annotated[int, Field(ge=1, le=32)] = 5
    """N: a word is predicted from the N - 1 before it."""
    smoothing: Literal[
        "modified-kneser-ney",
        "kneser-ney",
        "absolute",
        "laplace",
        "additive",
        "maximum-likelihood",
        "stupid-backoff",
        "imported",
    ] = "modified-kneser-ney"
    """`modified-kneser-ney` (Chen & Goodman 1998) exactly as KenLM computes it; `kneser-ney`, interpolated, with one
    discount per order; `absolute` discounting of plain counts; `laplace`: (c + ε p(lower order)) / (c(h) + ε);
    `additive`: (c + δ) / (c(h) + δ|V|); `maximum-likelihood`: c / c(h), nothing for what was not seen;
    `stupid-backoff` (Brants et al. 2007): scores, not probabilities, for very large corpora. `imported` marks a model
    read from a file."""
    prune: list[Count] = []  # noqa: RUF012 - pydantic copies it
    """Drop n-grams seen no more often than this, per order from 1; the last number holds for higher orders. Numbers
    may not fall, and unigrams all stay: `[0, 0, 1]` drops what has three words or more and was seen once."""
    delta: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """additive: δ, added to every count."""
    epsilon: Positive | list[Positive] = 1.0
    """laplace: ε, how many counts the lower order weighs; one for all orders, or a list from order 1."""
    discounts: list[Share] | None = None
    """absolute and kneser-ney: fixed discounts from order 1, the last one for all higher orders; estimated from the
    counts of counts when not given."""
    backoff: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.4
    """stupid-backoff: the factor for each word of context given up."""

    def check_keys(self) -> None:
        if self.prune[:1] not in ([], [0]):
            raise ValueError(f"prune begins with 0: unigrams are never dropped (write {[0, *self.prune]}?)")
        if sorted(self.prune) != self.prune:
            raise ValueError(f"the numbers of prune may not fall: {self.prune}")
        if self.discounts is not None and not self.discounts:
            raise ValueError("discounts is empty: give one at least, or leave it out")
