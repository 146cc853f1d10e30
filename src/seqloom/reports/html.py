"""Pages in one file: style, pictures and the one small script are inside, and nothing is fetched from anywhere."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from string import Template

from seqloom.reports.columns import Column

# What neither XML nor UTF-8 has: control characters, halves of characters, and two that are none.
UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
WRITES = "What it writes"
"""The heading that all models share that write."""


class Markup(str):
    """Text that is HTML already. Any other string is escaped where it enters a page."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str) -> Markup:
    """`<name attribute="…">children</name>`; `class_` and `data_value` stand for `class` and `data-value`."""
    given = "".join(f' {key.strip("_").replace("_", "-")}="{html.escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def join(parts: Iterable[str]) -> Markup:
    """Parts one after another, escaped unless they are markup."""
    return Markup("".join(part if isinstance(part, Markup) else html.escape(part) for part in parts))


def page(title: str, *parts: str) -> str:
    """A whole document."""
    folder = files("seqloom.reports")
    template, style, script = (folder.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    whole = Template(template).substitute(title=join([title]), style=style, script=script, content=join(parts))
    return writable(whole)


def writable(text: str) -> str:
    """Text for a page or a picture: what has no sign there becomes �."""
    return UNWRITABLE.sub("�", text)


def lead(text: str) -> Markup:
    """What a page begins with: all of it in a sentence or two."""
    return element("p", text, class_="lead")


def commands(pairs: Iterable[tuple[str, str]]) -> Markup:
    """What a page ends with: what to do next, each with what to type."""
    return section("Go on from here", facts([(what, code(typed)) for what, typed in pairs], class_="commands"))


def section(heading: str, *parts: str) -> Markup:
    """A heading and what belongs to it."""
    return element("section", element("h2", heading), *parts)


def facts(pairs: Iterable[tuple[str, str]], **attributes: str) -> Markup:
    """Names and what they are, side by side."""
    lines = [element("div", element("dt", name), element("dd", value)) for name, value in pairs]
    return element("dl", *lines, **attributes)


def figure(svg: str, caption: str) -> Markup:
    """A plot with a caption; on a narrow screen it scrolls rather than shrinking beyond reading."""
    scroll = element("div", Markup(svg), class_="scroll", tabindex="0")
    return element("figure", scroll, element("figcaption", caption))


def code(text: str) -> Markup:
    """Something to type."""
    return element("code", text)


def link(text: str, address: str) -> Markup:
    """Text that leads to another page."""
    return element("a", text, href=address)


def table(first: str, names: Sequence[tuple[str, str]], columns: Sequence[Column]) -> Markup:
    """A table of numbers that a click on a heading sorts; the best value of a column stands out.

    A row begins with its name and a detail below it.
    """
    headings = [_heading(first, "")] + [_heading(column.title, column.unit) for column in columns]
    rows = [[element("th", name, _small(detail), scope="row")] for name, detail in names]
    for column in columns:
        cells = zip(rows, column.values, column.texts(), column.spreads(), column.best(), strict=True)
        for row, value, text, spread, best in cells:
            marked = {"class_": "best"} if best else {}
            row.append(element("td", text, _small(spread), data_value=repr(float(value)), **marked))
    lines = [element("tr", *row) for row in rows]
    body = element("table", element("thead", element("tr", *headings)), element("tbody", *lines), class_="numbers")
    return element("div", body, class_="scroll", tabindex="0")


def side_by_side(corner: str, names: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> Markup:
    """Texts to compare: a row for each that begins with its name, a column for each name."""
    head = element("tr", element("th", corner, scope="col"), *(element("th", name, scope="col") for name in names))
    lines = []
    for name, texts in rows:
        cells = [element("td", text, dir="auto") for text in texts]
        lines.append(element("tr", element("th", name, scope="row", dir="auto"), *cells))
    body = element("table", element("thead", head), element("tbody", *lines), class_="texts")
    return element("div", body, class_="scroll", tabindex="0")


def samples_section(samples: Sequence[str], heading: str = WRITES) -> Markup:
    """Texts that a model wrote."""
    return section(heading, *(element("p", sample.strip(), class_="sample", dir="auto") for sample in samples))


def _heading(title: str, unit: str) -> Markup:
    return element("th", element("button", title, _small(unit), type="button"), scope="col")


def _small(text: str) -> Markup:
    return element("small", text) if text else Markup()
