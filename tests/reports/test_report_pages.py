from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from outline import Outline, assert_self_contained
from rich.console import Console

from seqloom.cli.options import to_json
from seqloom.errors import DataError, SeqloomError
from seqloom.reports.html import Markup, element, page
from seqloom.reports.ladder import Command, Ladder
from seqloom.reports.ladder_numbers import ladder_json, ladder_table
from seqloom.reports.ladder_page import lead, write_ladder_page
from seqloom.reports.run_report import interpolation_section, outputs_section, training_section, write_run_report
from seqloom.runs.contests.text import BY_BITS, unknown_note
from seqloom.version import __version__


def ladder_page(ladder: Ladder, tmp_path: Path) -> str:
    write_ladder_page(ladder, tmp_path / "report.html")
    return (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def run_page(entries: list[dict[str, float]], tmp_path: Path) -> str:
    figures = {"perplexity": 123.456, "parameters": 1_320_704, "bits_per_character": math.inf}
    config = "text:\n  kind: words # <script>alert(1)</script>\n"
    curves, samples = training_section(entries), ["said <b>he</b>", "再见"]
    commands = [("Use it", "seqloom generate runs/<x>")]
    write_run_report(tmp_path / "r.html", "LSTM & <i>co</i>", "An <LSTM>.", config, curves, figures, samples, commands)
    return (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_ladder_report_needs_nothing_from_outside(ladder: Ladder, tmp_path: Path):
    assert_self_contained(ladder_page(ladder, tmp_path))


def test_a_run_report_needs_nothing_from_outside(run_page: str):
    assert_self_contained(run_page)


def test_the_table_has_every_rung_and_every_number(ladder: Ladder, tmp_path: Path):
    numbers = Outline(ladder_page(ladder, tmp_path)).tables[0]
    assert [row[0] for row in numbers[1:]] == [rung.name + rung.description for rung in ladder.rungs]
    assert numbers[1][1:] == ["412", "604", "1.89", "148,210", "0.3", "575,306", "1,204,000", "41,200"]
    assert len(numbers[0]) == 9


def test_the_best_of_each_column_is_highlighted(ladder: Ladder, tmp_path: Path):
    best = Outline(ladder_page(ladder, tmp_path)).best
    assert best == ["148,210", "0.3", "575,306", "1,204,000", "41,200", "122", "165", "1.51"]


def test_a_ladder_of_one_rung_has_a_report_and_no_winner(ladder: Ladder, tmp_path: Path):
    text = ladder_page(replace(ladder, rungs=ladder.rungs[3:4]), tmp_path)
    assert not Outline(text).best
    assert "LSTM predicts the validation text with perplexity 131" in text


def test_a_ladder_without_rungs_is_refused(ladder: Ladder, tmp_path: Path):
    with pytest.raises(DataError, match="no rungs"):
        write_ladder_page(replace(ladder, rungs=[]), tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_samples_stand_side_by_side_one_row_per_prompt(ladder: Ladder, tmp_path: Path):
    head, *rows = Outline(ladder_page(ladder, tmp_path)).tables[1]
    assert head == ["Prompt", *(rung.name for rung in ladder.rungs)]
    assert [row[0] for row in rows] == ["The Time Traveller", "时间旅行者说：", "(no prompt)"]
    for index, row in enumerate(rows):
        assert row[1:] == [rung.samples[index].strip() for rung in ladder.rungs]


def test_a_missing_sample_leaves_a_gap_and_a_missing_prompt_a_number(ladder: Ladder, tmp_path: Path):
    rungs = [replace(ladder.rungs[0], samples=["one"]), replace(ladder.rungs[1], samples=["uno", "dos"])]
    table = Outline(ladder_page(replace(ladder, rungs=rungs, rows=["first"]), tmp_path)).tables[1]
    assert table[1:] == [["first", "one", "uno"], ["Sample 2", "–", "dos"]]


def test_a_ladder_that_generated_nothing_has_no_samples(ladder: Ladder, tmp_path: Path):
    rungs = [replace(rung, samples=[]) for rung in ladder.rungs]
    assert "What they write" not in ladder_page(replace(ladder, rungs=rungs, rows=[]), tmp_path)


def test_whatever_the_user_made_is_escaped(ladder: Ladder, tmp_path: Path):
    evil = '</style><script>alert("x")</script>'
    rung = replace(ladder.rungs[3], name=evil, description=evil, folder=evil, samples=[evil])
    spoilt = replace(
        ladder,
        title=evil,
        facts={evil: evil},
        rows=[evil],
        notes=[evil],
        commands=[Command(evil, evil, evil)],
        rungs=[rung, ladder.rungs[0]],
    )
    text = ladder_page(spoilt, tmp_path)
    assert "<script>alert" not in text
    assert sum(tag == "script" for tag, _ in Outline(text).tags) == 1


def test_a_run_report_escapes_and_shows_its_parts(run_page: str):
    assert "said &lt;b&gt;he&lt;/b&gt;" in run_page
    assert "&lt;script&gt;alert(1)" in run_page
    assert "<h1>LSTM &amp; &lt;i&gt;co&lt;/i&gt;</h1>" in run_page
    for shown in ("再见", "123.5", "1,320,704", "Bits per character", "∞", "Learning rate"):
        assert shown in run_page


def test_a_run_report_begins_with_a_sentence_and_ends_with_what_to_type(run_page: str):
    body = run_page[run_page.index("</h1>") + 5 : run_page.index("</main>")]
    assert body.startswith('<p class="lead">An &lt;LSTM&gt;.</p>')
    assert body.endswith("<dt>Use it</dt><dd><code>seqloom generate runs/&lt;x&gt;</code></dd></div></dl></section>")


def test_a_run_without_metrics_figures_or_samples_has_a_report(tmp_path: Path):
    write_run_report(tmp_path / "report.html", "A run", "", "seed: 0\n", training_section([]), {}, [], [])
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    Outline(text)
    assert "nothing was logged yet" in text


def test_the_outputs_of_a_translator_stand_beside_source_and_reference(tmp_path: Path):
    examples = [("a <b>dog</b>", "ein Hund", "Hund & co"), ("再见", "goodbye", "")]
    figures = {"BLEU": 35.2, "chrF": 58.1, "training_pairs": 29_000}
    write_run_report(
        tmp_path / "r.html", "A run", "", "", training_section([]), figures, [outputs_section(examples)], []
    )
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert text.count("<h2>What it writes</h2>") == 1
    assert Outline(text).tables == [[["Source", "Reference", "Output"], *map(list, examples)]]
    for name in ("BLEU", "chrF", "Training pairs"):
        assert f"<dt>{name}</dt>" in text


def test_a_run_that_translated_nothing_has_no_outputs(tmp_path: Path):
    write_run_report(tmp_path / "r.html", "A run", "", "", training_section([]), {}, [outputs_section([])], [])
    assert "What it writes" not in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_an_interpolation_is_shown_as_its_runs_with_their_weights():
    entry = {"weights": [0.25, 0.75], "perplexities": [120.0, 90.0], "perplexity": 81.234}
    text = interpolation_section(["runs/a", "runs/<b>"], entry)
    outline = Outline(text)
    assert outline.tables[0][1:] == [["runs/a", "0.250", "120.0"], ["runs/<b>", "0.750", "90.0"]]
    assert outline.best == ["90.0"]
    assert "perplexity 81.23" in text


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_rungs_without_a_finite_perplexity_come_last_and_do_not_win(
    value: float, ladder: Ladder, tmp_path: Path, change
):
    spoilt = change(
        replace(ladder.rungs[0], curve=[]), perplexity=value, word_perplexity=value, bits_per_character=value
    )
    text = ladder_page(replace(ladder, rungs=[spoilt, *ladder.rungs[1:]]), tmp_path)
    assert "122" in Outline(text).best
    assert "Transformer predicts the validation text best" in text


def test_the_summary_names_the_winner_and_by_how_much(ladder: Ladder):
    text = lead(ladder).replace("\N{NO-BREAK SPACE}", " ")
    percent = 100 * (1 - math.exp(4.802 - 4.861))
    assert text == (
        "Transformer predicts the validation text best: perplexity 122 after 5 min 45 s of training, "
        f"{percent:.1f} % lower than GRU (129). The quickest to train, 3-gram Laplace, reaches 412 in 0.31 s."
    )


def test_the_summary_says_first_that_models_have_not_seen_all_of_the_text(ladder: Ladder, tmp_path: Path, change):
    short = [rung if rung.deterministic else change(rung, passes=0.123) for rung in ladder.rungs]
    text = lead(replace(ladder, rungs=short))
    assert text.startswith("Less than one pass: the networks saw only 0.12 of the text, so this says how models begin")
    assert text.index("0.12 of the text") < text.index("Transformer predicts the validation text best")
    assert "Less than one pass: the networks saw only 0.12" in " ".join(printed(replace(ladder, rungs=short)).split())
    one = [
        *ladder.rungs[:3],
        change(ladder.rungs[3], passes=0.5),
        change(ladder.rungs[4], passes=0.25),
        ladder.rungs[5],
    ]
    assert lead(replace(ladder, rungs=one)).startswith("Less than one pass: LSTM and GRU saw only 0.25 to 0.5 of")
    for passes in (1.0, 0.997, math.nan):  # as shown, 0.997 is 1
        rungs = [change(rung, passes=passes) for rung in ladder.rungs]
        assert lead(replace(ladder, rungs=rungs)).startswith("Transformer predicts")


def test_the_page_says_on_what_terms_the_models_met(ladder: Ladder, tmp_path: Path):
    text = ladder_page(replace(ladder, command="seqloom compare <a>"), tmp_path)
    facts = dict(re.findall(r"<dt>([^<]*)</dt><dd>(.*?)</dd>", text))
    assert facts["Passes over the text"] == (
        "1: 3-gram Laplace, 5-gram Kneser-Ney; 12: Feed-forward, LSTM, GRU, Transformer"
    )
    assert facts["Budget, tokens"] == (
        "180k: 3-gram Laplace, 5-gram Kneser-Ney; 2.1M: Feed-forward, LSTM, GRU, Transformer"
    )
    assert facts["Seeds"] == "0"
    assert re.fullmatch(rf"by seqloom {__version__} on \d+ \w+ \d{{4}}, \d\d:\d\d UTC", facts["Made"])
    assert facts["Command"] == "<code>seqloom compare &lt;a&gt;</code>"
    alike = ladder_page(replace(ladder, rungs=ladder.rungs[2:]), tmp_path)
    assert "<dd>12 each</dd>" in alike


def test_rungs_lead_to_the_pages_of_their_runs(ladder: Ladder, tmp_path: Path):
    """Also where a name is one that addresses must quote, and to those of all seeds."""
    folders = [tmp_path / "out" / "a b?#é", tmp_path / "elsewhere" / "gru", tmp_path / "out" / "gru-seed-4"]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "report.html").write_text("a page")
    single = replace(ladder.rungs[3], folder=str(folders[0]))
    first = replace(ladder.rungs[4], folder=str(folders[1]), seed=3)
    several = replace(first, runs=[first, replace(first, folder=str(folders[2]), seed=4)])
    write_ladder_page(replace(ladder, rungs=[single, several, ladder.rungs[5]]), tmp_path / "out" / "report.html")
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    found = re.findall(r'<a href="([^"]*)">([^<]*)</a>', text)
    assert [name for _, name in found] == ["LSTM", "3", "4"]  # the last rung has no page
    for (address, _), folder in zip(found, folders, strict=True):
        assert (tmp_path / "out" / unquote(address)).resolve() == folder / "report.html"
    assert "<dt>Seeds</dt><dd>0, 3, 4</dd>" in text


def test_the_summary_names_no_winner_among_equals(ladder: Ladder, change):
    rungs = [change(ladder.rungs[3], perplexity=0.5), ladder.rungs[0], change(ladder.rungs[4], perplexity=0.5)]
    assert lead(replace(ladder, rungs=rungs)) == "LSTM and GRU come out level: perplexity 0.500."


def test_the_summary_of_rungs_that_all_fail_says_so(ladder: Ladder, change):
    rungs = [change(rung, perplexity=math.inf) for rung in ladder.rungs]
    assert "smoothing" in lead(replace(ladder, rungs=rungs))


def test_the_summary_does_not_compare_with_infinity(ladder: Ladder, change):
    endless = change(ladder.rungs[0], perplexity=math.inf)
    assert "No other model has a finite perplexity" in lead(replace(ladder, rungs=[endless, ladder.rungs[1]]))


def test_the_summary_says_no_time_that_nobody_knows(ladder: Ladder, change):
    imported = change(ladder.rungs[5], training_seconds=math.nan)
    text = lead(replace(ladder, rungs=[*ladder.rungs[:5], imported]))
    assert text.startswith("Transformer predicts the validation text best: perplexity 122, ")
    assert lead(replace(ladder, rungs=[imported])) == "Transformer predicts the validation text with perplexity 122."


def test_models_that_share_no_tokeniser_are_ranked_by_bits_per_character(ladder: Ladder, change):
    rungs = [*ladder.rungs[:5], change(ladder.rungs[5], perplexity=1e6)]
    assert replace(ladder, rungs=rungs).best().name == "GRU"
    by_bits = replace(ladder, rungs=rungs, yardstick=BY_BITS)
    assert by_bits.best().name == "Transformer"
    assert "best: 1.51 bits per character after" in lead(by_bits)
    assert "0.019 less than GRU (1.52)" in lead(by_bits)


def test_the_unknown_tokens_are_told(ladder: Ladder, tmp_path: Path):
    assert "412 of the 19,816 validation tokens (2.1 %)" in ladder_page(ladder, tmp_path)
    assert "No token of the validation text is unknown" in unknown_note(19_816, 0)


def test_rungs_that_differ_in_unknown_tokens_get_a_column_of_them(ladder: Ladder, tmp_path: Path, change):
    assert "unknowntokens" not in Outline(ladder_page(ladder, tmp_path)).tables[0][0]
    rungs = [change(ladder.rungs[0], unknown=7), *ladder.rungs[1:]]
    head, first, *_ = Outline(ladder_page(replace(ladder, rungs=rungs), tmp_path)).tables[0]
    assert first[head.index("unknowntokens")] == "7"


def test_the_commands_to_go_on_with_are_quoted_for_the_shell(ladder: Ladder, tmp_path: Path):
    rungs = [replace(ladder.rungs[3], folder="my runs/lstm")]
    moved = replace(ladder, rungs=rungs)
    expected = [
        "seqloom generate 'my runs/lstm' --prompt 'The Time Traveller'",
        "seqloom score 'my runs/lstm' --input FILE",
    ]
    assert [
        code.replace("&#x27;", "'") for code in re.findall(r"<code>(.*?)</code>", ladder_page(moved, tmp_path))
    ] == expected
    assert moved.next_command == expected[0]


def test_a_failed_write_leaves_the_old_report(ladder: Ladder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(SeqloomError, match="disk full"):
        write_ladder_page(ladder, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_dark_gives_every_colour_of_the_plots_another_value(ladder: Ladder, tmp_path: Path):
    text = ladder_page(ladder, tmp_path)
    dark = text[text.index("prefers-color-scheme: dark") :].split("}")[0]
    for variable in set(re.findall(r"var\((--[\w-]+), #", text)):
        assert f"{variable}:" in dark


def test_json_is_strict_and_holds_every_number(ladder: Ladder, change):
    endless = change(ladder.rungs[0], perplexity=math.inf, cross_entropy=math.nan)
    document = ladder_json(replace(ladder, rungs=[endless, *ladder.rungs[1:]]))
    read = json.loads(to_json(document))
    assert read["best"] == "Transformer"
    assert read["rungs"][0]["perplexity"] is None
    assert read["rungs"][5]["perplexity"] == ladder.rungs[5].values["perplexity"]
    assert read["rungs"][5]["samples"] == ladder.rungs[5].samples
    assert read["prompts"] == list(ladder.rows)
    assert read["rungs"][5]["curve"][3]["loss"] == ladder.rungs[5].curve[3].loss


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


def test_the_terminal_table_fits_into_80_characters(ladder: Ladder):
    text = printed(ladder)
    assert "…" not in text
    for rung in ladder.rungs:
        assert rung.name in text
    assert re.search(r"Transformer +122 +165 +1\.51 +4\.21M +344\.6 +10\.3k +92\.6k +940", text)


def test_the_terminal_table_highlights_the_best(ladder: Ladder):
    styled = re.findall(r"\x1b\[1;32m *([^ \x1b]+)\x1b", printed(ladder, color=True))
    assert styled == ["148k", "0.3", "575k", "1.2M", "41.2k", "122", "165", "1.51"]


def test_square_brackets_in_a_name_are_not_markup(ladder: Ladder):
    assert "[red]LSTM[/]" in printed(replace(ladder, rungs=[replace(ladder.rungs[3], name="[red]LSTM[/]")]))


def test_only_markup_enters_a_page_unescaped():
    assert element("p", "a < b", Markup("<br>"), title='"x"') == '<p title="&quot;x&quot;">a &lt; b<br></p>'
    assert "<h1>a &lt; b</h1>" in page("a < b")
