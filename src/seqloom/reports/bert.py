"""What a masked language model puts into blanks."""

from __future__ import annotations

from collections.abc import Sequence

from seqloom.reports import html


def blanks_section(rows: Sequence[tuple[str, str, str]]) -> html.Markup:
    """Texts with blanks, what stood in each, and what the model would put there."""
    table = html.side_by_side("Text", ["Hidden", "Likeliest"], [(text, texts) for text, *texts in rows])
    return html.section("What it puts into blanks", html.element("p", "Held-out texts, some tokens hidden."), table)
