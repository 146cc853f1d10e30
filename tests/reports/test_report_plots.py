from __future__ import annotations

import math
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.graphs import random_graph
from seqloom.errors import SeqloomError, UserError
from seqloom.models.energy.search import anneal, max_cut
from seqloom.reports.ladder import CurvePoint, Ladder
from seqloom.reports.plots import cut_figure, gradient_flow, learning_curves, zipf
from seqloom.reports.style import MARKERS, PALETTE, round_numbers, save, scale_ticks, series, svg
from seqloom.reports.tradeoff import Point, pareto_front, quality_against_cost
from seqloom.text.statistics import CorpusStatistics

TEXTS = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog met on the mat"] * 4


def infinite(rung):
    return replace(rung, values={**rung.values, "perplexity": math.inf}, curve=[])


def undefined(rung):
    return replace(rung, values={**rung.values, "perplexity": math.nan}, curve=[CurvePoint(10, 1.0, math.nan)])


@pytest.mark.parametrize("plot", [learning_curves, quality_against_cost])
def test_every_rung_is_named_in_the_plot(plot, ladder: Ladder):
    drawn = svg(plot(ladder))
    for rung in ladder.rungs:
        assert rung.name in drawn


def test_curves_are_drawn_through_the_validations(ladder: Ladder):
    by_tokens, by_time = learning_curves(ladder).axes
    for rung, line, timed in zip(ladder.rungs, by_tokens.get_lines(), by_time.get_lines(), strict=False):
        assert list(line.get_xdata()) == [point.tokens for point in rung.curve]
        assert list(timed.get_xdata()) == pytest.approx([point.seconds for point in rung.curve])
        assert list(line.get_ydata()) == list(timed.get_ydata()) == [point.loss for point in rung.curve]


@pytest.mark.parametrize("plot", [learning_curves, quality_against_cost])
@pytest.mark.parametrize("spoil", [infinite, undefined])
def test_rungs_without_a_finite_perplexity_do_not_spoil_the_plot(plot, spoil, ladder: Ladder):
    some = replace(ladder, rungs=[spoil(ladder.rungs[0]), *ladder.rungs[1:]])
    assert "Transformer" in svg(plot(some))
    none = replace(ladder, rungs=[spoil(rung) for rung in ladder.rungs])
    assert "Nothing to show" in svg(plot(none))


def test_a_rung_of_infinite_perplexity_stands_at_the_upper_edge(ladder: Ladder):
    for axes in quality_against_cost(replace(ladder, rungs=[infinite(ladder.rungs[0]), *ladder.rungs[1:]])).axes:
        _, infinite_point, *others = axes.get_lines()[: 1 + len(ladder.rungs)]
        top = axes.get_ylim()[1]
        assert infinite_point.get_ydata()[0] == top
        assert all(point.get_ydata()[0] < top for point in others)


@pytest.mark.parametrize("plot", [learning_curves, quality_against_cost])
@pytest.mark.parametrize("seconds", [0.0, math.nan])
def test_one_rung_with_one_validation_in_no_time_can_be_drawn(plot, seconds: float, ladder: Ladder, change):
    rung = change(ladder.rungs[0], training_seconds=seconds, parameters=0)
    rung = replace(rung, curve=[CurvePoint(100, 0.0, 5.0)])
    assert rung.name in svg(plot(replace(ladder, rungs=[rung])))


def beats(one: Point, other: Point, better: str) -> bool:
    return one.quality < other.quality if better == "lower" else one.quality > other.quality


@pytest.mark.parametrize("better", ["lower", "higher"])
@given(points=st.lists(st.builds(Point, st.integers(1, 6), st.integers(1, 6), st.just(1)), min_size=1, unique=True))
def test_the_front_holds_exactly_the_points_that_no_other_dominates(better, points: list[Point]):
    undominated = [
        point
        for point in points
        if not any(other.cost <= point.cost and beats(other, point, better) for other in points)
        and not any(other.cost < point.cost and other.quality == point.quality for other in points)
    ]
    assert pareto_front(points, better) == sorted(undominated)


def test_the_front_of_the_ladder_is_drawn_as_stairs(ladder: Ladder):
    front = quality_against_cost(ladder).axes[0].get_lines()[0]
    names = ["3-gram Laplace", "5-gram Kneser-Ney", "GRU", "Transformer"]
    on_front = [rung.values for rung in ladder.rungs if rung.name in names]
    assert front.get_drawstyle() == "steps-post"
    assert list(front.get_xdata())[:-1] == [values["training_seconds"] for values in on_front]
    assert list(front.get_ydata()) == [values["perplexity"] for values in (*on_front, on_front[-1])]


