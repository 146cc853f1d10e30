"""What a model with codes behind sentences has to show."""

from __future__ import annotations

from collections.abc import Sequence

from seqloom.reports import html


def codes_section(
    samples: Sequence[str],
    reconstructions: Sequence[tuple[str, str]],
    paths: Sequence[tuple[str, str, Sequence[str]]],
) -> html.Markup:
    """Sentences of codes from the prior; sentences with what comes back from their codes; the ways from one sentence to
    another, each with what was decoded on it."""
    parts = [html.samples_section(samples, "Codes drawn from the prior")]
    if reconstructions:
        rows = [(sentence, [back]) for sentence, back in reconstructions]
        parts.append(html.section("What comes back", html.side_by_side("Sentence", ["From its code"], rows)))
    for first, second, path in paths:
        steps = len(path) - 1
        rows = [(f"{step} / {steps}", [text]) for step, text in enumerate(path)]
        table = html.side_by_side("Way", ["Sentence"], rows)
        parts.append(html.section(f"From “{first}” to “{second}”", table))
    return html.join(parts)
