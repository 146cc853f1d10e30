from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.optimize import minimize

from seqloom.reports.labels import EndLabel, label_ends, spread
from seqloom.reports.style import series, styled

positions = st.lists(st.floats(0, 1), max_size=12)


@given(positions)
def test_spread_labels_are_apart_in_order_and_inside(values: list[float]):
    gap = 0.05
    moved = spread(values, gap, 0.0, 1.0)
    order = np.argsort(values, kind="stable")
    assert (np.diff(moved[order]) >= gap - 1e-9).all()
    assert ((moved >= -1e-9) & (moved <= 1 + 1e-9)).all()


@given(st.permutations([0.0, 0.2, 0.5, 0.9]))
def test_labels_that_are_apart_stay_where_they_are(values: list[float]):
    assert spread(values, 0.1, 0.0, 1.0) == pytest.approx(values)


@pytest.mark.parametrize("values", [[0.5, 0.5, 0.52], [0.0, 0.01, 0.3, 0.31, 0.97, 0.99]])
def test_labels_move_as_little_as_a_general_optimiser_finds_possible(values: list[float]):
    gap = 0.1
    start = np.linspace(0, 1, len(values))
    constraints = [{"type": "ineq", "fun": lambda x: np.diff(x) - gap}]
    found = minimize(
        lambda x: ((x - values) ** 2).sum(), start, bounds=[(0, 1)] * len(values), constraints=constraints, tol=1e-12
    )
    assert spread(values, gap, 0.0, 1.0) == pytest.approx(found.x, abs=1e-4)


def test_a_gap_that_does_not_fit_shrinks():
    assert spread([0.5] * 5, 1.0, 0.0, 1.0) == pytest.approx([0, 0.25, 0.5, 0.75, 1])


def boxes_of_texts(figure: Figure) -> list:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (axes,) = figure.axes
    return [text.get_window_extent(canvas.get_renderer()) for text in axes.texts]


def overlaps(boxes: list) -> bool:
    return any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


@styled()
def test_names_of_lines_that_end_together_do_not_overlap_and_are_not_cut_off():
    figure = Figure(figsize=(6, 3))
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1])
    label_ends(figure, axes, [EndLabel(0.5, f"model number {index}", series(index)) for index in range(6)])
    boxes = boxes_of_texts(figure)
    assert not overlaps(boxes)
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
