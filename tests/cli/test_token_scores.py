"""Scores of single tokens, and lines that are answered as they come."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import seqloom
from seqloom.cli.options import read_batches
from seqloom.errors import DataError, UserError
from seqloom.interop import export_arpa
from seqloom.text.special import BOS, EOS

Cli = Callable[..., Any]
LINES = ["the cat sat on the mat", "a cat fell on a log and a yeti met the dog", "dog dog", "yeti", ""]
ENDS = [(True, True), (True, False), (False, True), (False, False)]


@pytest.fixture(scope="module")
def ngram(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ngram") / "run"
    settings = {"data": {"train": str(corpus_file), "unit": "line"}, "model.order": 3, "text.min_count": 1}
    seqloom.train("ngram", settings, path, report=False)
    return path


@pytest.mark.parametrize(("bos", "eos"), ENDS)
def test_tokens_score_as_in_the_kenlm_module(cli: Cli, ngram: Path, tmp_path: Path, bos: bool, eos: bool) -> None:
    kenlm = pytest.importorskip("kenlm", reason="comes with the extra `bench`")
    model = seqloom.load(ngram)
    export_arpa(ngram, tmp_path / "model.arpa")
    theirs = kenlm.Model(str(tmp_path / "model.arpa"))
    (tmp_path / "test.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    options = ["--bos" if bos else "--no-bos", "--eos" if eos else "--no-eos", "--base", "10", "--tokens", "--json"]
    *printed, totals = cli("score", ngram, "--input", tmp_path / "test.txt", *options).records
    everything = 0.0
    for line, record in zip(LINES, printed, strict=True):
        expected = list(theirs.full_scores(line, bos=bos, eos=eos))
        found = model.full_scores(line, bos=bos, eos=eos)
        assert [token.text for token in found] == [*line.split(), *["<eos>"][:eos]]
        assert [(token.order, token.unknown) for token in found] == [(order, oov) for _, order, oov in expected]
        log10 = [log_prob for log_prob, _, _ in expected]
        assert [token.log_prob / math.log(10) for token in found] == pytest.approx(log10, abs=1e-5)
        (score,) = model.score(line, bos=bos, eos=eos)
        assert score.log_prob / math.log(10) == pytest.approx(sum(log10), abs=1e-4)
        assert record["log_prob"] == pytest.approx(sum(log10), abs=1e-4)
        assert (record["tokens"], record["unknown"]) == (len(expected), sum(oov for *_, oov in expected))
        assert [token["order"] for token in record["token_scores"]] == [order for _, order, _ in expected]
        everything += sum(log10)
    assert totals["total_log_prob"] == pytest.approx(everything, abs=1e-4)


def test_tokens_of_a_network_score_as_its_steps_say(run: Path) -> None:
    model = seqloom.load(run)
    found = model.full_scores("the dog met a yeti")
    ids = model.tokenizer.encode("the dog met a yeti")
    with torch.inference_mode():
        steps, state = model.model.read(model.model.start(1), torch.tensor([[BOS]]))
        for token, id in zip(found, [*ids, EOS], strict=True):
            assert token.log_prob == pytest.approx(float(steps[0, id]), abs=1e-4)
            steps, state = model.model.step(state, torch.tensor([id]))
    assert [token.unknown for token in found] == [False] * 4 + [True, False]
    assert {token.order for token in found} == {None}
    assert model.full_scores("the dog", eos=False) == found[:2]
    with pytest.raises(UserError, match="only n-gram models do without"):
        model.full_scores("the dog", bos=False)


def test_a_model_of_whole_files_ends_lines_with_newlines(corpus_file: Path, tmp_path: Path) -> None:
    settings = {"data": {"train": str(corpus_file), "unit": "file"}, "text.kind": "characters", "model.order": 2}
    model = seqloom.train("ngram", settings, tmp_path / "run", report=False)
    assert [token.text for token in model.full_scores("a cat")] == [*"a cat", "\n"]
    assert model.full_scores("a cat", eos=False) == model.full_scores("a cat")[:-1]
    assert sum(token.log_prob for token in model.full_scores("a cat")) == pytest.approx(model.log_prob("a cat")[0])


def test_plain_tokens_stand_below_their_line(cli: Cli, ngram: Path) -> None:
    done = cli("score", ngram, "--tokens", "--no-total", stdin="the cat\nyeti\n")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [row[-1] for row in rows] == ["the cat", "the", "cat", "<eos>", "yeti", "yeti", "<eos>"]
    assert [row[3] for row in rows if not row[0]] == ["0", "0", "0", "1", "0"]
    assert sum(float(row[1]) for row in rows[1:4]) == pytest.approx(float(rows[0][0]), abs=2e-4)


def test_totals_and_lines_can_be_had_apart(cli: Cli, ngram: Path) -> None:
    both, lines, totals = (
        cli("score", ngram, *which, stdin="the cat\na dog\n").out for which in ((), ("--no-total",), ("--total",))
    )
    assert both == lines + totals
    assert len(lines.splitlines()) == 2
    bits, nats = (cli("score", ngram, "--base", base, "--json", stdin="the cat\n").records for base in ("2", "e"))
    assert bits[0]["log_prob"] == pytest.approx(nats[0]["log_prob"] / math.log(2))
    assert bits[1]["perplexity"] == nats[1]["perplexity"]


# ------------------------------------------------------------------------------------------------------ standard input


@contextmanager
def standard_input_is(descriptor: int) -> Iterator[None]:
    kept = os.dup(0)
    os.dup2(descriptor, 0)
    try:
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


def test_a_line_of_a_pipe_is_there_before_the_next_one_is_written() -> None:
    read, write = os.pipe()
    with standard_input_is(read), ThreadPoolExecutor(1) as pool:
        batches = read_batches("-", 100)
        try:
            for line in ("first", "second"):
                os.write(write, f"{line}\n".encode())
                assert pool.submit(next, batches).result(timeout=20) == [line]
        finally:
            os.close(write)
        assert list(batches) == []
    os.close(read)


def test_a_pipe_gives_all_its_lines_in_batches_and_names_a_wrong_one() -> None:
    read, write = os.pipe()
    lines = [f"line {number}" for number in range(500)]
    os.write(write, "".join(f"{line}\n" for line in lines).encode() + b"\xff\n")
    os.close(write)
    found: list[str] = []
    with standard_input_is(read), pytest.raises(DataError, match="line 501: not UTF-8"):  # noqa: PT012
        for batch in read_batches("-", 64):
            assert len(batch) <= 64
            found += batch
    os.close(read)
    assert found == lines


def test_a_terminal_is_told_what_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    keyboard, terminal = os.openpty()
    os.write(keyboard, b"the cat\n\x04")
    with standard_input_is(terminal):
        assert list(read_batches("-", 10)) == [["the cat"]]
    assert capsys.readouterr().err == "one text per line, please; Ctrl-D ends\n"
    os.close(terminal)
    os.close(keyboard)