def test_a_run_of_unknown_cost_is_only_left_out_of_the_front_by_time(ladder: Ladder, change):
    rungs = [*ladder.rungs[:5], change(ladder.rungs[5], training_seconds=math.nan)]
    by_time, by_size = quality_against_cost(replace(ladder, rungs=rungs)).axes
    best = ladder.rungs[5].values["perplexity"]
    assert best not in by_time.get_lines()[0].get_ydata()
    assert best in by_size.get_lines()[0].get_ydata()


def test_quality_is_drawn_against_time_and_against_size(pair_ladder: Ladder):
    by_time, by_size = quality_against_cost(pair_ladder).axes
    for rung, timed, sized in zip(pair_ladder.rungs, by_time.get_lines()[1:], by_size.get_lines()[1:], strict=False):
        values = rung.values
        assert (timed.get_xdata()[0], timed.get_ydata()[0]) == (values["training_seconds"], values["beam_bleu"])
        assert (sized.get_xdata()[0], sized.get_ydata()[0]) == (values["parameters"], values["beam_bleu"])
    assert by_time.get_ylabel() == "BLEU, beam 5"
    drawn = svg(quality_against_cost(pair_ladder))
    for name in ("rnn, 15.6", "bidirectional, 17.0", "additive, 31.4", "convolution, 31.9", "transformer, 36.9"):
        assert name in drawn


def test_a_rung_without_a_bleu_stands_below_the_others(pair_ladder: Ladder, change):
    rungs = [change(pair_ladder.rungs[0], beam_bleu=math.nan), *pair_ladder.rungs[1:]]
    figure = quality_against_cost(replace(pair_ladder, rungs=rungs))
    for axes in figure.axes:
        _, failed, *others = axes.get_lines()[: 1 + len(rungs)]
        assert all(failed.get_ydata()[0] < point.get_ydata()[0] for point in others)
    assert "rnn, BLEU not finite" in svg(figure)
    none = [change(rung, beam_bleu=math.nan) for rung in rungs]
    assert "no rung has a finite BLEU" in svg(quality_against_cost(replace(pair_ladder, rungs=none)))


@pytest.mark.parametrize(
    ("name", "unit"), [("ladder", "token"), ("pair_ladder", "target token"), ("image_ladder", "image")]
)
def test_curves_are_of_what_the_models_learn_from(name: str, unit: str, request: pytest.FixtureRequest):
    by_unit, _ = learning_curves(request.getfixturevalue(name)).axes
    assert by_unit.get_xlabel() == f"{unit}s seen"
    assert by_unit.get_ylabel() == f"validation loss, nats per {unit}"


def test_the_zipf_plot_shows_the_counts_and_the_fitted_exponents():
    statistics = CorpusStatistics.of(TEXTS)
    (axes,) = zipf(statistics).axes
    fitted, counted = axes.get_lines()[:2]
    frequencies = np.asarray(counted.get_ydata())
    assert frequencies[0] == statistics.top_words(1)[0][1]
    x, y = np.log(fitted.get_xdata()), np.log(fitted.get_ydata())
    assert -(y[1] - y[0]) / (x[1] - x[0]) == pytest.approx(statistics.zipf(1).exponent)
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    for order, text in enumerate(legend, start=1):
        assert f"α = {statistics.zipf(order).exponent:.2f}" in text
    assert len(legend) == 3


def test_a_corpus_of_one_word_has_a_zipf_plot_without_a_line():
    (axes,) = zipf(CorpusStatistics.of(["word"])).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["words"]


def test_a_long_corpus_draws_few_points():
    statistics = CorpusStatistics.of([" ".join(f"w{number}" for number in range(5000))])
    (axes,) = zipf(statistics).axes
    assert max(len(line.get_xdata()) for line in axes.get_lines()) <= 400


def test_gradients_are_drawn_on_a_logarithmic_scale_one_line_per_run():
    distances = list(range(10))
    norms = {"vanishing": [0.5**n for n in distances], "exploding": [2.0**n for n in distances], "dead": [0.0] * 10}
    figure = gradient_flow(distances, norms)
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    assert list(axes.get_lines()[0].get_ydata()) == norms["vanishing"]
    drawn = svg(figure)
    assert "vanishing" in drawn
    assert "exploding" in drawn


def test_an_svg_is_xml_that_refers_to_nothing_outside(ladder: Ladder):
    drawn = svg(learning_curves(ladder), 'a "label" <with> markup')
    ElementTree.fromstring(drawn)
    without_names = re.sub(r' xmlns(:\w+)?="[^"]*"', "", drawn)
    assert "http" not in without_names
    assert 'aria-label="a &quot;label&quot; &lt;with&gt; markup"' in drawn
    assert not re.search(r'<g id="', drawn)


def test_an_svg_takes_its_colours_from_the_page_and_keeps_text_as_text(ladder: Ladder):
    drawn = svg(quality_against_cost(ladder))
    assert "var(--ink, #1c2430)" in drawn
    assert "var(--series-0, #0072b2)" in drawn
    assert re.search(r"<text[^>]*>seconds of training</text>", drawn)


