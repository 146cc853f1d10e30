"""What runs say of minimal pairs: the same as scoring sentence by sentence, for every kind that scores texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import seqloom
from seqloom.errors import UserError
from seqloom.kinds import compare
from seqloom.reports.ladder_numbers import ladder_json

SMALL = ["data.unit=line", "text.min_count=1", "data.batch_size=4", "data.length=8", "training.device=cpu"]
PAIRS = [
    {"good": "the cat sat on the mat", "bad": "cat the sat on the mat", "phenomenon": "order"},
    {"good": "a dog fell on a mat", "bad": "a dog fell a mat on", "phenomenon": "order"},
    {"good": "the zebra sat", "bad": "the lion sat", "phenomenon": "unknown"},  # the same tokens: a tie
    {"good": "mat", "bad": "the cat and the dog met on the mat", "phenomenon": "length"},
]


def write_pairs(path: Path, pairs: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def runs(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory, without_reports: Any) -> dict[str, Path]:
    """A run of each kind that scores texts, and one of pairs."""
    folder = tmp_path_factory.mktemp("judges")
    given = [f"data.train={corpus_file}", *SMALL]
    tiny = ["model.embedding.size=16", "training.steps=30"]
    ngram = [f"data.train={corpus_file}", "data.unit=line", "text.min_count=1"]
    pairs = folder / "pairs.tsv"
    pairs.write_text("".join(f"{word} {word}\t{word}\n" for word in "abcdefgh") * 8, encoding="utf-8")
    with without_reports():
        seqloom.train("lstm", [*given, *tiny, "model.features.size=16"], folder / "lstm")
        seqloom.train("ngram", [*ngram, "text.kind=run", f"text.path={folder / 'lstm'}"], folder / "ngram")
        seqloom.train(
            "elmo", [*given, "training.steps=2", "model.size=10", "model.input.filters=[2,2,2,2,4]"], folder / "elmo"
        )
        mixed = [str(folder / "ngram"), str(folder / "lstm")]
        held_out = [f"data.train={corpus_file}", "data.unit=line"]
        seqloom.train("interpolation", [f"model.runs=[{', '.join(mixed)}]", *held_out], folder / "interpolation")
        seqloom.train(
            "seq2seq-rnn",
            [f"data.train={pairs}", "data.valid=null", "data.test=null", "training.steps=2", "training.device=cpu"],
            folder / "seq2seq",
        )
    return {path.name: path for path in folder.iterdir() if path.is_dir()}


@pytest.mark.parametrize("kind", ["ngram", "lstm", "elmo", "interpolation"])
def test_a_run_judges_as_sentence_after_sentence_would(runs: dict[str, Path], kind: str) -> None:
    model = seqloom.load(runs[kind])
    found = model.minimal_pairs(PAIRS).preferences
    right: dict[str, list[bool]] = {}
    for pair in PAIRS:
        (good,), (bad,) = model.log_prob(pair["good"]), model.log_prob(pair["bad"])
        right.setdefault(pair["phenomenon"], []).append(good > bad + 1e-5)
    assert found.accuracies == {name: 100 * sum(each) / len(each) for name, each in sorted(right.items())}
    assert found.ties == (kind != "elmo")  # which reads the letters of words that it does not know


def test_a_bigram_model_is_right_where_counts_by_hand_say_so(tmp_path: Path, no_reports: None) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a b\na b\na c\n", encoding="utf-8")
    settings = [f"data.train={text}", "data.unit=line", "text.min_count=1", "model.order=2", "data.valid_fraction=0"]
    model = seqloom.train("ngram", [*settings, "model.smoothing=maximum-likelihood"], tmp_path / "run")
    # p(a b) = 1 · 2/3 · 1 and p(a c) = 1 · 1/3 · 1; what begins with b or c, or has "b a" in it, is impossible.
    pairs = [
        {"good": "a b", "bad": "a c", "phenomenon": "likelier"},
        {"good": "a c", "bad": "a b", "phenomenon": "less likely"},
        {"good": "a c", "bad": "c a", "phenomenon": "possible"},
        {"good": "b a", "bad": "c a", "phenomenon": "neither"},
    ]
    found = model.minimal_pairs(pairs)
    assert dict(found.preferences.accuracies) == {"less likely": 0, "likelier": 100, "neither": 0, "possible": 100}
    assert (found.accuracy, found.mean_over_phenomena, found.pairs, found.ties) == (50.0, 50.0, 4, 1)


def test_pairs_are_scored_together(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = seqloom.load(runs["lstm"])
    batches: list[int] = []
    given = model.model.token_log_probs

    def counted(tokens: torch.Tensor, source: Any = None) -> torch.Tensor:
        batches.append(len(tokens))
        return given(tokens, source)

    monkeypatch.setattr(model.model, "token_log_probs", counted)
    model.minimal_pairs(PAIRS * 100)
    assert sum(batches) == 2 * 100 * len(PAIRS)
    assert len(batches) < 10


def test_the_verb_prints_figures_with_how_they_were_computed(
    runs: dict[str, Path], cli: Callable[..., Any], tmp_path: Path, corpus_file: Path
) -> None:
    file = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    (record,) = cli("evaluate", runs["ngram"], "--minimal-pairs", file, "--json").records
    assert record["pairs"]["value"] == 4
    assert record["phenomenon: order"]["value"] == 100.0
    for part in ("natural log", "a tie is wrong", "tokenizer words", "seqloom "):
        assert part in record["accuracy"]["signature"]
    assert "perplexity" not in record
    both = cli("evaluate", runs["ngram"], "--minimal-pairs", file, "--source", corpus_file)
    assert "phenomenon: order" in both.out
    assert "perplexity" in both.out
    twice = cli("evaluate", runs["ngram"], "--minimal-pairs", file, "--minimal-pairs", file, "--json").records
    assert twice[0]["pairs"]["value"] == 8


def test_models_of_pairs_and_of_images_are_refused_by_a_sentence(
    runs: dict[str, Path], cli: Callable[..., Any], tmp_path: Path
) -> None:
    file = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    refused = cli("evaluate", runs["seq2seq"], "--minimal-pairs", file)
    assert refused.code == 2
    assert "scores targets given their sources, and no sentences by themselves" in refused.error
    with pytest.raises(UserError, match="minimal pairs are judged by models of text"):
        compare(["seq2seq-rnn"], out=tmp_path / "out", minimal_pairs=file)
    missing = cli("evaluate", runs["ngram"], "--minimal-pairs", tmp_path / "none.jsonl")
    assert missing.code == 2
    assert "none.jsonl: no such file" in missing.error


def test_a_ladder_shows_what_its_models_know(runs: dict[str, Path], cli: Callable[..., Any], tmp_path: Path) -> None:
    file = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    out = tmp_path / "compared"
    shown = cli("compare", runs["ngram"], runs["lstm"], "--minimal-pairs", file, "--out", out)
    assert shown.code == 0, shown.err
    heading, below = shown.out.splitlines()[1:3]
    assert " pairs " in heading
    assert " % " in below
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<h2>What they know</h2>" in page
    assert "Accuracy on minimal pairs by phenomenon" in page
    ladder = compare([runs["ngram"], runs["lstm"]], out=out, minimal_pairs=file)
    found = {name: seqloom.load(runs[name]).minimal_pairs(PAIRS).preferences for name in ("ngram", "lstm")}
    for rung, each in zip(ladder_json(ladder)["rungs"], found.values(), strict=True):
        assert rung["minimal_pairs"] == each.accuracy
        assert rung["minimal_pairs_mean"] == each.mean
        assert rung["minimal_pairs: order"] == each.accuracies["order"]
    assert ladder_json(ladder)["minimal_pairs"] == {"length": 1, "order": 2, "unknown": 1}
    assert f"minimal_pairs={file}" in ladder.command.replace("PosixPath(", "").replace("'", "").replace(")", "")
