"""The page of a comparison: which rung pays."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import numpy as np

from seqloom.files import write_text
from seqloom.metrics.seeds import LEVEL
from seqloom.reports import html
from seqloom.reports.ladder import PASSES, SECONDS, SEEN, Ladder, Rung, Samples, listed
from seqloom.reports.minimal_pairs import knowledge_section
from seqloom.reports.numbers import MISSING, compact, duration, rounded, significant
from seqloom.reports.pictures import inline_sheet
from seqloom.reports.plots import learning_curves
from seqloom.reports.style import svg
from seqloom.reports.tradeoff import quality_against_cost
from seqloom.training.places import REPORT
from seqloom.version import __version__


def write_ladder_page(ladder: Ladder, path: Path) -> None:
    """Write the page to `path`, atomically. Rungs whose run has a page of its own lead there."""
    names = [_name(rung, Path(path).parent) for rung in ladder.rungs]
    facts = [(name, text) for name, text in {**ladder.facts, **_terms(ladder)}.items() if text]
    notes = [html.element("p", note) for note in [*seeds_notes(ladder), *ladder.notes]]
    parts = [
        html.lead(lead(ladder)),
        html.facts(facts),
        html.facts([("Command", html.code(ladder.command))], class_="commands") if ladder.command else html.Markup(),
        html.section("The numbers", html.table("Model", names, ladder.columns()), *notes),
        html.section("Quality against cost", *_plots(ladder)),
        knowledge_section(ladder),
        _samples(ladder),
    ]
    folder = ladder.best().folder
    parts.append(html.commands((command.what, command.line(folder)) for command in ladder.commands))
    write_text(Path(path), html.page(ladder.title, *parts))


def _name(rung: Rung, folder: Path) -> tuple[str, str]:
    """A rung's name and description; each of its seeds has a page of its own."""
    if not rung.runs:
        return _linked(rung.name, rung, folder), rung.description
    seeds = [_linked(str(run.seed), run, folder) for run in rung.runs]
    return rung.name, html.join([rung.description, " · seeds ", *(part for seed in seeds for part in (seed, " "))])


def _linked(text: str, rung: Rung, folder: Path) -> str:
    """Text that leads to the page of a run, if it has one; the two folders may be moved together."""
    page = Path(rung.folder) / REPORT
    return html.link(text, quote(Path(os.path.relpath(page, folder)).as_posix())) if page.is_file() else text


def _terms(ladder: Ladder) -> dict[str, str]:
    """On what terms the models met, and when."""
    runs = [run for rung in ladder.rungs for run in rung.runs or [rung]]
    seen, passes = ({rung.name: compact(rounded(rung.values[key])) for rung in ladder.rungs} for key in (SEEN, PASSES))
    now = datetime.now(UTC)
    return {
        f"Budget, {ladder.unit}s": _grouped(seen),
        f"Passes over the {ladder.data}": _grouped(passes),
        "Seeds": ", ".join(map(str, sorted({run.seed for run in runs}))),
        "Made": f"by seqloom {__version__} on {now.day} {now:%B %Y, %H:%M} UTC",
    }


def _grouped(values: Mapping[str, str]) -> str:
    """What each name has: once where all have the same, else with those that have it."""
    having: dict[str, list[str]] = {}
    for name, value in values.items():
        having.setdefault(value, []).append(name)
    if len(having) == 1:
        return f"{next(iter(having))} each" if len(values) > 1 else next(iter(having))
    return "; ".join(f"{value}: {', '.join(names)}" for value, names in having.items())


def lead(ladder: Ladder) -> str:
    """What to mind; who won, by how much, and what the cheapest rung would have cost."""
    return f"{ladder.shortfall()} {_winner(ladder)}".lstrip()


def _winner(ladder: Ladder) -> str:
    yardstick = ladder.yardstick
    finite = [rung for rung in ladder.ranked() if math.isfinite(ladder.value(rung))]
    if not finite:
        return yardstick.failed
    best, *others = finite
    level = [rung for rung in finite if ladder.value(rung) == ladder.value(best)]
    if len(level) > 1:
        return f"{listed([rung.name for rung in level])} come out level: {yardstick.score.format(ladder.shown(best))}."
    score = yardstick.score.format(ladder.shown(best)) + _after(best)
    if len(ladder.rungs) == 1:
        return f"{best.name} {yardstick.alone} {score}."
    text = f"{best.name} {yardstick.wins}: {score}"
    if not others:
        return f"{text}. No other model has a finite {yardstick.name}."
    second = others[0]
    text += f", {_margin(ladder, best, second)} than {second.name} ({ladder.shown(second)})."
    timed = [rung for rung in finite if math.isfinite(rung.values[SECONDS])]
    cheapest = min(timed, key=lambda rung: rung.values[SECONDS], default=best)
    if cheapest is not best and cheapest is not second:
        text += (
            f" The quickest to train, {cheapest.name}, reaches {ladder.shown(cheapest)} "
            f"in {duration(cheapest.values[SECONDS])}."
        )
    return text + _luck(ladder)


