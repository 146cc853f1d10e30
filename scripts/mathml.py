"""A hook of mkdocs: formulas become MathML, which browsers draw themselves, so that the pages need no script.

`pymdownx.arithmatex` (generic) leaves TeX as <span class="arithmatex">\\(...\\)</span> and
<div class="arithmatex">\\[...\\]</div>.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\[(\[](?P<tex>.*?)\\[)\]]\s*</(?P=tag)>',
    re.DOTALL,
)


def on_page_content(content: str, **_: Any) -> str:
    """The page with every formula converted."""
    return FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    display = "block" if match["tag"] == "div" else "inline"
    return convert(html.unescape(match["tex"]), display=display)
