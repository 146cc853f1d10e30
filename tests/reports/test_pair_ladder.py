"""The comparison of models of pairs: its page, its table and its JSON."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from outline import Outline, assert_self_contained
from rich.console import Console

from seqloom.cli.options import to_json
from seqloom.errors import DataError
from seqloom.reports.ladder import Ladder
from seqloom.reports.ladder_numbers import ladder_json, ladder_table
from seqloom.reports.ladder_page import lead, write_ladder_page
from seqloom.runs.contests.pairs import signature_note

BEST = ["1,802,240", "610", "388", "9,950", "36.9", "35.7", "60.3", "5.63", "239"]


def ladder_page(ladder: Ladder, tmp_path: Path) -> str:
    write_ladder_page(ladder, tmp_path / "report.html")
    return (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(pair_ladder: Ladder, tmp_path_factory: pytest.TempPathFactory) -> str:
    return ladder_page(pair_ladder, tmp_path_factory.mktemp("page"))


def printed(ladder: Ladder, color: bool = False) -> str:
    console = Console(
        file=io.StringIO(),
        width=80,
        force_terminal=color,
        color_system="standard" if color else None,
        legacy_windows=False,
    )
    console.print(ladder_table(ladder))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_best_rung_has_the_highest_bleu_of_beam_search(pair_ladder: Ladder, change):
    rungs = pair_ladder.rungs
    assert pair_ladder.best() is rungs[4]
    assert replace(pair_ladder, rungs=[change(rungs[0], bleu=99.0), *rungs[1:]]).best() is rungs[4]


def test_a_rung_without_a_bleu_is_never_the_best(pair_ladder: Ladder, change):
    failed = change(pair_ladder.rungs[4], beam_bleu=math.nan)
    for rungs in ([failed, *pair_ladder.rungs[:4]], [*pair_ladder.rungs[:4], failed]):
        ladder = replace(pair_ladder, rungs=rungs)
        assert ladder.best().name == "convolution"
        assert ladder.ranked()[-1] is failed


def test_the_table_has_every_rung_and_every_number(pair_ladder: Ladder, page: str):
    head, *rows = Outline(page).tables[0]
    assert head[1:4] == ["BLEUbeam 5", "BLEUgreedy", "chrFbeam 5"]
    assert [row[0] for row in rows] == [rung.name + rung.description for rung in pair_ladder.rungs]
    assert rows[0][1:] == ["15.6", "13.9", "38.1", "14.80", "1,802,240", "402", "9,480", "610", "171"]


def test_the_best_of_each_column_is_highlighted(page: str):
    assert Outline(page).best == BEST


def test_examples_stand_side_by_side_one_row_per_source(pair_ladder: Ladder, page: str):
    head, *rows = Outline(page).tables[1]
    assert head == ["Source", "Reference", *(rung.name for rung in pair_ladder.rungs)]
    for index, (row, (source, reference)) in enumerate(zip(rows, pair_ladder.record["examples"], strict=True)):
        assert row == [source, reference, *(rung.samples[index].strip() for rung in pair_ladder.rungs)]


def test_a_missing_output_leaves_a_gap(pair_ladder: Ladder, tmp_path: Path):
    rungs = [replace(pair_ladder.rungs[0], samples=["one"]), pair_ladder.rungs[1]]
    table = Outline(ladder_page(replace(pair_ladder, rungs=rungs), tmp_path)).tables[1]
    assert [row[2] for row in table[1:]] == ["one", "–"]


def test_the_page_says_what_was_compared_and_how_it_was_scored(pair_ladder: Ladder, page: str):
    for fact in ("29,000 to train on, 1,014 to validate", "8,000 (joint subwords)", "multi30k, English to German"):
        assert f"<dd>{fact}</dd>" in page
    assert f"<code>{pair_ladder.caption}</code>" in page


def test_the_page_needs_nothing_from_outside(page: str):
    assert_self_contained(page)
    assert sum(tag == "figure" for tag, _ in Outline(page).tags) == 2


def test_whatever_the_user_made_is_escaped(pair_ladder: Ladder, tmp_path: Path):
    evil = '</style><script>alert("x")</script>'
    rung = replace(pair_ladder.rungs[0], name=evil, description=evil, folder=evil, samples=[evil])
    spoilt = replace(
        pair_ladder,
        title=evil,
        facts={evil: evil},
        notes=[signature_note(evil)],
        rows=[evil],
        reference=(evil, [evil]),
        rungs=[rung, pair_ladder.rungs[1]],
    )
    text = ladder_page(spoilt, tmp_path)
    assert "<script>alert" not in text
    assert sum(tag == "script" for tag, _ in Outline(text).tags) == 1


def test_one_rung_without_examples_or_curve_has_a_report(pair_ladder: Ladder, tmp_path: Path):
    rung = replace(pair_ladder.rungs[0], curve=[], samples=[])
    text = ladder_page(replace(pair_ladder, rungs=[rung], rows=[], reference=None), tmp_path)
    assert not Outline(text).best
    assert "What they write" not in text


def test_a_ladder_without_rungs_is_refused(pair_ladder: Ladder, tmp_path: Path):
    with pytest.raises(DataError, match="no rungs"):
        write_ladder_page(replace(pair_ladder, rungs=[]), tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_the_summary_names_the_winner_by_how_much_and_the_quickest(pair_ladder: Ladder, change):
    quick = change(pair_ladder.rungs[0], training_seconds=30.0)
    text = lead(replace(pair_ladder, rungs=[quick, *pair_ladder.rungs[1:]]))
    assert text.replace("\N{NO-BREAK SPACE}", " ") == (
        "transformer comes closest to the references: BLEU 36.9 with beam 5 after 10 min 12 s of training, "
        f"{36.91 - 31.87:.1f} more than convolution (31.9). The quickest to train, rnn, reaches 15.6 in 30 s."
    )


def test_the_summary_compares_with_none_that_failed(pair_ladder: Ladder, change):
    failed = [change(rung, beam_bleu=math.nan, training_seconds=1.0) for rung in pair_ladder.rungs]
    alone = lead(replace(pair_ladder, rungs=[*failed[:4], pair_ladder.rungs[4]]))
    assert alone.endswith("of training. No other model has a finite BLEU.")
    assert lead(replace(pair_ladder, rungs=failed)).startswith("No model")


def test_the_commands_to_go_on_with_are_quoted_for_the_shell(pair_ladder: Ladder, tmp_path: Path):
    rungs = [replace(pair_ladder.rungs[4], folder="my runs/best")]
    text = ladder_page(replace(pair_ladder, rungs=rungs), tmp_path).replace("&#x27;", "'")
    assert "seqloom generate 'my runs/best' --input FILE --strategy beam --beam 5" in text


def test_json_is_strict_and_holds_every_number(pair_ladder: Ladder, change):
    failed = change(pair_ladder.rungs[0], beam_bleu=math.nan, perplexity=math.inf)
    document = ladder_json(replace(pair_ladder, rungs=[failed, *pair_ladder.rungs[1:]]))
    read = json.loads(to_json(document))
    assert read["best"] == "transformer"
    assert read["rungs"][0]["beam_bleu"] is None
    assert read["rungs"][0]["perplexity"] is None
    assert read["rungs"][4]["chrf"] == 60.3
    assert read["examples"] == [list(pair) for pair in pair_ladder.record["examples"]]
    assert read["signature"] == pair_ladder.caption


def test_the_terminal_table_fits_into_80_characters_and_ends_in_the_signature(pair_ladder: Ladder):
    rungs = [replace(pair_ladder.rungs[0], name="bidirectional-additive-copy"), *pair_ladder.rungs[1:]]
    text = printed(replace(pair_ladder, rungs=rungs))
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"transformer +36\.9 +35\.7 +60\.3 +5\.63 +2\.41M +612 +7\.1k +531 +239", text)
    assert text.splitlines()[-1].strip() == pair_ladder.caption


def test_the_terminal_table_highlights_the_best(pair_ladder: Ladder):
    styled = re.findall(r"\x1b\[1;32m *([^ \x1b]+)\x1b", printed(pair_ladder, color=True))
    assert styled == ["1.8M", "610", "388", "9.95k", "36.9", "35.7", "60.3", "5.63", "239"]
