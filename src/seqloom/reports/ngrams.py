"""What an n-gram model has seen: how sparse its counts are, and how much of another text is among them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from seqloom.reports import html
from seqloom.reports.columns import Column
from seqloom.reports.numbers import compact, significant
from seqloom.reports.style import MUTED, PALETTE, scale_ticks, styled, svg
from seqloom.text.special import BOS, UNK

if TYPE_CHECKING:  # the models load torch, and pictures of text need none of them
    from seqloom.data.store import TokenStore
    from seqloom.models.ngram.model import NgramModel

PIECE = 1 << 20  # tokens looked up at a time
FEW = 8  # orders that have room for numbers on their bars

Orders = Sequence[Mapping[str, Any]]
"""What training logged of each order in `metrics.jsonl`; of a model that was read from a file only `ngrams`."""


def ngram_orders(model: NgramModel, entries: Sequence[Mapping[str, Any]]) -> Orders:
    """The orders of a run's metrics, or their sizes where there are no metrics."""
    logged = [entry["orders"] for entry in entries if "orders" in entry]
    return logged[-1] if logged else [{"ngrams": size} for size in model.trie.sizes()]


# ------------------------------------------------------------------------------------------------------------ coverage


@dataclass(frozen=True)
class OrderCoverage:
    """The n-grams of one order in a text, looked up in a model. Each ends in a token to predict."""

    ngrams: int
    """How many the text has, `<bos>` and `<eos>` among their words."""
    found: int
    """How many of them are in the model. A single word is where it is known; in longer ones `<unk>` is a word."""
    predicted: int
    """How many tokens were predicted by an n-gram of this order: the longest in the model that ends in the token."""
    log_prob: float
    """Of those tokens, natural log."""

    @property
    def perplexity(self) -> float:
        """Of those tokens; not a number where there are none."""
        if not self.predicted:
            return math.nan
        cross_entropy = -self.log_prob / self.predicted
        return math.exp(cross_entropy) if cross_entropy < 700 else math.inf


def ngram_coverage(model: NgramModel, store: TokenStore) -> list[OrderCoverage]:
    """Look up the n-grams of all orders in a text, every unit from `<bos>` to `<eos>`."""
    from seqloom.metrics.likelihood import unit_pieces

    ngrams, in_model, predicted = np.zeros((3, model.order), np.int64)
    log_probs = np.zeros(model.order)
    for units, lengths in unit_pieces(store, PIECE):
        tokens = units.astype(np.int64)
        scores = model.unit_log_probs(tokens, lengths).astype(np.float64)
        contexts = np.concatenate([[BOS], tokens[:-1]])
        contexts[np.cumsum(lengths) - lengths] = BOS
        longest = np.ones(len(tokens), np.int64)
        ngrams[0] += len(tokens)
        in_model[0] += np.count_nonzero(tokens != UNK)
        for order in range(2, model.order + 1):
            nodes = model.trie.find(contexts, tokens)
            longest[nodes >= 0] = order
            ngrams[order - 1] += np.maximum(lengths + 2 - order, 0).sum()
            in_model[order - 1] += np.count_nonzero(nodes >= 0)
            # The n-gram found at one token is the context of the next; nothing goes on after <eos>, into the next unit.
            contexts = np.concatenate([[-1], nodes[:-1]])
        predicted += np.bincount(longest, minlength=model.order + 1)[1:]
        log_probs += np.bincount(longest, scores, model.order + 1)[1:]
    columns = (column.tolist() for column in (ngrams, in_model, predicted, log_probs))
    return [OrderCoverage(*row) for row in zip(*columns, strict=True)]


# -------------------------------------------------------------------------------------------------------------- tables


def order_columns(orders: Orders) -> list[Column]:
    """What was counted, one value per order in each column."""
    ngrams = [order["ngrams"] for order in orders]
    columns = [Column("n-grams", "distinct", ngrams, None, "n-grams", decimals=0)]
    if "seen_once" in orders[0]:
        once = [order["seen_once"] for order in orders]
        columns.append(Column("seen once", "", once, None, "seen\nonce", decimals=0))
        columns.append(Column("seen once", "%", list(map(_percent, once, ngrams)), None, "%", decimals=1))
        for number, name in enumerate(("1", "2", "3+")):
            discounts = [order["discounts"][number] for order in orders]
            if any(discounts):
                columns.append(Column("discount", f"of a count of {name}", discounts, None, f"D{name}", decimals=3))
    return columns


def coverage_columns(coverage: Sequence[OrderCoverage]) -> list[Column]:
    """What was found in a text, one value per order in each column."""
    ngrams, in_model = [order.ngrams for order in coverage], [order.found for order in coverage]
    predicted = [order.predicted for order in coverage]
    return [
        Column("n-grams", "of the text", ngrams, None, "n-grams", decimals=0),
        Column("in the model", "", in_model, None, "in the\nmodel", decimals=0),
        Column("in the model", "%", list(map(_percent, in_model, ngrams)), None, "%", decimals=1),
        Column("tokens", "predicted by it", predicted, None, "tokens\npredicted", decimals=0),
        Column("perplexity", "of those tokens", [order.perplexity for order in coverage], None, "perpl.", decimals=1),
    ]


