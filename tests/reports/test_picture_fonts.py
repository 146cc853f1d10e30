"""Letters that no font has: another font is taken, and where there is none, the picture and stderr say so."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from PIL import Image

from seqloom.errors import UserError
from seqloom.reports.plots import gradient_flow
from seqloom.reports.style import nothing_to_show, save, svg

NORMS = {"唐詩": [1.0, 0.5], "宋詞 lstm": [1.0, 0.4], "rnn": [1.0, 0.3]}
LACK = "2 labels need a font with Chinese characters, e.g. Noto Sans CJK: none is installed"


@pytest.fixture
def few_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with matplotlib's own fonts: none is Chinese, and one has a box for everything."""
    own = [font for font in fontManager.ttflist if str(font.fname).startswith(matplotlib.get_data_path())]
    assert any("Last Resort" in font.name for font in own)
    monkeypatch.setattr(fontManager, "ttflist", own)
    monkeypatch.setattr("seqloom.reports.style.findSystemFonts", list)


@pytest.fixture
def chinese_font(few_fonts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same with one more font, in which each of four characters is a black square, and a damaged one. They were
    installed after matplotlib made its list."""
    pen = TTGlyphPen(None)
    corners = [(0, 0), (0, 1000), (1000, 1000), (1000, 0)]
    pen.moveTo(corners[0])
    for corner in corners[1:]:
        pen.lineTo(corner)
    pen.closePath()
    square, builder = pen.glyph(), FontBuilder(1000, isTTF=True)
    names = [".notdef", *(f"uni{ord(letter):04X}" for letter in "唐詩宋詞")]
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(letter): name for letter, name in zip("唐詩宋詞", names[1:], strict=True)})
    builder.setupGlyf(dict.fromkeys(names, square))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
    builder.setupHorizontalHeader(ascent=1000, descent=0)
    builder.setupNameTable({"familyName": "Loom Han", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / "loom.ttf")
    (tmp_path / "damaged.ttf").write_bytes(b"no font")
    files = [str(tmp_path / "damaged.ttf"), str(tmp_path / "loom.ttf")]
    monkeypatch.setattr("seqloom.reports.style.findSystemFonts", lambda: files)
    return "Loom Han"


def picture() -> Figure:
    return gradient_flow([1, 2], NORMS)


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def ink(path: Path) -> int:
    return int((np.asarray(Image.open(path).convert("L")) < 100).sum())


@pytest.mark.usefixtures("few_fonts")
@pytest.mark.parametrize("name", ["plot.png", "plot.pdf"])
def test_a_picture_says_that_a_font_is_missing(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = picture()
    save(figure, tmp_path / name)
    assert capsys.readouterr().err == f"{tmp_path / name}: {LACK}, · stands for them\n"
    assert figure.get_supxlabel() == LACK
    assert words(figure) == ["·", "· lstm", "rnn"]


@pytest.mark.usefixtures("few_fonts")
def test_an_svg_keeps_its_letters_for_the_fonts_of_its_readers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(picture(), tmp_path / "plot.svg")
    assert "唐詩" in (tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert f"{LACK}, they are seen where there is one" in capsys.readouterr().err
    assert "唐詩" in svg(picture())
    assert capsys.readouterr().err == ""  # a page is for browsers, which bring fonts


@pytest.mark.usefixtures("few_fonts")
def test_other_scripts_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(gradient_flow([1, 2], {"ሀ": [1.0, 0.5]}), tmp_path / "plot.png")
    assert "1 label needs a font with their characters" in capsys.readouterr().err


def test_a_font_that_has_the_letters_is_found(
    chinese_font: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = picture()
    save(figure, tmp_path / "with.png")
    assert capsys.readouterr().err == ""
    assert figure.get_supxlabel() == ""
    assert words(figure) == list(NORMS)
    first, *_, last = figure.axes[0].texts
    assert first.get_fontfamily()[-1] == chinese_font
    assert chinese_font not in last.get_fontfamily()  # it needs none
    monkeypatch.setattr("seqloom.reports.style.findSystemFonts", list)
    monkeypatch.setattr(fontManager, "ttflist", [font for font in fontManager.ttflist if font.name != chinese_font])
    save(picture(), tmp_path / "without.png")
    squares = 4 * (10.5 / 72 * 160) ** 2
    assert ink(tmp_path / "with.png") > ink(tmp_path / "without.png") + 0.5 * squares


def test_an_empty_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"map\.png is not drawn, as there is nothing to show: no words"):
        save(nothing_to_show("no words"), tmp_path / "map.png")
    assert not list(tmp_path.iterdir())
