"""The comparison of models of images: bounds are marked, and samples stand side by side."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from outline import Outline
from rich.console import Console

from seqloom.cli.options import to_json
from seqloom.reports.ladder import Ladder
from seqloom.reports.ladder_numbers import ladder_json, ladder_table
from seqloom.reports.ladder_page import lead, write_ladder_page
from seqloom.reports.style import svg
from seqloom.reports.tradeoff import quality_against_cost


def page(ladder: Ladder, tmp_path: Path) -> str:
    write_ladder_page(ladder, tmp_path / "report.html")
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_bounds_are_marked_on_the_page_and_exact_figures_are_not(image_ladder: Ladder, tmp_path: Path):
    head, *rows = Outline(page(image_ladder, tmp_path)).tables[0]
    assert head[1] == "log pnats per image"
    assert [row[1] for row in rows] == ["-21.94", "-20.56", "≥ -22.30", "≥ -19.87"]


def test_columns_sort_by_numbers_whatever_stands_before_them(image_ladder: Ladder, tmp_path: Path):
    assert 'data-value="-22.3"' in page(image_ladder, tmp_path)


def test_bounds_are_marked_in_the_terminal_and_in_the_plot(image_ladder: Ladder):
    console = Console(file=io.StringIO(), width=80)
    console.print(ladder_table(image_ladder))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"dbn +≥ -22\.30 +97\.7k +240\.0 +2\.4k +950 +310", text)
    assert "≥: a lower bound" in text
    assert "vae, ≥ -19.87" in svg(quality_against_cost(image_ladder))


@pytest.mark.parametrize(
    ("names", "margin"),
    [
        (["rbm", "vae"], "≥ -19.87 nats per image after 1 min 2 s of training, at least 0.69 more than rbm (-20.56)"),
        (["mixture", "dbn"], "-21.94 nats per image after 0.40 s of training, at most 0.36 more than dbn (≥ -22.30)"),
        (["mixture", "rbm"], "-20.56 nats per image after 31 s of training, 1.4 more than mixture (-21.94)"),
    ],
)
def test_the_summary_says_of_bounds_only_what_they_allow(names: list[str], margin: str, image_ladder: Ladder):
    rungs = [rung for rung in image_ladder.rungs if rung.name in names]
    assert margin in lead(replace(image_ladder, rungs=rungs)).replace("\N{NO-BREAK SPACE}", " ")


def test_samples_stand_side_by_side_after_images_that_were_held_out(image_ladder: Ladder, tmp_path: Path):
    text = page(image_ladder, tmp_path)
    names = re.findall(r'<img alt="([^"]*)"', text)
    assert names == ["Held-out images", "mixture", "rbm", "dbn", "vae"]
    assert "<h2>What they draw</h2>" in text


def test_names_of_sheets_are_escaped(image_ladder: Ladder, tmp_path: Path):
    evil = '"><script>alert(1)</script>'
    rungs = [replace(image_ladder.rungs[0], name=evil), *image_ladder.rungs[1:]]
    assert "<script>alert" not in page(replace(image_ladder, rungs=rungs), tmp_path)


def test_json_counts_images_and_says_which_figures_are_bounds(image_ladder: Ladder):
    read = json.loads(to_json(ladder_json(image_ladder)))
    assert [rung["samples"] for rung in read["rungs"]] == [9] * 4
    assert [rung["bound"] for rung in read["rungs"]] == [False, False, True, True]
    assert (read["best"], read["rungs"][3]["log_prob"]) == ("vae", -19.871)


def test_the_next_command_draws(image_ladder: Ladder):
    assert image_ladder.next_command == "seqloom images sample runs/digits/vae"