def ngram_tables(orders: Orders, coverage: Sequence[OrderCoverage]) -> list[Table]:
    """The same for the terminal, each within 80 characters."""
    columns = {"training text": order_columns(orders)}
    if coverage:
        columns["held-out text"] = coverage_columns(coverage)
    return [_table(title, several) for title, several in columns.items()]


def _table(title: str, columns: Sequence[Column]) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold", pad_edge=False, box=None)
    table.add_column("order", justify="right")
    for column in columns:
        table.add_column(column.short, justify="right", no_wrap=True)
    rows = zip(*(column.texts() for column in columns), strict=True)
    for order, row in enumerate(rows, start=1):
        table.add_row(str(order), *row)
    return table


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else math.nan


def ngram_section(orders: Orders, coverage: Sequence[OrderCoverage]) -> html.Markup:
    """The part of a run's report that a neural model's training curve would have; `coverage` may be empty."""
    remarks = ["fixed discounts" if row.get("fallback") else "" for row in orders]
    names = [(f"{order}-grams", remark) for order, remark in enumerate(remarks, start=1)]
    parts = [
        html.table("Training text", names, order_columns(orders)),
        html.figure(svg(ngram_picture(orders, coverage), "N-grams by order"), _caption(bool(coverage))),
    ]
    if coverage:
        parts.insert(1, html.table("Held-out text", [(name, "") for name, _ in names], coverage_columns(coverage)))
    return html.section("N-grams", *parts)


def _caption(held_out: bool) -> str:
    text = "How many different n-grams of each order the training text holds, and which part of them only once."
    if held_out:
        text += (
            " In the middle: how many of the held-out text's n-grams are among them. On the right: the longest n-gram "
            "that the model has for each of its tokens, with the perplexity of the tokens that it predicts."
        )
    return text


# ------------------------------------------------------------------------------------------------------------ pictures


@styled()
def ngram_picture(orders: Orders, coverage: Sequence[OrderCoverage] = ()) -> Figure:
    """Distinct n-grams by order and how many were seen once; and of another text, how many of its n-grams are in the
    model, and how many of its tokens were predicted by an n-gram of each order."""
    figure = Figure(figsize=(11.6, 4.0) if coverage else (6.4, 4.0))
    panels = figure.subplots(1, 3 if coverage else 1, squeeze=False)[0]
    _sparsity(panels[0], orders)
    if coverage:
        found = [_percent(row.found, row.ngrams) for row in coverage]
        _bars(panels[1], "Held-out text: n-grams in the model", found, "% of the text's n-grams", _rounded(found))
        predicted = [_percent(row.predicted, coverage[0].ngrams) for row in coverage]
        perplexities = [compact(row.perplexity) if row.predicted else "" for row in coverage]
        title = "Held-out text: longest n-gram found"
        _bars(panels[2], title, predicted, "% of the tokens", perplexities, "their perplexity")
    for axes in panels:
        axes.set_xlabel("order")
        axes.grid(axis="x", visible=False)
        axes.margins(y=0.12)
        scale_ticks(axes)
        axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    return figure


def _sparsity(axes: Axes, orders: Orders) -> None:
    title, ngrams = "Training text: distinct n-grams", [row["ngrams"] for row in orders]
    if "seen_once" not in orders[0]:
        _bars(axes, title, ngrams, "n-grams", list(map(compact, ngrams)))
        return
    once = [row["seen_once"] for row in orders]
    _bars(axes, title, ngrams, "n-grams", _rounded(list(map(_percent, once, ngrams))), "% seen once")
    axes.bar(range(1, len(orders) + 1), once, color=PALETTE[1], width=0.7)
    axes.legend(axes.containers[::-1], ["seen once", "seen more often"], loc="upper left")
    axes.set_ylim(0, 1.35 * max(ngrams))  # room for the legend


def _rounded(values: Sequence[float]) -> list[str]:
    return [significant(value, 2) for value in values]


def _bars(axes: Axes, title: str, values: Sequence[float], unit: str, texts: Sequence[str], above: str = "") -> None:
    """One bar per order; where there is room, a text above each, which are `above` if not the values themselves."""
    axes.set_title(title)
    bars = axes.bar(range(1, len(values) + 1), values, color=PALETTE[0], width=0.7)
    axes.set_ylabel(unit)
    if len(values) <= FEW:
        axes.bar_label(bars, texts, padding=2, fontsize=10, color=MUTED)
        axes.set_ylabel(f"{unit} (above: {above})" if above else unit)
