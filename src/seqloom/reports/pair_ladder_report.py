"""The report of a comparison of models of pairs: which rung pays, in one page."""

from __future__ import annotations

import math
import shlex
from pathlib import Path

from seqloom.files import write_text
from seqloom.reports import html
from seqloom.reports.numbers import MISSING, duration, significant
from seqloom.reports.pair_ladder import PairLadder, PairRung
from seqloom.reports.pair_ladder_numbers import pair_ladder_columns
from seqloom.reports.plots import learning_curves
from seqloom.reports.style import svg
from seqloom.reports.tradeoff import bleu_against_cost


def write_pair_ladder_report(ladder: PairLadder, path: Path) -> None:
    """Write the page to `path`, atomically."""
    names = [(rung.name, rung.description) for rung in ladder.rungs]
    numbers = html.table("Model", names, pair_ladder_columns(ladder))
    parts = [
        html.element("p", pair_summary(ladder), class_="lead"),
        _compared(ladder),
        html.section("The numbers", numbers, *_reading_notes(ladder)),
        html.section("Quality against cost", *_plots(ladder)),
    ]
    if ladder.examples:
        parts.append(html.section("What they write", _examples(ladder)))
    parts.append(html.section("Go on from here", _commands(ladder)))
    write_text(Path(path), html.page(ladder.title, *parts))


def pair_summary(ladder: PairLadder) -> str:
    """Who won, by how much, and what the cheapest rung would have cost."""
    best, *others = ladder.ranked()
    if math.isnan(best.beam_bleu):
        return "No model wrote anything that could be compared with the references."
    text = (
        f"{best.name} comes closest to the references: BLEU {significant(best.beam_bleu)} with beam {ladder.beam} "
        f"after {duration(best.training_seconds)} of training"
    )
    others = [rung for rung in others if not math.isnan(rung.beam_bleu)]
    if not others:
        return text + "."
    second = others[0]
    more = best.beam_bleu - second.beam_bleu
    text += f", {significant(more, 2)} more than {second.name} ({significant(second.beam_bleu)})."
    cheapest = min([best, *others], key=lambda rung: rung.training_seconds)
    if cheapest is not best and cheapest is not second:
        text += (
            f" The quickest to train, {cheapest.name}, reaches {significant(cheapest.beam_bleu)} "
            f"in {duration(cheapest.training_seconds)}."
        )
    return text


def _compared(ladder: PairLadder) -> html.Markup:
    pairs = [
        ("Corpus", ladder.corpus),
        ("Pairs", f"{ladder.training_pairs:,} to train on, {ladder.validation_pairs:,} to validate"),
        ("Vocabulary", f"{ladder.vocabulary_size:,} ({ladder.tokenizer})"),
        ("Machine", ladder.machine),
    ]
    return html.facts((name, value) for name, value in pairs if value)


def _reading_notes(ladder: PairLadder) -> list[html.Markup]:
    return [
        html.element(
            "p",
            "BLEU is how much of what a model writes stands in the reference too, in stretches of one to four words, "
            "and chrF the same for stretches of characters; both go from 0 to 100, and higher is better. Greedy "
            f"decoding takes the likeliest word at each step; beam search keeps the {ladder.beam} likeliest beginnings "
            "and is slower. Perplexity is how many equally likely choices a model is left with at each token of the "
            "reference, on average; lower is better.",
        ),
        html.element(
            "p",
            "BLEU is sacreBLEU's, and can be compared with that of others under the same signature: ",
            html.code(ladder.signature),
        ),
    ]


def _plots(ladder: PairLadder) -> list[html.Markup]:
    cost = svg(bleu_against_cost(ladder), "BLEU against seconds of training and against parameters")
    curves = svg(learning_curves(ladder), "Validation loss against tokens seen and against seconds of training")
    return [
        html.figure(
            cost,
            "Higher is better, further left is cheaper. The larger the marker, the more parameters. On the dashed "
            "lines stand the models worth their cost: no other is both cheaper and better.",
        ),
        html.figure(curves, "Validation loss while training; the tokens are those of the target."),
    ]


def _examples(ladder: PairLadder) -> html.Markup:
    rows = [
        (source, [reference, *(_output(rung, index) for rung in ladder.rungs)])
        for index, (source, reference) in enumerate(ladder.examples)
    ]
    return html.side_by_side("Source", ["Reference", *(rung.name for rung in ladder.rungs)], rows)


def _output(rung: PairRung, index: int) -> str:
    return rung.outputs[index].strip() if index < len(rung.outputs) else MISSING


def _commands(ladder: PairLadder) -> html.Markup:
    folder = shlex.quote(ladder.best().folder)
    return html.commands(
        [
            (
                "Give the best model sources of your own, one a line",
                f"seqloom generate {folder} --input FILE --strategy beam --beam {ladder.beam}",
            ),
            ("Measure it on pairs of your own", f"seqloom evaluate {folder} --source FILE --reference FILE"),
        ]
    )
