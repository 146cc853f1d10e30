"""`predict` and `embed`, and the other verbs on runs that label."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.numpy import load_file

import seqloom


@pytest.fixture(scope="module")
def runs(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tagger, a classifier and an ELMo, all of them hardly trained."""
    folder = tmp_path_factory.mktemp("labelling")
    tagged = [f"the D\ncat{number} N\n\na D\ndog{number} N\nsat V\n\n" for number in range(20)]
    (folder / "tagged.txt").write_text("".join(tagged), encoding="utf-8")
    labelled = [f"up\tthe cat {number}\ndown\ta dog {number}\n" for number in range(18)]
    (folder / "labels.tsv").write_text("".join(labelled), encoding="utf-8")
    tiny = ["training.steps=2", "training.device=cpu", "model.size=8", "text.min_count=1"]
    heads = [*tiny, "model.features.size=8", "data.valid_fraction=0.5"]
    seqloom.train("tagger", [*heads, f"data.train={folder / 'tagged.txt'}"], folder / "tagger")
    seqloom.train("classifier", [*heads, f"data.train={folder / 'labels.tsv'}"], folder / "classifier")
    text = [f"data.train={corpus_file}", "data.unit=line", "model.output.samples=4", "model.input.filters=[1,1,1,1,4]"]
    seqloom.train("elmo", [*tiny, *text, "data.batch_size=4", "data.length=8"], folder / "elmo")
    return folder


def test_a_tagger_writes_a_line_of_tags_for_a_line_of_words(cli: Callable, runs: Path, tmp_path: Path) -> None:
    done = cli("predict", runs / "tagger", stdin="the cat sat\n\na dog\n")
    assert [len(line.split()) for line in done.out.split("\n")[:3]] == [3, 0, 2]
    assert set(done.out.split()) <= {"D", "N", "V"}
    (record,) = cli("predict", runs / "tagger", "--json", stdin="the cat\n").records
    assert record["words"] == ["the", "cat"]
    assert len(record["tags"]) == 2
    out = tmp_path / "tags.txt"
    cli("predict", runs / "tagger", "--output", out, stdin="the cat sat\n\na dog\n")
    assert out.read_text(encoding="utf-8") == done.out


def test_a_classifier_writes_label_probability_and_text(cli: Callable, runs: Path) -> None:
    done = cli("predict", runs / "classifier", stdin="the cat\na dog\n")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [row[2] for row in rows] == ["the cat", "a dog"]
    assert all(0.5 <= float(row[1]) <= 1 for row in rows)
    (record,) = cli("predict", runs / "classifier", "--json", stdin="the cat\n").records
    assert set(record["probabilities"]) == {"up", "down"}


def test_evaluate_names_its_figures(cli: Callable, runs: Path) -> None:
    (tagger,) = cli("evaluate", runs / "tagger", "--json").records
    assert {"accuracy", "macro_f1", "f1"} <= set(tagger)
    (classifier,) = cli("evaluate", runs / "classifier", "--source", runs / "labels.tsv", "--json").records
    assert classifier["texts"]["value"] == 36
    (elmo,) = cli("evaluate", runs / "elmo", "--json").records
    assert {"perplexity", "backward_perplexity"} <= set(elmo)


def test_an_elmo_run_embeds_scores_and_generates(cli: Callable, runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "vectors.safetensors"
    assert "2 lines, 5 words" in cli("embed", runs / "elmo", "--output", out, stdin="the cat sat\na dog\n").out
    arrays = load_file(out)
    assert arrays["lengths"].tolist() == [3, 2]
    assert arrays["vectors"].shape == (5, 16)
    cli("embed", runs / "elmo", "--mix", "layers", "--output", out, stdin="the cat sat\n")
    assert load_file(out)["vectors"].shape == (3, 3, 16)
    assert cli("score", runs / "elmo", "--json", stdin="the cat\n").records[0]["tokens"] == 3
    assert cli("generate", runs / "elmo", "--prompt", "the", "--max-length", "3").code == 0


def test_training_ends_with_the_next_command(cli: Callable, runs: Path, tmp_path: Path) -> None:
    settings = ["--set", f"data.train={runs / 'labels.tsv'}", "--set", "training.steps=1", "--set", "text.min_count=1"]
    done = cli("train", "classifier", *settings, "--set", "data.valid_fraction=0.5", "--out", tmp_path / "run")
    assert "validation accuracy" in done.out
    assert "seqloom predict" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("predict", "elmo"), "not for `seqloom predict`; it is for: evaluate, generate, score, embed"),
        (("embed", "tagger", "--output", "x.safetensors"), "not for `seqloom embed`; it is for: evaluate, predict"),
        (("score", "tagger"), "not for `seqloom score`"),
        (("generate", "classifier", "--prompt", "a"), "not for `seqloom generate`"),
    ],
)
def test_verbs_refuse_runs_of_another_kind(cli: Callable, runs: Path, arguments: tuple[str, ...], message: str) -> None:
    verb, run, *rest = arguments
    done = cli(verb, runs / run, *rest, stdin="a\n")
    assert done.code == 2
    assert message in done.error
