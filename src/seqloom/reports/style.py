"""One look for all plots, and how a plot becomes a file or a part of a page."""

from __future__ import annotations

import html
import io
import math
import re
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import (
    FontEntry,
    FontProperties,
    findfont,
    findSystemFonts,
    fontManager,
    get_font,
    get_font_names,
)
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from seqloom.errors import UserError
from seqloom.files import atomic_file
from seqloom.reports.html import writable
from seqloom.reports.numbers import compact

STYLE = matplotlib.rc_params_from_file(Path(__file__).with_name("seqloom.mplstyle"), use_default_template=False)
INK, MUTED, GRID, PAPER = STYLE["text.color"], STYLE["axes.labelcolor"], STYLE["grid.color"], "#ffffff"
DASHED: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 1.2}
"""How a line is drawn that nobody measured: a fit, a front."""

# After Okabe & Ito (2008), told apart under every kind of colour blindness; darkened where thin lines need it.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#b8528f", "#a87600", "#4b5563", "#3d9bd6", "#7a3b1d")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
Dashes = Literal["-"] | tuple[float, tuple[float, ...]]
NO_LINE: Dashes = (0.0, (0.0, 1.0))  # dashes that draw nothing
DASHES: tuple[Dashes, ...] = ("-", (0, (5, 1.5)), (0, (3, 1.2, 1, 1.2)), (0, (1, 1.2)))

# What a page may recolour, each by a variable of its style sheet; the name is followed by the colour it stands for.
VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper"} | {
    color: f"--series-{index}" for index, color in enumerate(PALETTE)
}

SHORTEST = 1e-3  # seconds; what a logarithmic axis shows for no time at all
SUFFIXES = (".png", ".svg", ".pdf")
SHOWN_BY_OTHERS = ".svg"  # whoever opens it draws its letters, with fonts of their own
LEFT_OUT = "·"  # stands for letters that no font has
LAST_RESORT = "Last Resort"  # begins the names of fonts that have a box for every character


class Series(NamedTuple):
    """How one line of a plot is drawn; told apart by colour, by marker and by dashes."""

    color: str
    marker: str
    dashes: Dashes


