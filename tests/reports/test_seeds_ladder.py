"""A ladder whose models were trained with several seeds: means, deviations, and what cannot be told apart."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from outline import Outline
from rich.console import Console
from scipy import stats

from seqloom.cli.options import to_json
from seqloom.reports.columns import Column
from seqloom.reports.ladder import CurvePoint, Ladder, Rung
from seqloom.reports.ladder_numbers import ladder_json, ladder_table
from seqloom.reports.ladder_page import lead, seeds_notes, write_ladder_page
from seqloom.reports.plots import learning_curves
from seqloom.reports.tradeoff import quality_against_cost

LOSSES = {  # of three seeds; the n-gram models have no chance in them
    "Feed-forward": (5.214, 5.220, 5.209),
    "LSTM": (4.874, 4.892, 4.851),
    "GRU": (4.861, 4.842, 4.880),
    "Transformer": (4.802, 4.870, 4.836),
}


def read(rung: Rung, seed: int, loss: float) -> Rung:
    values = {**rung.values, "cross_entropy": loss, "perplexity": math.exp(loss)}
    values["training_seconds"] *= 1 + 0.1 * seed
    curve = [CurvePoint(point.tokens, point.seconds + seed, point.loss + 0.01 * seed) for point in rung.curve]
    return replace(rung, folder=f"{rung.folder}-{seed}", values=values, curve=curve, samples=[f"seed {seed}"])


@pytest.fixture
def seeded(ladder: Ladder) -> Ladder:
    rungs = [
        Rung.joined([read(rung, seed, loss) for seed, loss in enumerate(LOSSES[rung.name])])
        if rung.name in LOSSES
        else replace(rung, deterministic=True)
        for rung in ladder.rungs
    ]
    return replace(ladder, rungs=rungs)


def printed(ladder: Ladder) -> str:
    console = Console(file=io.StringIO(), width=80, color_system=None, legacy_windows=False)
    console.print(ladder_table(ladder))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_rung_of_several_seeds_has_their_means_and_the_first_ones_folder_and_samples(seeded: Ladder):
    lstm = seeded.rungs[3]
    perplexities = np.exp(LOSSES["LSTM"])
    assert lstm.values["perplexity"] == pytest.approx(perplexities.mean())
    assert lstm.deviation("perplexity") == pytest.approx(perplexities.std(ddof=1))
    assert lstm.deviation("parameters") == 0
    assert lstm.values["parameters"] == lstm.runs[1].values["parameters"]
    assert (lstm.folder, lstm.samples) == (lstm.runs[0].folder, ["seed 0"])
    assert [point.loss for point in lstm.curve] == pytest.approx([point.loss for point in lstm.runs[1].curve])
    assert lstm.curve[0].seconds == pytest.approx(lstm.runs[1].curve[0].seconds)


def test_a_curve_that_stopped_early_ends_the_mean_curve(ladder: Ladder):
    first, second = read(ladder.rungs[3], 0, 4.9), read(ladder.rungs[3], 1, 4.8)
    joined = Rung.joined([first, replace(second, curve=second.curve[:5])])
    assert [point.tokens for point in joined.curve] == [point.tokens for point in first.curve[:5]]


def test_one_run_is_a_rung_as_it_is(ladder: Ladder):
    assert Rung.joined(ladder.rungs[3:4]) is ladder.rungs[3]


def test_what_cannot_be_told_apart_is_what_welchs_test_leaves_open(seeded: Ladder):
    best = np.exp(LOSSES["Transformer"])
    expected = {
        name: stats.ttest_ind(best, np.exp(losses), equal_var=False).pvalue
        for name, losses in LOSSES.items()
        if name != "Transformer"
    }
    for name in ("3-gram Laplace", "5-gram Kneser-Ney"):
        value = next(rung for rung in seeded.rungs if rung.name == name).values["perplexity"]
        expected[name] = stats.ttest_1samp(best, value).pvalue
    assert dict(seeded.chances) == pytest.approx(expected)
    assert {name for name, p in expected.items() if p >= 0.05} == {"GRU", "LSTM"}  # or the rest shows nothing
    assert [rung.name for rung in seeded.alike()] == ["GRU", "LSTM"]


def test_the_summary_names_those_who_cannot_be_told_from_the_winner(seeded: Ladder):
    text = lead(seeded)
    assert text.startswith("Transformer predicts the validation text best: perplexity 126\N{NO-BREAK SPACE}±")
    assert "It cannot be told apart from GRU and LSTM: such a difference may be chance between seeds." in text
    apart = replace(seeded, rungs=[*seeded.rungs[:3], seeded.rungs[5]])
    assert lead(apart).endswith("Its lead is larger than chance between seeds.")


def test_the_page_shows_deviations_marks_and_the_criterion(seeded: Ladder, tmp_path: Path):
    write_ladder_page(seeded, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text("utf-8")
    cells = Outline(text).tables[0][1:]
    rows = {rung.name: row for rung, row in zip(seeded.rungs, cells, strict=True)}
    assert rows["GRU"][1] == f"≈ {np.exp(LOSSES['GRU']).mean():.0f}±{np.exp(LOSSES['GRU']).std(ddof=1):.0f}"
    assert rows["Transformer"][1] == "126±4"
    assert rows["5-gram Kneser-Ney"][1] == "168"
    assert rows["GRU"][4] == "1,188,864"  # a column where nothing varies
    assert rows["GRU"][5].startswith("112.1±")
    assert "(Welch&#x27;s t-test, each by itself)" in text
    assert "trained once: 3-gram Laplace and 5-gram Kneser-Ney." in text
    assert "Bars are one standard deviation" in text


def test_with_one_seed_nothing_is_said(ladder: Ladder):
    cells = [cell for column in ladder.columns() for cell in (*column.texts(), *column.spreads())]
    for text in (lead(ladder), printed(ladder), *cells):
        assert not re.search("±|≈|seed|chance", text)
    assert not seeds_notes(ladder)
    assert not ladder.chances
    assert ladder_json(ladder)["seeds"] == 1


def test_of_one_run_beside_seeds_it_is_said_that_nobody_knows(seeded: Ladder, ladder: Ladder):
    mixed = replace(seeded, rungs=[*seeded.rungs[:4], ladder.rungs[4], seeded.rungs[5]])
    assert "GRU" not in mixed.chances
    assert "Of one run only, so that nobody knows how lucky it was: GRU." in seeds_notes(mixed)
    assert "cannot be told apart from LSTM:" in lead(mixed)
    winner = replace(seeded, rungs=[*seeded.rungs[:5], ladder.rungs[5]])
    assert winner.best().name == "Transformer"
    assert not winner.chances
    assert "seeds" not in lead(winner)


def test_the_terminal_has_deviations_below_the_numbers_and_80_characters(seeded: Ladder):
    lines = printed(seeded).splitlines()
    assert "…" not in "".join(lines)
    row = next(index for index, line in enumerate(lines) if line.startswith("LSTM"))
    assert lines[row].split()[1:3] == ["≈", "131"]
    assert lines[row + 1].split()[0] == "±3"
    assert lines[row].index("131") + 3 == lines[row + 1].index("±3") + 2  # in one column
    assert lines[-1].strip() == "±: standard deviation over 3 seeds; ≈: not to be told from Transformer"


def test_json_has_deviations_and_every_run(seeded: Ladder):
    found = json.loads(to_json(ladder_json(seeded)))
    assert (found["seeds"], found["best"], found["alike"]) == (3, "Transformer", ["GRU", "LSTM"])
    ngram, lstm, best = (found["rungs"][index] for index in (1, 3, 5))
    assert lstm["perplexity"] == pytest.approx(np.exp(LOSSES["LSTM"]).mean())
    assert lstm["deviations"]["perplexity"] == pytest.approx(np.exp(LOSSES["LSTM"]).std(ddof=1))
    assert [run["cross_entropy"] for run in lstm["runs"]] == list(LOSSES["LSTM"])
    assert lstm["p"] == seeded.chances["LSTM"]
    assert best["p"] is None
    assert (ngram["deterministic"], ngram["deviations"], ngram["runs"]) == (True, {}, [])


def test_the_plot_has_a_bar_of_one_deviation_to_each_side(seeded: Ladder):
    by_time, by_size = quality_against_cost(seeded).axes
    for axes, crossing in ((by_time, True), (by_size, False)):
        assert len(axes.containers) == len(LOSSES)
        for rung, container in zip(seeded.rungs[2:], axes.containers, strict=True):
            *across, upright = container.lines[2]
            (_, low), (_, high) = upright.get_segments()[0]
            deviation = rung.deviation("perplexity")
            assert (high - low, (high + low) / 2) == pytest.approx((2 * deviation, rung.values["perplexity"]))
            assert bool(across) is crossing
            assert axes.get_ylim()[0] < low < high < axes.get_ylim()[1]


def test_a_deviation_larger_than_its_mean_can_be_drawn(seeded: Ladder):
    wild = Rung.joined([read(seeded.rungs[3], seed, loss) for seed, loss in enumerate((1.0, 1.0, 9.0))])
    figure = quality_against_cost(replace(seeded, rungs=[*seeded.rungs[:3], wild]))
    assert all(0 < limit < math.inf for limit in figure.axes[0].get_ylim())


def test_each_seed_is_a_thin_line_below_the_mean(seeded: Ladder):
    for axes in learning_curves(seeded).axes:
        thin = [line for line in axes.get_lines() if line.get_linewidth() < 1]
        assert len(thin) == 3 * len(LOSSES)
        assert len(axes.get_lines()) - len(thin) >= len(seeded.rungs)


@pytest.mark.parametrize(
    ("values", "deviations", "shown"),
    [
        ([61.5, 445.0], [0.44, 3.2], ["±0.4", "±3.2"]),
        ([1.35, 1.39], [0.0021, None], ["±0.002", ""]),
        ([1.35, 1.39], [0.00098, 0.0], ["±0.001", "±0.00"]),
        ([1188864, 712363], [0.0, 0.0], ["", ""]),
        ([10.0, 20.0], [0.0, 1.0], ["±0.0", "±1.0"]),
        ([10.0, 20.0], [], ["", ""]),
    ],
)
def test_deviations_are_as_exact_as_their_numbers_or_as_one_digit_needs(values, deviations, shown):
    assert Column("", "", values, deviations=deviations).spreads() == shown
