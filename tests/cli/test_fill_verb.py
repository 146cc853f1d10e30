"""`seqloom fill`: texts, lines and mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import seqloom


@pytest.fixture(scope="module")
def run(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "bert"
    settings = ["data.valid=null", "data.test=null", "data.valid_fraction=0.2", "data.unit=line", "data.length=16"]
    settings += [f"data.train={corpus_file}", "text={kind: words}", "model.embedding.size=8", "training.steps=3"]
    settings += ["model.encoder={size: 8, layers: 1, heads: 2}", "training.device=cpu"]
    seqloom.train("bert", settings, out, report=False)
    return out


def test_texts_are_filled_in_and_their_blanks_listed(run: Path, cli: Any) -> None:
    done = cli("fill", run, "the [MASK] sat on the [MASK]", "a [MASK]", "--top", "2")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    first, *blanks = lines[:5]
    filled = seqloom.load(run, "cpu").fill("the [MASK] sat on the [MASK]", top=2)[0]
    assert first == filled.text
    expected = [
        ["", str(number), f"{each.probability:.4f}", each.token]
        for number, blank in enumerate(filled.blanks, start=1)
        for each in blank
    ]
    assert [line.split("\t") for line in blanks] == expected
    assert len(lines) == 8


def test_lines_of_stdin_are_answered_as_objects(run: Path, cli: Any) -> None:
    done = cli("fill", run, "--json", "--top", "1", stdin="the [MASK] sat\n[MASK]\n")
    assert done.code == 0, done.err
    records = [json.loads(line) for line in done.out.splitlines()]
    assert [record["text"] for record in records] == ["the [MASK] sat", "[MASK]"]
    for record in records:
        ((candidate,),) = record["blanks"]
        assert 0 < candidate["probability"] <= 1
        assert record["filled"] == record["text"].replace("[MASK]", candidate["token"])


def test_what_has_no_blank_is_refused_after_what_has_one(run: Path, cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("the [MASK] sat\nthe cat sat\n", encoding="utf-8")
    done = cli("fill", run, "--input", file)
    assert done.code == 2
    assert f"{file}, line 2 has no blank: write [MASK] where a word is missing" in done.err
    assert done.out.startswith("the ")
    done = cli("fill", run, "the cat sat")
    assert done.code == 2
    assert "'the cat sat' has no blank" in done.error
    done = cli("fill", run, "the [MASK]", "--input", file)
    assert done.code == 2
    assert "not both" in done.error
