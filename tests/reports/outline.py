"""How the tests read a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Outline(HTMLParser):
    """Reads a page: are tags balanced, which cells stand in which table, and which of them are marked best?"""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.best: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._best = False
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"th", "td"}:
            self.tables[-1][-1].append("")
            self._best = attributes.get("class") == "best"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "table" in self.open and ("td" in self.open or "th" in self.open):
            self.tables[-1][-1][-1] += data
            if self._best:
                self.best.append(data)


def assert_self_contained(text: str) -> None:
    without_names = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)
    assert not re.search(r"https?://", without_names)
    assert not re.search(r"\bsrc\s*=|@import|url\((?!#)", without_names)
    for tag, attributes in Outline(text).tags:
        assert tag not in {"link", "iframe", "object", "embed", "img"}
        for name in ("href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
