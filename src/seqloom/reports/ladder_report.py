"""The report of a comparison: which rung pays, in one page."""

from __future__ import annotations

import math
import shlex
from pathlib import Path

from seqloom.files import write_text
from seqloom.reports import html
from seqloom.reports.ladder import Ladder, RungResult
from seqloom.reports.ladder_numbers import ladder_columns
from seqloom.reports.numbers import MISSING, duration, significant
from seqloom.reports.plots import learning_curves
from seqloom.reports.style import svg
from seqloom.reports.tradeoff import quality_against_cost


def write_ladder_report(ladder: Ladder, path: Path) -> None:
    """Write the page to `path`, atomically."""
    parts = [
        html.element("p", summary(ladder), class_="lead"),
        _compared(ladder),
        html.section("The numbers", _table(ladder), *map(_paragraph, reading_notes(ladder))),
        html.section("Quality against cost", *_plots(ladder)),
    ]
    if any(rung.samples for rung in ladder.rungs):
        parts.append(html.section("What they write", _samples(ladder)))
    parts.append(html.section("Go on from here", _commands(ladder)))
    write_text(Path(path), html.page(ladder.title, *parts))


def summary(ladder: Ladder) -> str:
    """Who won, by how much, and what the cheapest rung would have cost."""
    best, *others = ladder.ranked()
    if not math.isfinite(best.perplexity):
        return "No model gives the validation text a probability above zero; smoothing would."
    score = f"perplexity {significant(best.perplexity)} after {duration(best.training_seconds)} of training"
    if not others:
        return f"{best.name} predicts the validation text with {score}."
    second = others[0]
    if not math.isfinite(second.perplexity):
        return f"{best.name} predicts the validation text best: {score}. No other model has a finite perplexity."
    lower = 1 - best.perplexity / second.perplexity
    text = (
        f"{best.name} predicts the validation text best: {score}, "
        f"{significant(100 * lower, 2)} % lower than {second.name} ({significant(second.perplexity)})."
    )
    cheapest = min(ladder.rungs, key=lambda rung: rung.training_seconds)
    if cheapest is not best and cheapest is not second and math.isfinite(cheapest.perplexity):
        text += (
            f" The quickest to train, {cheapest.name}, reaches {significant(cheapest.perplexity)} "
            f"in {duration(cheapest.training_seconds)}."
        )
    return text


def reading_notes(ladder: Ladder) -> list[str]:
    """How to read the table, and what the unknown tokens mean for it."""
    notes = [
        "Perplexity is how many equally likely choices the model is left with, on average, at each token: 1 is "
        "certainty, the size of the vocabulary is blind guessing, and lower is better. Perplexity per token can only "
        "be compared between models that share a tokeniser, as all models here do; perplexity per word and bits per "
        "character can also be compared with models that split the text otherwise."
    ]
    if ladder.unknown:
        share = significant(100 * ladder.unknown / max(1, ladder.validation_tokens), 2)
        notes.append(
            f"{ladder.unknown:,} of the {ladder.validation_tokens:,} validation tokens ({share} %) are not in the "
            "vocabulary. They count as <unk>, which is easier to predict than the words it hides, so perplexity "
            "flatters all models alike, and comparisons with other vocabularies do not hold."
        )
    else:
        notes.append("No token of the validation text is unknown: nothing hides behind <unk>.")
    return notes


def _paragraph(text: str) -> html.Markup:
    return html.element("p", text)


def _compared(ladder: Ladder) -> html.Markup:
    pairs = [
        ("Corpus", ladder.corpus),
        ("Tokens", f"{ladder.training_tokens:,} to train on, {ladder.validation_tokens:,} to validate"),
        ("Vocabulary", f"{ladder.vocabulary_size:,} ({ladder.tokenizer})"),
        ("Machine", ladder.machine),
    ]
    return html.facts((name, value) for name, value in pairs if value)


def _table(ladder: Ladder) -> html.Markup:
    names = [(rung.name, rung.description) for rung in ladder.rungs]
    return html.table("Model", names, ladder_columns(ladder))


def _plots(ladder: Ladder) -> list[html.Markup]:
    cost = svg(quality_against_cost(ladder), "Validation perplexity against seconds of training, one point per model")
    curves = svg(learning_curves(ladder), "Validation loss against tokens seen and against seconds of training")
    return [
        html.figure(
            cost,
            "Lower is better, further left is cheaper. The larger the marker, the more parameters. On the dashed line "
            "stand the models worth their time: no other is both quicker to train and better.",
        ),
        html.figure(
            curves,
            "Validation loss while training. A model that is counted rather than trained step by step is one point.",
        ),
    ]


def _samples(ladder: Ladder) -> html.Markup:
    length = max(len(ladder.prompts), *(len(rung.samples) for rung in ladder.rungs))
    prompts = [*ladder.prompts, *(f"Sample {number + 1}" for number in range(len(ladder.prompts), length))]
    rows = [
        (prompt or "(no prompt)", [_sample(rung, index) for rung in ladder.rungs])
        for index, prompt in enumerate(prompts)
    ]
    return html.side_by_side("Prompt", [rung.name for rung in ladder.rungs], rows)


def _sample(rung: RungResult, index: int) -> str:
    return rung.samples[index].strip() if index < len(rung.samples) else MISSING


def _commands(ladder: Ladder) -> html.Markup:
    folder = shlex.quote(ladder.best().folder)
    prompt = next((prompt for prompt in ladder.prompts if prompt), "Once upon a time")
    return html.commands(
        [
            ("Let the best model write", f"seqloom generate {folder} --prompt {shlex.quote(prompt)}"),
            ("Score lines of your own", f"seqloom score {folder} --input FILE"),
        ]
    )
