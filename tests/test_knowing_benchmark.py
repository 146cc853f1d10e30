"""The benchmark of what models know: its text, its models and its tables."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import pytest

from seqloom.config import load_config

sys.path.insert(0, str(Path(__file__).parents[1]))  # the benchmarks are not installed

from benchmarks import knowing


def test_lines_are_cut_into_sentences_and_titles_are_not_their_ends() -> None:
    line = 'Mr. Holmes smiled. "Well, Watson?" He stood up!  (It was late.) the end. J. Wells wrote'
    assert list(knowing.sentences(line)) == [
        "Mr. Holmes smiled.",
        '"Well, Watson?"',
        "He stood up!",
        "(It was late.) the end.",
        "J. Wells wrote",
    ]
    assert list(knowing.sentences("  ")) == []


def test_no_more_words_are_taken_than_asked_for(tmp_path: Path) -> None:
    text, part = tmp_path / "text.txt", tmp_path / "part.txt"
    text.write_text("One two. Three four five.\nSix.\n", encoding="utf-8")
    knowing.cut([str(text)], part, 5)
    assert part.read_text(encoding="utf-8") == "One two.\nThree four five.\n"


@pytest.mark.parametrize("tiny", [True, False])
def test_all_models_are_configured_for_one_tokeniser_the_same_text_and_ten_passes(tmp_path: Path, tiny: bool) -> None:
    texts = {part: tmp_path / f"{part}.txt" for part in ("train", "valid")}
    names = knowing.model_names()
    arguments = Namespace(models=",".join(names), minutes=9.0, vocabulary=8000, tiny=tiny)
    found = knowing.configurations(texts, tmp_path / "ngram", arguments)
    assert list(found) == names
    for name, config in found.items():
        whole = load_config(config)
        assert (whole.data.train, whole.data.valid, whole.data.unit) == (*map(str, texts.values()), "line")
        if name != "ngram":
            assert whole.text.path == str(tmp_path / "ngram")
            assert (whole.training.epochs, whole.training.minutes) == (10, 9.0)


def test_tables_have_a_row_for_each_model_and_mark_what_does_not_compare() -> None:
    figures = {"parameters": 24e6, "seconds": 300.0, "perplexity": 31.4, "accuracy": 70.25, "mean_over_phenomena": 69.0}
    figures |= {"pairs": 1340, "ties": 0, "phenomenon: binding": 70.0}
    said = knowing.tables({"gpt": figures, "bert": figures}, Namespace(words=10_000_000, vocabulary=8000, minutes=9.0))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines()]
    assert ["gpt", "24.0 M", "5.0", "31.4", "70.2", "69.0"] in rows
    assert ["bert", "24.0 M", "5.0", "31.4 (pseudo)", "70.2", "69.0"] in rows
    assert ["binding", "70.0", "70.0"] in rows
