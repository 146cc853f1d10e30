"""What is said of an n-gram model's counts, against counting by hand and against KenLM."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqloom
from seqloom.config.schema.ngram import NgramModelConfig
from seqloom.data.store import TokenStore, Totals
from seqloom.interop.arpa import write_arpa
from seqloom.metrics.likelihood import unit_likelihood
from seqloom.models.ngram.counting import count
from seqloom.models.ngram.estimation import estimate
from seqloom.models.ngram.model import NgramModel
from seqloom.reports import ngrams as ngram_report
from seqloom.reports.ngrams import ngram_coverage, ngram_orders, ngram_picture, ngram_section, ngram_tables
from seqloom.reports.style import svg
from seqloom.text.special import BOS, EOS, UNK

SIZE = 9
Units = list[list[int]]

units_of_words = st.lists(st.lists(st.integers(4, SIZE - 1), max_size=6), min_size=1, max_size=10)
units_to_predict = st.lists(st.lists(st.sampled_from([UNK, 4, 5, 6, 7, 8]), max_size=6), min_size=1, max_size=10)


def store(units: Units) -> TokenStore:
    tokens = np.array([token for unit in units for token in [*unit, EOS]], np.uint16)
    return TokenStore(tokens, Totals(len(units), len(tokens), len(tokens), len(tokens), int((tokens == UNK).sum())))


def fitted(units: Units, **options: Any) -> NgramModel:
    config = NgramModelConfig(**options)
    return estimate(count(store(units).tokens, config.order, SIZE), config).model


def ngrams_of(units: Units, order: int) -> list[tuple[int, ...]]:
    """All n-grams that end in a token to predict."""
    read = [[BOS, *unit, EOS] for unit in units]
    found = [tuple(row[end - order : end]) for row in read for end in range(order, len(row) + 1)]
    return [ngram for ngram in found if ngram != (BOS,)]


TEXT = [[4, 5, 6, 4, 5], [4, 5, 7], [5, 6, 4, 4, 5, 6, 8], []] * 3
OTHER = [[4, 5, 6, 4, 4], [8, 8, UNK, 4, 5], [], [7]]


# ------------------------------------------------------------------------------------------------------------ coverage


@settings(max_examples=60, deadline=None)
@given(units_of_words, units_to_predict, st.integers(1, 5))
def test_coverage_is_what_a_search_by_hand_finds(training: Units, units: Units, order: int) -> None:
    coverage = ngram_coverage(fitted(training, order=order), store(units))
    seen = [set(ngrams_of(training, length)) for length in range(1, order + 1)]
    for length, row in enumerate(coverage, start=1):
        ngrams = ngrams_of(units, length)
        assert row.ngrams == len(ngrams)
        known = [ngram for ngram in ngrams if ngram in seen[length - 1]]
        assert row.found == (len(known) if length > 1 else sum(ngram != (UNK,) for ngram in ngrams))
    longest: Counter[int] = Counter()
    for unit in units:
        tokens = [BOS, *unit, EOS]
        for end in range(2, len(tokens) + 1):
            lengths = range(min(order, end), 1, -1)
            longest[next((n for n in lengths if tuple(tokens[end - n : end]) in seen[n - 1]), 1)] += 1
    assert [row.predicted for row in coverage] == [longest[length] for length in range(1, order + 1)]


@pytest.mark.parametrize("smoothing", ["modified-kneser-ney", "stupid-backoff"])
def test_the_orders_together_are_the_whole_text(smoothing: str) -> None:
    model = fitted(TEXT, order=3, smoothing=smoothing)
    coverage = ngram_coverage(model, store(OTHER))
    likelihood = unit_likelihood(model, store(OTHER))
    assert sum(row.predicted for row in coverage) == likelihood.tokens
    assert sum(row.log_prob for row in coverage) == pytest.approx(likelihood.log_prob, rel=1e-6)
    assert coverage[0].ngrams - coverage[0].found == likelihood.unknown == 1


def test_the_longest_ngrams_are_those_that_kenlm_finds(tmp_path: Path) -> None:
    kenlm = pytest.importorskip("kenlm", reason="comes with the extra `bench`")
    words = ["<unk>", "<pad>", "<s>", "</s>", "a", "b", "c", "d", "e"]
    model = fitted(TEXT, order=4)
    write_arpa(model, words, tmp_path / "model.arpa")
    peer = kenlm.Model(str(tmp_path / "model.arpa"))
    found = [row for unit in OTHER for row in peer.full_scores(" ".join("?" if w == UNK else words[w] for w in unit))]
    coverage = ngram_coverage(model, store(OTHER))
    for order, row in enumerate(coverage, start=1):
        scores = [log10 for log10, length, _ in found if length == order]
        assert row.predicted == len(scores)
        assert row.log_prob == pytest.approx(sum(scores) * math.log(10), abs=1e-4)


def test_a_text_is_looked_up_in_pieces_that_end_with_units(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(TEXT, order=3)
    whole = ngram_coverage(model, store(OTHER * 5))
    for piece in (1, 4, 7, 100):
        monkeypatch.setattr(ngram_report, "PIECE", piece)
        for row, expected in zip(ngram_coverage(model, store(OTHER * 5)), whole, strict=True):
            assert (row.ngrams, row.found, row.predicted) == (expected.ngrams, expected.found, expected.predicted)
            assert row.log_prob == pytest.approx(expected.log_prob)


def test_what_is_impossible_has_no_finite_perplexity_and_what_is_not_there_none() -> None:
    coverage = ngram_coverage(fitted(TEXT, order=2, smoothing="maximum-likelihood"), store([[8, 8]]))
    assert coverage[0].perplexity == math.inf
    assert coverage[1].perplexity < math.inf
    assert math.isnan(ngram_coverage(fitted(TEXT, order=3), store([[]]))[0].perplexity)


# -------------------------------------------------------------------------------------------------------- pages, plots

FIGURES = [
    {"ngrams": 50, "seen_once": 10, "discounts": [0.5, 1.0, 1.5], "fallback": True},
    {"ngrams": 400, "seen_once": 300, "discounts": [0.7, 1.1, 1.4], "fallback": False},
]


def bars(axes: Any) -> list[list[float]]:
    return [[bar.get_height() for bar in container] for container in axes.containers]


def test_the_bars_are_the_figures() -> None:
    coverage = ngram_coverage(fitted(TEXT, order=2), store(OTHER))
    sparsity, found, predicted = ngram_picture(FIGURES, coverage).axes
    assert bars(sparsity) == [[50, 400], [10, 300]]
    assert bars(found) == [pytest.approx([100 * row.found / row.ngrams for row in coverage])]
    assert sum(bars(predicted)[0]) == pytest.approx(100)
    assert len(ngram_picture(FIGURES).axes) == 1


@pytest.mark.parametrize("order", [1, 20])
def test_any_number_of_orders_can_be_drawn_even_those_that_no_line_reaches(order: int) -> None:
    model = fitted(TEXT, order=order)
    drawn = svg(ngram_picture(ngram_orders(model, []), ngram_coverage(model, store(OTHER))))
    assert "longest n-gram found" in drawn


def test_a_model_from_a_file_shows_how_many_ngrams_it_has() -> None:
    model = fitted(TEXT, order=3)
    orders = ngram_orders(model, [])
    assert [order["ngrams"] for order in orders] == model.trie.sizes()
    assert bars(ngram_picture(orders).axes[0]) == [model.trie.sizes()]
    assert len(ngram_tables(orders, [])[0].columns) == 2


def test_a_section_has_a_row_for_every_order_and_says_where_discounts_are_fixed() -> None:
    coverage = ngram_coverage(fitted(TEXT, order=2), store(OTHER))
    section = ngram_section(FIGURES, coverage)
    assert section.count("<table") == 2
    assert section.count("fixed discounts") == 1
    assert ">75.0<" in section  # 300 of 400
    assert ngram_section(FIGURES, []).count("<table") == 1


def test_discounts_that_a_method_does_not_have_are_not_shown() -> None:
    plain = [figures | {"discounts": [0.0, 0.0, 0.0], "fallback": False} for figures in FIGURES]
    assert "discount" not in ngram_section(plain, [])
    assert "discount" in ngram_section(FIGURES, [])


# ------------------------------------------------------------------------------------------------------------- reports


def test_the_report_of_a_counted_run_shows_ngrams_instead_of_a_curve(corpus_file: Path, tmp_path: Path) -> None:
    settings = [f"data.train={corpus_file}", "model.order=3"]
    page = {}
    for name, more in {"whole": [], "part": ["data.valid_fraction=0.2"]}.items():
        run = seqloom.train("ngram", [*settings, *more], tmp_path / name)
        page[name] = (run.path / "report.html").read_text(encoding="utf-8")
        assert "optimiser step" not in page[name]
        assert "Training text: distinct n-grams" in page[name]
    assert "Held-out text" in page["part"]
    assert "Held-out text" not in page["whole"]
