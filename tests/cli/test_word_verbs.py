"""`seqloom words` and what the other verbs do with word vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seqloom.models.word_files import write_word2vec
from seqloom.models.word_vectors import WordVectors

WORDS = ["king", "queen", "man", "woman", "apple", "pear", "plum"]


@pytest.fixture(scope="module")
def vectors() -> WordVectors:
    random = np.random.default_rng(0)
    rows = np.array([[1, 1, 0], [1, -1, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]], np.float32)
    return WordVectors(WORDS, rows + random.normal(0, 0.05, rows.shape).astype(np.float32))


@pytest.fixture
def file(vectors: WordVectors, tmp_path: Path) -> Path:
    path = tmp_path / "vectors.txt.gz"
    write_word2vec(vectors, path)
    return path


def test_neighbours_of_several_words(cli, file: Path) -> None:
    shown = cli("words", "neighbours", file, "king", "pear", "-n", 2)
    assert shown.code == 0
    assert shown.out.splitlines()[0] == "king"
    assert {line.split()[1] for line in shown.out.splitlines()[4:]} <= {"apple", "plum"}
    records = cli("words", "neighbours", file, "king", "pear", "--json").records
    assert [record["word"] for record in records] == ["king", "pear"]
    assert len(records[0]["neighbours"]) == 6


def test_an_analogy_is_completed(cli, file: Path) -> None:
    assert cli("words", "analogy", file, "man", "king", "woman", "-n", 1).out.split()[1] == "queen"
    (record,) = cli("words", "analogy", file, "man", "king", "woman", "--json").records
    assert record["answers"][0]["word"] == "queen"


def test_similarity_is_a_cosine(cli, file: Path, vectors: WordVectors) -> None:
    (record,) = cli("words", "similarity", file, "apple", "pear", "--json").records
    assert record["similarity"] == pytest.approx(vectors.similarity("apple", "pear"), abs=1e-6)
    assert float(cli("words", "similarity", file, "apple", "pear").out) == pytest.approx(record["similarity"], abs=1e-4)


def test_evaluation_tells_what_was_left_out(cli, file: Path, tmp_path: Path) -> None:
    pairs, questions = tmp_path / "pairs.tsv", tmp_path / "questions.txt"
    pairs.write_text("apple\tpear\t9\nking\tpear\t1\nking\tunheard\t5\n")
    questions.write_text(": people\nman king woman queen\nman king woman unheard\n")
    records = cli("words", "evaluate", file, "--similarity", pairs, "--analogies", questions, "--json").records
    assert records[0] == {"file": str(pairs), "spearman": 1.0, "pairs": 2, "missing": 1}
    assert records[1]["sections"] == {"people": {"right": 1, "asked": 1}}
    shown = cli("words", "evaluate", file, "--similarity", pairs, "--analogies", questions).out
    assert "Spearman 1.0000 (2 pairs, 1 left out)" in shown
    assert "accuracy 1.0000 (1 of 1 questions, 1 left out)" in shown


def test_a_map_is_drawn(cli, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "map.svg"
    assert cli("words", "map", file, "--out", out).out.strip() == str(out)
    assert "plum" in out.read_text(encoding="utf-8")
    (tmp_path / "mine.txt").write_text("king queen man woman apple nobody")
    (record,) = cli("words", "map", file, "--out", out, "--words", tmp_path / "mine.txt", "--json").records
    assert record["words"] == 5


def test_chinese_characters_are_words_of_a_map(cli, vectors: WordVectors, tmp_path: Path) -> None:
    write_word2vec(WordVectors(list("山水月酒的。鳥"), vectors.vectors), tmp_path / "vectors.txt")
    (record,) = cli("words", "map", tmp_path / "vectors.txt", "--out", tmp_path / "map.svg", "--json").records
    assert record["words"] == 5  # neither the particle nor the mark
    assert "酒" in (tmp_path / "map.svg").read_text(encoding="utf-8")


def test_a_map_of_nothing_is_refused(cli, vectors: WordVectors, tmp_path: Path) -> None:
    words = ["the", "of", "3", "。", "x", "king", "pear"]
    write_word2vec(WordVectors(words, vectors.vectors), tmp_path / "vectors.txt")
    outcome = cli("words", "map", tmp_path / "vectors.txt", "--out", tmp_path / "map.svg")
    assert outcome.code == 2
    assert "only 2 of its 7 words are neither stop words nor numbers" in outcome.error
    assert not (tmp_path / "map.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("neighbours", "FILE", "quen"), "no vector for 'quen' (did you mean 'queen'?)"),
        (("evaluate", "FILE"), "--similarity or --analogies"),
        (("neighbours", "nothing", "king"), "no such run folder"),
        (("map", "FILE", "--words", "FEW"), "only 1 of its 2 words"),
        (("map", "FILE", "--words", "LATIN"), "line 1: not UTF-8"),
    ],
)
def test_mistakes_get_one_line(cli, file: Path, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    (tmp_path / "few.txt").write_text("king nobody")
    (tmp_path / "latin.txt").write_bytes(b"\xe9t\xe9")
    named = {"FILE": str(file), "FEW": str(tmp_path / "few.txt"), "LATIN": str(tmp_path / "latin.txt")}
    outcome = cli("words", *(named.get(argument, argument) for argument in arguments))
    assert outcome.code == 2
    assert message in outcome.error


def test_a_run_is_trained_evaluated_and_exported(cli, tmp_path: Path) -> None:
    text, run, out = tmp_path / "my.txt", tmp_path / "run", tmp_path / "vectors.bin"
    text.write_text("\n".join(["the king and the queen", "an apple and a pear"] * 60), encoding="utf-8")
    settings = [
        f"data.train={text}",
        "model.size=8",
        "model.subsample=0",
        "model.passes=2",
        "model.threads=1",
        "data.valid_fraction=0.2",
    ]
    trained = cli("train", "word2vec", *(part for each in settings for part in ("--set", each)), "--out", run, "-q")
    assert "validation loss" in trained.out
    (figures,) = cli("evaluate", run, "--source", text, "--json").records
    assert "skip-gram; 5 negatives" in figures["loss"]["signature"]
    assert cli("export", run, "--to", "word2vec-binary", out).out.strip() == str(out)
    assert cli("import", out, "--out", tmp_path / "back").code == 0  # it sees what file that is
    for where in (run, out, tmp_path / "back"):
        (record,) = cli("words", "neighbours", where, "king", "--json").records
        assert len(record["neighbours"]) == 7
    refused = cli("generate", run, "--prompt", "the")
    assert refused.code == 2
    assert "not for `seqloom generate`; it is for: evaluate, words neighbours" in refused.err