def series(index: int) -> Series:
    """The look of the line number `index`; after eight the colours come again with other dashes."""
    return Series(
        PALETTE[index % len(PALETTE)],
        MARKERS[index % len(MARKERS)],
        DASHES[(index + index // len(PALETTE)) % len(DASHES)],
    )


class Nothing(Figure):
    """What stands on a page where a plot would, if there were something to draw; no file is written of it."""

    reason: str


@contextmanager
def styled() -> Iterator[None]:
    """The style holds inside this block, for drawing and for writing."""
    installed = {"sans-serif", *get_font_names()}  # of others matplotlib would warn
    fonts = [name for name in STYLE["font.family"] if name in installed]
    with matplotlib.rc_context({**STYLE, "font.family": fonts}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # `_fit_fonts` says it better
        yield


def scale_ticks(axes: Axes, log_x: bool = False, log_y: bool = False, most_x: int = 8) -> None:
    """Set the scales of both axes and few, round, readable ticks; call it when the limits are settled."""
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    for axis, logarithmic, most in ((axes.xaxis, log_x, most_x), (axes.yaxis, log_y, 8)):
        low, high = sorted(axis.get_view_interval())
        if logarithmic and high / low > 2.5:
            axis.set_major_locator(FixedLocator(round_numbers(low, high, most)))
            digits = 3
        else:
            locator = MaxNLocator(6, steps=[1, 2, 2.5, 5, 10])
            axis.set_major_locator(locator)
            digits = _digits(locator.tick_values(low, high))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _, digits=digits: compact(value, digits)))


def _digits(ticks: Sequence[float]) -> int:
    """How many significant digits tell such ticks apart; the distance between two of them has two at most."""
    distance, largest = ticks[1] - ticks[0], max(map(abs, ticks))
    return max(3, math.floor(math.log10(largest)) - math.floor(math.log10(distance)) + 2)


def round_numbers(low: float, high: float, most: int = 8) -> list[float]:
    """At most `most` round numbers in [low, high] for a logarithmic axis: the densest set that is few enough."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1, 3), (1,)):
        numbers = [factor * 10.0**decade for decade in decades for factor in factors]
        numbers = [number for number in numbers if low <= number <= high]
        if len(numbers) <= most:
            return numbers
    return numbers[:: math.ceil(len(numbers) / most)]


def nothing_to_show(reason: str) -> Nothing:
    """A figure that says why there is none."""
    figure = Nothing(figsize=(8.6, 2.0))
    figure.reason = reason
    axes = figure.subplots()
    axes.set_axis_off()
    axes.text(0.5, 0.5, f"Nothing to show: {reason}", ha="center", va="center", color=MUTED, transform=axes.transAxes)
    return figure


def svg(figure: Figure, label: str = "") -> str:
    """A figure as an SVG element to put into a page, described by `label`.

    Colours become variables of the page (`var(--ink, #1c2430)`), so that its style sheet can turn them for the dark.
    """
    buffer = io.StringIO()
    metadata = {"Date": None, "Creator": None, "Type": None, "Format": None}
    _write(figure, buffer, format="svg", metadata=metadata)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # several figures share a page, and ids must not repeat
    text = re.sub(r"(fill|stroke): (#[0-9a-f]{6})", _variable, text)
    # As wide as its inches say, where the page has room, and as high as its view box then makes it.
    text = re.sub(r' (width|height)="[^"]*pt"', "", text, count=2)
    width = round(100 * figure.get_figwidth())
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(label)}" width="{width}"', 1)


def save(figure: Figure, path: Path) -> None:
    """Write a figure to a .png, .svg or .pdf file, on white, atomically; one that shows nothing is refused."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(f"cannot draw into {path}: the name must end in one of {', '.join(SUFFIXES)}")
    if isinstance(figure, Nothing):
        raise UserError(f"{path} is not drawn, as there is nothing to show: {figure.reason}")
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    with atomic_file(path) as temporary:
        lack = _write(figure, temporary, format=suffix[1:], facecolor=PAPER, metadata=metadata)
    if lack:
        where = ", they are seen where there is one" if suffix == SHOWN_BY_OTHERS else f", {LEFT_OUT} stands for them"
        sys.stderr.write(f"{path}: {lack}{where}\n")


def _write(figure: Figure, to: Any, format: str, **options: Any) -> str | None:
    """Draw the figure; words in it may have characters that no picture can hold. Gives what no font has."""
    for text in figure.findobj(Text):
        text.set_text(writable(text.get_text()))
    with styled():
        lack = _fit_fonts(figure, drawn_here=f".{format}" != SHOWN_BY_OTHERS)
        figure.savefig(to, format=format, **options)
    return lack


def _variable(match: re.Match[str]) -> str:
    name, color = match.groups()
    return f"{name}: var({VARIABLES[color]}, {color})" if color in VARIABLES else match.group()


# --------------------------------------------------------------------------------------------------------------- fonts


def _fit_fonts(figure: Figure, drawn_here: bool) -> str | None:
    """Let each text have fonts that have its letters, whichever are installed. Where there is none, say so; a picture
    that is drawn here says it as well, and has no boxes."""
    texts = {text: _letters(text.get_text()) for text in figure.findobj(Text)}
    letters = set().union(*texts.values())
    usual = [findfont(FontProperties(family=[family])) for family in matplotlib.rcParams["font.family"]]
    unusual = letters - _held(usual, letters)
    others, missing = _more_fonts(unusual)
    for text in (text for text, own in texts.items() if own & unusual):
        text.set_fontfamily([*matplotlib.rcParams["font.family"], *others])
    poor = [text for text, own in texts.items() if own & missing]
    if not poor:
        return None
    chinese = any(unicodedata.name(letter, "").startswith("CJK") for letter in missing)
    font = "Chinese characters, e.g. Noto Sans CJK" if chinese else "their characters, e.g. one of the Noto Sans family"
    lack = f"{len(poor)} {'label needs' if len(poor) == 1 else 'labels need'} a font with {font}: none is installed"
    if drawn_here:
        for text in poor:
            text.set_text(re.sub(f"[{re.escape(''.join(missing))}]+", LEFT_OUT, text.get_text()))
        figure.supxlabel(lack, fontsize=9.5, color=MUTED)
    return lack


def _letters(text: str) -> set[str]:
    """The characters of a text that need a sign in a font: not spaces and marks of direction."""
    return {letter for letter in text if unicodedata.category(letter) not in ("Cc", "Cf", "Zs", "Zl", "Zp")}


def _held(files: Iterable[str], letters: set[str]) -> set[str]:
    """Which of the letters some font file has."""
    return {letter for file in files for letter in letters if get_font(file).get_char_index(ord(letter))}


def _more_fonts(letters: set[str]) -> tuple[list[str], set[str]]:
    """The names of installed fonts that have these letters, as few as do; and the letters that none has."""
    if not letters:
        return [], letters
    for file in set(findSystemFonts()) - {str(font.fname) for font in fontManager.ttflist}:
        _add_font(file)  # installed since matplotlib made its list, which it keeps for ever
    held = {font.name: _held([font.fname], letters) for font in _upright_fonts()}
    names, missing = [], set(letters)
    while held and missing:
        best = max(held, key=lambda name: len(held[name] & missing))
        if not held[best] & missing:
            break
        names.append(best)
        missing -= held.pop(best)
    return names, missing


def _add_font(file: str) -> None:
    with suppress(OSError, RuntimeError):  # a damaged file
        fontManager.addfont(file)


def _upright_fonts() -> Iterator[FontEntry]:
    """The installed fonts that can be drawn in any size; first those without serifs, as the style's own."""
    for font in sorted(fontManager.ttflist, key=lambda font: ("Sans" not in font.name, font.name)):
        if font.style == "normal" and not font.name.startswith(LAST_RESORT):
            with suppress(OSError, RuntimeError):  # damaged, or taken away since matplotlib made its list
                if get_font(font.fname).scalable:
                    yield font
