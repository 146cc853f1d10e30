"""What a browser makes of the pages on a telephone: nothing is cut off without a sign."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.reports.attention import AttentionMap, write_attention
from seqloom.reports.html import samples_section
from seqloom.reports.ladder import Ladder
from seqloom.reports.ladder_page import write_ladder_page
from seqloom.reports.run_report import outputs_section, training_section, write_run_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here")

LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 2
WIDTHS = (390, 1280)
# For each page: how wide it is, what is wider than it outside of a box that scrolls, and which boxes with something
# out of sight show no shadow at their edge.
MEASURE = """
const scrolls = e => ["auto", "scroll"].includes(e.ownerDocument.defaultView.getComputedStyle(e).overflowX);
const boxed = e => e.parentElement !== null && (scrolls(e.parentElement) || boxed(e.parentElement));
const say = e => e.tagName + "." + e.getAttribute("class") + ": " + e.textContent.slice(0, 40);
addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, all = [...page.body.querySelectorAll("*")];
    const hiding = all.filter(e => scrolls(e) && e.scrollWidth > e.clientWidth);
    return {
      name: frame.name,
      width: page.documentElement.scrollWidth,
      wider: all.filter(e => !boxed(e) && e.getBoundingClientRect().right > frame.clientWidth + 0.5).map(say),
      hiding: hiding.length,
      unsaid: hiding.filter(e => !getComputedStyle(e).backgroundImage.includes("gradient")).map(say),
    };
  });
  document.title = JSON.stringify(found);
});
"""


@pytest.fixture
def pages(ladder: Ladder, image_ladder: Ladder, entries: list[dict[str, float]], tmp_path: Path) -> dict[str, str]:
    """Pages of all kinds, with words that have no end."""
    long = replace(ladder.rungs[0], name=LONG[:40], description=LONG, samples=[LONG] * 3)
    command = f"seqloom compare {' '.join('abcdefgh' * 9)} --data {LONG}"
    spoilt = replace(
        ladder, title=LONG, facts={**ladder.facts, LONG: LONG}, rungs=[long, *ladder.rungs[1:]], command=command
    )
    write_ladder_page(spoilt, tmp_path / "ladder")
    write_ladder_page(
        replace(image_ladder, rungs=[replace(image_ladder.rungs[0], name=LONG[:40])]), tmp_path / "images"
    )
    configuration = f"description: {LONG} {LONG}\n"
    figures, commands = {LONG: 1.0}, [("Use it", f"seqloom generate {LONG}")]
    samples = [samples_section([LONG]), outputs_section([(LONG, LONG, LONG)])]
    write_run_report(tmp_path / "run", LONG, LONG, configuration, training_section(entries), figures, samples, commands)
    words = [LONG, *(f"word{number}" for number in range(60))]
    weights = np.full((len(words), len(words)), 1 / len(words))
    write_attention(tmp_path / "attention", [AttentionMap(words, words, weights)], LONG)
    opened = ("<details>", "<details open>")
    return {path.name: path.read_text(encoding="utf-8").replace(*opened) for path in tmp_path.iterdir()}


def measured(pages: dict[str, str], tmp_path: Path) -> list[dict[str, Any]]:
    look = "height:800px;border:0;width"
    frames = [
        f'<iframe name="{name} {width}" style="{look}:{width}px" srcdoc="{html.escape(page)}"></iframe>'
        for name, page in pages.items()
        for width in WIDTHS
    ]
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(f"<!doctype html><meta charset=utf-8><script>{MEASURE}</script>{''.join(frames)}", "utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        f"--user-data-dir={tmp_path / 'browser'}",
        "--dump-dom",
    ]
    done = subprocess.run([str(BROWSER), *options, wrapper.as_uri()], capture_output=True, text=True, timeout=120)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title, done.stderr[-2000:]
    found: list[dict[str, Any]] = json.loads(html.unescape(title[1]))
    return found


def test_nothing_is_wider_than_the_page_outside_of_a_box_that_scrolls_and_shows_it(
    pages: dict[str, str], tmp_path: Path
) -> None:
    found = measured(pages, tmp_path)
    assert len(found) == len(WIDTHS) * len(pages)
    for page in found:
        width = int(page["name"].split()[1])
        assert page["wider"] == [], page["name"]
        assert page["width"] == width, page["name"]
        assert page["unsaid"] == [], page["name"]
        assert page["hiding"] or width > 390, page["name"]
