"""`seqloom compare` for models of pairs."""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqloom.runs.contests import PairContest

pytestmark = pytest.mark.usefixtures("no_reports")

Cli = Callable[..., Any]
NAMES = PairContest.presets
SMALL = [
    part
    for setting in (
        "model.embedding.size=8",
        "model.encoder.size=8",
        "model.decoder.size=8",
        "model.encoder.layers=1",
        "model.decoder.layers=1",
        "training.device=cpu",
    )
    for part in ("--set", setting)
]


@pytest.fixture
def words() -> list[str]:
    generator = random.Random(2)
    return sorted({" ".join(generator.choices("abcd", k=generator.randint(2, 5))) for _ in range(80)})


@pytest.fixture
def pairs_file(words: list[str], tmp_path: Path) -> Path:
    """Words letter by letter, and the same backwards."""
    path = tmp_path / "backwards.tsv"
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    return path


def test_two_models_of_pairs_in_a_table_that_says_how_to_go_on(cli: Cli, pairs_file: Path, tmp_path: Path) -> None:
    command = ("compare", *NAMES[:2], "--data", pairs_file, *SMALL, "--tokens", 200, "--out", tmp_path / "out")
    done = cli(*command)
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].strip() == "The ladder on backwards.tsv"
    assert "BLEU|nrefs:1" in done.out
    assert f"report: {tmp_path / 'out' / 'report.html'}" in done.out
    following = shlex.split(done.out.splitlines()[-1].removeprefix("next:"))
    assert following[:2] == ["seqloom", "generate"]
    assert cli(*following[1:], "--device", "cpu").code == 0

    again = cli(*command, "--json", "--quiet")
    assert again.err == ""
    (ladder,) = again.records
    assert [rung["name"] for rung in ladder["rungs"]] == list(NAMES[:2])
    assert ladder["best"] in NAMES[:2]
    assert following[2] == str(tmp_path / "out" / ladder["best"])
    assert [len(rung["samples"]) for rung in ladder["rungs"]] == [len(ladder["examples"])] * 2
    assert ladder["signature"].startswith("BLEU|")


def test_pairs_without_names_are_given_to_the_ladder_of_pairs(
    cli: Cli, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.src").write_text("".join(f"{word}\n" for word in words))
    (tmp_path / "a.tgt").write_text("".join(f"{word}\n" for word in words))
    monkeypatch.setattr(PairContest, "presets", NAMES[2:])
    data = f"{tmp_path / 'a.src'},{tmp_path / 'a.tgt'}"
    done = cli("compare", "--data", data, *SMALL, "--tokens", 50, "--out", tmp_path / "out", "--quiet", "--json")
    assert done.code == 0, done.err
    (ladder,) = done.records
    assert [rung["name"] for rung in ladder["rungs"]] == list(NAMES[2:])
    assert ladder["corpus"] == "a.src, a.tgt"


def test_a_mixture_of_kinds_is_refused(cli: Cli, pairs_file: Path, tmp_path: Path) -> None:
    done = cli("compare", "gru", "seq2seq-rnn", "--data", pairs_file, "--out", tmp_path / "out")
    assert done.code == 2
    assert done.error.startswith("'gru' learns from text and 'seq2seq-rnn' from pairs")
    assert not (tmp_path / "out").exists()


def test_files_that_are_not_aligned_are_named_and_nothing_is_left(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.src").write_text("a\nb\n")
    (tmp_path / "a.tgt").write_text("A\n")
    done = cli("compare", "--data", f"{tmp_path / 'a.src'},{tmp_path / 'a.tgt'}", "--out", tmp_path / "out")
    assert done.code == 2
    assert "a.src has 2 lines" in done.error
    assert not (tmp_path / "out").exists()