def test_the_same_plot_gives_the_same_svg(ladder: Ladder):
    assert svg(learning_curves(ladder)) == svg(learning_curves(ladder))


def test_chinese_is_drawn_without_warnings_and_named_fonts_have_its_glyphs(ladder: Ladder, tmp_path: Path):
    rung = replace(ladder.rungs[0], name="三元模型")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = learning_curves(replace(ladder, rungs=[rung]))
        drawn = svg(figure)
        save(figure, tmp_path / "plot.png")
    assert "三元模型" in drawn
    assert "Noto Sans CJK SC" in drawn


@pytest.mark.parametrize(
    ("name", "start"),
    [("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml"), ("plot.pdf", b"%PDF"), ("PLOT.PNG", b"\x89PNG")],
)
def test_the_suffix_chooses_the_kind_of_file(name: str, start: bytes, ladder: Ladder, tmp_path: Path):
    save(learning_curves(ladder), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_unknown_suffix_is_refused_with_those_that_are_known(ladder: Ladder, tmp_path: Path):
    with pytest.raises(UserError, match=r"plot\.jpg.*\.png, \.svg, \.pdf"):
        save(learning_curves(ladder), tmp_path / "plot.jpg")


def test_a_failed_write_leaves_the_old_file(ladder: Ladder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "plot.svg"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(SeqloomError, match="disk full"):
        save(learning_curves(ladder), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_plotting_leaves_matplotlib_as_it_was(ladder: Ladder):
    before = dict(matplotlib.rcParams)
    svg(learning_curves(ladder))
    assert dict(matplotlib.rcParams) == before


def test_plotting_does_without_pyplot():
    program = (
        "import sys, pkgutil, importlib, seqloom.reports as reports;"
        "names = [f'seqloom.reports.{module.name}' for module in pkgutil.iter_modules(reports.__path__)];"
        "list(map(importlib.import_module, names));"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_heat_maps_and_tables_do_not_wait_for_matplotlib():
    program = (
        "import sys; from seqloom.reports import attention, ladder_numbers;"
        "assert not {'matplotlib', 'torch'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_lines_are_told_apart_without_colour():
    looks = [series(index) for index in range(2 * len(PALETTE))]
    assert len(set(looks)) == len(looks)
    assert len({look.marker for look in looks[: len(MARKERS)]}) == len(MARKERS)


@pytest.mark.parametrize("limits", [(60, 400), (0.3, 900), (1e-10, 1e5), (1, 1e30), (2, 6)])
def test_ticks_of_a_logarithmic_axis_are_few_and_inside(limits: tuple[float, float]):
    ticks = round_numbers(*limits)
    assert 2 <= len(ticks) <= 8
    assert limits[0] <= min(ticks) <= max(ticks) <= limits[1]


def test_a_cut_is_drawn_with_every_edge_and_both_sides_apart() -> None:
    graph = random_graph(30, 70)
    found = anneal(max_cut(graph), chains=3, sweeps=20)
    figure = cut_figure(graph, found.best, -found.trace)
    drawn, grown = figure.axes
    cut, kept = (len(each.get_segments()) for each in drawn.collections[:2])
    assert (cut, kept) == (graph.cut(found.best), 70 - graph.cut(found.best))
    left, right = (each.get_offsets() for each in drawn.collections[2:])
    assert left[:, 0].max() < 0 < right[:, 0].min()
    assert len({tuple(place) for place in (*left.tolist(), *right.tolist())}) == 30  # none hides another
    best = grown.lines[-1].get_ydata()
    assert best[-1] == -found.trace.min()
    assert (best[1:] >= best[:-1]).all()


def test_a_graph_whose_nodes_all_stand_on_one_side_is_drawn_too() -> None:
    graph = random_graph(4, 3)
    assert len(cut_figure(graph, np.zeros(4, np.int8), np.zeros((1, 1))).axes) == 2


@pytest.mark.parametrize(("low", "high"), [(2.742, 2.753), (0, 1), (0, 12_000), (99_990, 100_010), (-1e-9, 3e-9)])
def test_no_two_ticks_of_an_axis_read_the_same_and_each_reads_as_it_is(low: float, high: float):
    axes = matplotlib.figure.Figure().subplots()
    axes.set_ylim(low, high)
    scale_ticks(axes)
    ticks = axes.get_yticks()
    labels = axes.yaxis.get_major_formatter().format_ticks(ticks)
    assert len(set(labels)) == len(labels)
    for tick, label in zip(ticks, labels, strict=True):
        number = label.replace("·10", "e").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")).replace("k", "e3")
        assert float(number.replace("10-", "1e-")) == pytest.approx(tick, abs=(ticks[1] - ticks[0]) / 100)