def _luck(ladder: Ladder) -> str:
    """Whether the best is really better, as far as seeds can tell."""
    alike = [rung.name for rung in ladder.alike()]
    if alike:
        return f" It cannot be told apart from {listed(alike)}: such a difference may be chance between seeds."
    all_tested = len(ladder.chances) == len(ladder.rungs) - 1
    return " Its lead is larger than chance between seeds." if ladder.seeds > 1 and all_tested else ""


def seeds_notes(ladder: Ladder) -> list[str]:
    """What ± and ≈ stand for, and what is not known."""
    if ladder.seeds == 1:
        return []
    notes = [
        f"Models were trained with {ladder.seeds} seeds: shown are means ± standard deviations of the sample (n − 1), "
        f"and the samples of the first seed. {ladder.best().name} is the best by its mean; ≈ marks those that cannot "
        "be told apart from it, whose difference from it chance between seeds would make as large in at least "
        f"{100 * LEVEL:.0f} % of cases (Welch's t-test, each by itself)."
    ]
    fixed = [rung.name for rung in ladder.rungs if rung.deterministic]
    if fixed:
        notes.append(f"Without chance, the same under every seed and trained once: {listed(fixed)}.")
    single = [rung.name for rung in ladder.rungs if not rung.runs and not rung.deterministic]
    if single:
        notes.append(f"Of one run only, so that nobody knows how lucky it was: {listed(single)}.")
    return notes


def _after(rung: Rung) -> str:
    seconds = rung.values[SECONDS]
    return f" after {duration(seconds)} of training" if math.isfinite(seconds) else ""


def _margin(ladder: Ladder, best: Rung, second: Rung) -> str:
    """By how much one is better than another; of bounds, what they allow to say."""
    first, then = ladder.value(best), ladder.value(second)
    if ladder.yardstick.logarithmic:
        return f"{significant(100 * abs(1 - first / then), 2)} % {ladder.yardstick.measure.better}"
    limit = {(True, False): "at least ", (False, True): "at most "}.get((best.bound, second.bound), "")
    more = "less" if ladder.yardstick.measure.better == "lower" else "more"
    return f"{limit}{significant(abs(first - then), 2)} {more}"


def _plots(ladder: Ladder) -> list[html.Markup]:
    axis, better = ladder.yardstick.axis, ladder.yardstick.measure.better or ""
    cost = svg(quality_against_cost(ladder), f"{axis} against seconds of training and against parameters")
    curves = svg(learning_curves(ladder), f"Validation loss against {ladder.unit}s and against seconds of training")
    points = [len(rung.curve) for rung in ladder.rungs]
    at_once = " A model that is counted rather than trained step by step is one point." if 1 in points else ""
    several = ladder.seeds > 1
    bars = " Bars are one standard deviation over the seeds to each side." if several else ""
    seeds = " Thin lines are single seeds, the others their mean." if several else ""
    return [
        html.figure(
            cost,
            f"{better.capitalize()} is better, further left is cheaper. The larger the marker, the more parameters. On "
            "the dashed lines stand the models worth their cost: no other is both cheaper and better." + bars,
        ),
        html.figure(curves, "Validation loss while training." + at_once + seeds),
    ]


def _samples(ladder: Ladder) -> html.Markup:
    """What the rungs make, beside each other."""
    made: list[tuple[str, Samples]] = [ladder.reference] if ladder.reference else []
    made += [(rung.name, rung.samples) for rung in ladder.rungs]
    sheets = [inline_sheet(samples, name) for name, samples in made if isinstance(samples, np.ndarray)]
    if sheets:
        return html.section("What they draw", html.element("div", *sheets, class_="sheets"))
    texts = [(name, list(map(str, samples))) for name, samples in made]
    if not any(several for _, several in texts):
        return html.Markup()
    length = max(len(ladder.rows), *(len(several) for _, several in texts))
    begins = [*ladder.rows, *(f"Sample {number + 1}" for number in range(len(ladder.rows), length))]
    rows = [(begin or "(no prompt)", [_text(several, row) for _, several in texts]) for row, begin in enumerate(begins)]
    return html.section("What they write", html.side_by_side(ladder.row_title, [name for name, _ in texts], rows))


def _text(texts: list[str], row: int) -> str:
    return texts[row].strip() if row < len(texts) else MISSING
