"""Draw how data flows through the package into docs/images/data-flow.svg.

python scripts/make_architecture_picture.py
"""

from __future__ import annotations

from html import escape
from pathlib import Path

TARGET = Path(__file__).parent.parent / "docs" / "images" / "data-flow.svg"
INK, MUTED, SCIENCE, PLUMBING, DISK = "#1c2430", "#5b6573", "#dcebf5", "#fbe8d8", "#e4efe6"
WIDTH, HEIGHT = 118, 54

SCIENCE_ROW = [
    ("text/", "text → ids"),
    ("data/", "ids → batches"),
    ("nn/  models/", "layers → models"),
    ("training/", "models → fitted"),
    ("decoding/", "steps → sequences"),
    ("metrics/", "→ numbers"),
    ("reports/", "→ pages"),
]
KIND_ROW = ["prepare", "build", "stages", "trained", "report"]


def box(x: float, y: float, title: str, detail: str, fill: str, width: float = WIDTH) -> str:
    """A rounded box with a title and a line below it."""
    middle = x + width / 2
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" rx="7" fill="{fill}" stroke="{MUTED}"/>'
        f'<text x="{middle}" y="{y + 23}" text-anchor="middle" font-weight="600">{escape(title)}</text>'
        f'<text x="{middle}" y="{y + 41}" text-anchor="middle" font-size="11.5" fill="{MUTED}">{escape(detail)}</text>'
    )


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1} {y1} L{x2} {y2}" stroke="{MUTED}" fill="none" marker-end="url(#head)"/>'


def note(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="12.5" fill="{MUTED}">{escape(text)}</text>'


def main() -> None:
    parts = [note(20, 24, "The science: each folder serves every model, and imports only from those on its left.")]
    step = WIDTH + 14
    for place, (title, detail) in enumerate(SCIENCE_ROW):
        parts.append(box(20 + place * step, 36, title, detail, SCIENCE))
        if place:
            parts.append(arrow(20 + place * step - 14, 63, 20 + place * step - 2, 63))
    parts.append(
        note(20, 128, "The plumbing: one file under kinds/ says how these become a run; the engine in runs/ does it.")
    )
    parts.append(box(20, 140, "config", "preset, YAML, --set", PLUMBING))
    for place, name in enumerate(KIND_ROW):
        x = 20 + (place + 1) * step
        details = ["data, assets", "the model", "what is fitted", "what load gives", "what is shown"]
        parts.append(box(x, 140, f"Kind.{name}", details[place], PLUMBING))
        parts.append(arrow(x - 14, 167, x - 2, 167))
    parts.append(box(20 + 3 * step, 226, "a run folder", "config, assets, weights, log", DISK, 1.6 * WIDTH))
    parts.append(arrow(20 + 3 * step + WIDTH / 2, 194, 20 + 3 * step + WIDTH / 2, 224))
    parts.append(arrow(20 + 4 * step + WIDTH / 2, 224, 20 + 4 * step + WIDTH / 2, 196))
    parts.append(box(20 + 6 * step, 140, "capabilities", "verbs, ladder, server", PLUMBING))
    parts.append(arrow(20 + 6 * step - 14, 167, 20 + 6 * step - 2, 167))
    width = 20 + 7 * step + 6
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 296" width="{width}" '
        f'font-family="Helvetica Neue, Segoe UI, Roboto, Arial, sans-serif" font-size="13" fill="{INK}">'
        '<defs><marker id="head" markerWidth="9" markerHeight="9" refX="7" refY="4" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{MUTED}"/></marker></defs>'
        f'<rect width="{width}" height="296" fill="#ffffff"/>'
    )
    TARGET.write_text(head + "".join(parts) + "</svg>\n", encoding="utf-8")


if __name__ == "__main__":
    main()
