"""`seqloom inspect ngrams`"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seqloom

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def counted(corpus_file: Path, without_reports: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("counted") / "ngram"
    with without_reports():
        seqloom.train("ngram", [f"data.train={corpus_file}", "data.valid_fraction=0.2", "model.order=3"], path)
    return path


def test_tables_and_a_picture(cli: Cli, counted: Path, tmp_path: Path) -> None:
    done = cli("inspect", "ngrams", counted, "--out", tmp_path / "seen.png")
    assert done.code == 0
    assert done.err == f"picture: {tmp_path / 'seen.png'}\n"
    assert (tmp_path / "seen.png").read_bytes().startswith(b"\x89PNG")
    titles = [line.strip() for line in done.out.splitlines() if line.strip().endswith(" text")]
    assert titles == ["training text", "held-out text"]
    assert max(map(len, done.out.splitlines())) <= 80
    assert sum(line.split()[:1] == ["3"] for line in done.out.splitlines()) == 2


def test_json_adds_up_to_what_evaluate_says(cli: Cli, counted: Path, corpus_file: Path, tmp_path: Path) -> None:
    for source in ((), ("--source", corpus_file)):
        (found,) = cli("inspect", "ngrams", counted, *source, "--out", tmp_path / "p.svg", "--json").records
        (figures,) = cli("evaluate", counted, *source, "--json").records
        assert found["run"] == str(counted)
        assert len(found["orders"]) == len(found["text"]) == 3
        assert sum(row["predicted"] for row in found["text"]) == figures["tokens"]["value"]
        assert sum(row["log_prob"] for row in found["text"]) == pytest.approx(figures["log_prob"]["value"], rel=1e-5)
        for row in found["text"]:
            expected = math.exp(-row["log_prob"] / row["predicted"]) if row["predicted"] else None
            assert row["perplexity"] == pytest.approx(expected) if expected else row["perplexity"] is None


def test_without_held_out_text_there_is_one_table(cli: Cli, corpus_file: Path, tmp_path: Path) -> None:
    cli("train", "ngram", "--set", f"data.train={corpus_file}", "--out", tmp_path / "whole", "--quiet")
    done = cli("inspect", "ngrams", tmp_path / "whole", "--out", tmp_path / "p.svg")
    assert "training text" in done.out
    assert "held-out" not in done.out
    (found,) = cli("inspect", "ngrams", tmp_path / "whole", "--out", tmp_path / "p.svg", "--json").records
    assert found["text"] == []


def test_an_imported_model_has_sizes_and_can_be_asked(
    cli: Cli, counted: Path, corpus_file: Path, tmp_path: Path
) -> None:
    cli("export", counted, tmp_path / "model.arpa", "--to", "arpa")
    cli("import", tmp_path / "model.arpa", "--out", tmp_path / "imported")
    options = ("--source", corpus_file, "--out", tmp_path / "p.svg", "--json")
    (found,) = cli("inspect", "ngrams", tmp_path / "imported", *options).records
    (original,) = cli("inspect", "ngrams", counted, *options).records
    assert [list(row) for row in found["orders"]] == [["ngrams"]] * 3
    assert [row["found"] for row in found["text"]] == [row["found"] for row in original["text"]]


def test_a_neural_model_has_no_ngrams(cli: Cli, run: Path) -> None:
    done = cli("inspect", "ngrams", run)
    assert done.code == 2
    assert done.error.startswith(f"{run} is a model of kind 'language', which is not for `seqloom inspect ngrams`")


def test_a_wrong_name_for_the_picture_is_refused_before_anything_is_printed(cli: Cli, counted: Path) -> None:
    done = cli("inspect", "ngrams", counted, "--out", "p.gif")
    assert done.code == 2
    assert "must end in one of .png, .svg, .pdf" in done.error
