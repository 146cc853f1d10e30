"""Models of pairs compared: on equal terms, measured as each would be alone, and trained only once."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

import seqloom
from seqloom import Decoding
from seqloom.config import RunConfig, load_config
from seqloom.data.corpora import data_settings
from seqloom.errors import UserError
from seqloom.kinds import compare
from seqloom.metrics.text_scores import text_scores
from seqloom.reports.ladder import Ladder
from seqloom.runs.comparison import ladder_for
from seqloom.runs.contests import ImageContest, PairContest, TextContest
from seqloom.runs.contests.pairs import BEAM

NAMES = ["seq2seq-rnn", "seq2seq-transformer"]
SMALL = [
    "data.valid=null",
    "data.test=null",
    "data.valid_fraction=0.1",
    "model.embedding.size=8",
    "model.encoder.size=8",
    "model.decoder.size=8",
    "model.encoder.layers=1",
    "model.decoder.layers=1",
    "training.device=cpu",
    "training.log_every=1",
]


@pytest.fixture(scope="module")
def pairs_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hundred words of two to six letters, and the same in capitals."""
    generator = random.Random(1)
    words = {tuple(generator.choices("abcd", k=generator.randint(2, 6))) for _ in range(400)}
    lines = [f"{' '.join(word)}\t{' '.join(word).upper()}\n" for word in sorted(words)[:200]]
    generator.shuffle(lines)
    path = tmp_path_factory.mktemp("pairs") / "letters.tsv"
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def no_ladder_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.reports.ladder_page.write_ladder_page", lambda ladder, path: None)
    monkeypatch.setattr("seqloom.runs.engine.write_report", lambda trained: None)


@pytest.fixture(scope="module")
def settings(pairs_file: Path) -> list[str]:
    return [f"data.train={pairs_file}", *SMALL]


@pytest.fixture(scope="module")
def other(settings: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration that brings a seed, a tokeniser and batches of its own."""
    path = tmp_path_factory.mktemp("configs") / "other.yaml"
    path.write_text(
        "{seed: 7, text: {kind: characters}, data: {kind: pairs, batch_tokens: 60}, model: {kind: seq2seq}, "
        "objective: {kind: teacher-forcing}, training: {epochs: 9, accumulate: 2}}"
    )
    return path


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ladder")


@pytest.fixture(scope="module")
def ladder(settings: list[str], other: Path, out: Path) -> Ladder:
    return compare([*NAMES, other], [*settings, "training.steps=5"], out, tokens=2000)


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


# ------------------------------------------------------------------------------------------------------ equal terms


def test_all_learn_from_the_same_pairs_under_the_same_tokenisers_and_seed(ladder: Ladder, out: Path) -> None:
    def shared(config: RunConfig) -> list[Any]:
        data = config.data.model_dump(exclude={"batch_tokens"})
        return [config.text, config.target_text, config.seed, data]

    configs = [load_config(out / rung.name / "config.yaml") for rung in ladder.rungs]
    assert all(shared(config) == shared(configs[0]) for config in configs)
    assert [config.data.batch_tokens for config in configs][-1] == 60
    for name in ("tokenizer.json", "target_tokenizer.json"):
        assert len({(out / rung.name / "assets" / name).read_text() for rung in ladder.rungs}) == 1


def test_all_see_as_many_target_tokens_whatever_their_batches(ladder: Ladder, out: Path) -> None:
    entries = [metrics(out / rung.name)[-1] for rung in ladder.rungs]
    steps = [entry["step"] for entry in entries]
    assert steps[2] > 2 * steps[0]  # batches of 60 tokens and of 512
    for entry in entries:
        assert abs(entry["tokens"] - 2000) <= entry["tokens"] / entry["step"]


@pytest.mark.usefixtures("no_ladder_page")
def test_without_a_budget_the_first_ones_holds(settings: list[str], pairs_file: Path, tmp_path: Path) -> None:
    training = pairs_file.read_text().splitlines()[:180]
    tokens = sum(len(line.split("\t")[1].split()) + 1 for line in training)
    settings = [*settings, "data.batch_tokens=60"]
    compare(NAMES[:1], [*settings, "training.epochs=2"], tmp_path / "epochs")
    assert metrics(tmp_path / "epochs" / NAMES[0])[-1]["tokens"] == 2 * tokens
    compare(NAMES[:1], [*settings, "training.steps=3"], tmp_path / "steps")
    assert metrics(tmp_path / "steps" / NAMES[0])[-1]["step"] == 3


# ---------------------------------------------------------------------------------------------------------- figures


def test_each_rung_has_the_scores_that_its_run_has_alone(ladder: Ladder) -> None:
    for rung in ladder.rungs:
        model = seqloom.load(rung.folder, "cpu")
        greedy = model.evaluate(decoding=Decoding(strategy="greedy")).scores
        beam = model.evaluate(decoding=Decoding(strategy="beam", beam=BEAM)).scores
        assert rung.values["bleu"] == pytest.approx(greedy["BLEU"].value)
        assert rung.values["beam_bleu"] == pytest.approx(beam["BLEU"].value)
        assert rung.values["chrf"] == pytest.approx(beam["chrF"].value)
        assert rung.values["perplexity"] == pytest.approx(beam["perplexity"].value, rel=1e-4)
        assert ladder.caption == beam["BLEU"].signature
        assert rung.samples == model.translate(ladder.rows, beam=BEAM)
        assert rung.values["parameters"] == model.parameters


def test_each_rung_has_its_cost_and_learning_curve(ladder: Ladder, out: Path) -> None:
    for rung in ladder.rungs:
        entries = metrics(out / rung.name)
        assert rung.values["training_seconds"] == max(entry["seconds"] for entry in entries)
        assert [point.loss for point in rung.curve] == [e["valid_loss"] for e in entries if "valid_loss" in e]
        best = min(point.loss for point in rung.curve)  # whose weights were kept
        assert rung.values["perplexity"] == pytest.approx(math.exp(best), rel=1e-4)
        assert min(rung.values[f"{each}_speed"] for each in ("training", "greedy", "beam")) > 0


def test_the_ladder_says_what_was_compared_and_shows_held_out_pairs(ladder: Ladder, pairs_file: Path) -> None:
    lines = pairs_file.read_text().splitlines()
    record = ladder.record
    assert (record["training_pairs"], record["validation_pairs"]) == (180, 20)
    assert ladder.title == "The ladder on letters.tsv"
    assert record["tokenizer"] == "words in the target; 8 words in the source"  # four letters, four special symbols
    assert len(record["examples"]) == 6
    assert {"\t".join(example) for example in record["examples"]} < set(lines[180:])
    shortest = min(ladder.rows, key=len)
    assert ladder.next_command == f"seqloom generate {ladder.best().folder} --prompt '{shortest}'"


def test_the_report_is_written(ladder: Ladder, out: Path) -> None:
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(rung.name in page for rung in ladder.rungs)
    assert all(source in page for source in ladder.rows)
    assert all((out / rung.name / "report.html").is_file() for rung in ladder.rungs)
    assert "saw only" not in page  # 2,000 tokens are more than one pass


@pytest.mark.usefixtures("no_ladder_page")
def test_a_second_call_trains_nothing_and_finds_the_same(
    ladder: Ladder, settings: list[str], other: Path, out: Path
) -> None:
    def left() -> list[Any]:
        runs = [out / rung.name for rung in ladder.rungs]
        return [(run / "model.safetensors").stat().st_mtime_ns for run in runs] + [metrics(run) for run in runs]

    before = left()
    again = compare([*NAMES, other], [*settings, "training.steps=5"], out, tokens=2000)
    assert left() == before
    for one, two in zip(ladder.rungs, again.rungs, strict=True):
        for key in ("bleu", "beam_bleu", "chrf", "perplexity", "training_seconds"):
            assert one.values[key] == two.values[key]
        assert (one.samples, one.curve) == (two.samples, two.curve)


def test_exact_match_is_the_share_of_outputs_that_are_one_of_their_references() -> None:
    references = [["A B"], ["C", "D E"], ["F"], ["G"]]
    score = text_scores(["A B", "D  E", "f", "G H"], references)["exact match"]
    assert score.value == 50.0
    assert "a reference" in score.signature


# ------------------------------------------------------------------------------------------------------- refusals


def test_language_models_and_models_of_pairs_are_not_compared(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'lstm' learns from text and 'seq2seq-rnn' from pairs"):
        compare(["lstm", "seq2seq-rnn"], out=tmp_path / "out")
    with pytest.raises(UserError, match="'seq2seq-rnn' learns from pairs and 'lstm' from text"):
        compare(["seq2seq-rnn", "lstm"], out=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_run_of_another_configuration_is_refused_before_any_training(
    ladder: Ladder, settings: list[str], out: Path
) -> None:
    changed = [*settings, "training.steps=5", "model.decoder.dropout=0.45"]
    with pytest.raises(UserError, match=r"seq2seq-transformer holds a run of another configuration \(model.decoder"):
        compare(["seq2seq-transformer", "seq2seq-attention"], changed, out, tokens=2000)
    assert not (out / "seq2seq-attention").exists()


@pytest.mark.usefixtures("no_ladder_page")
def test_a_model_that_copies_needs_one_tokeniser_for_both_sides(
    settings: list[str], other: Path, tmp_path: Path
) -> None:
    pointer = tmp_path / "pointer.yaml"
    pointer.write_text(other.read_text().replace("kind: seq2seq", "kind: seq2seq, copying: {kind: pointer}"))
    with pytest.raises(UserError, match=r"'pointer' copies, .* --set target_text=null"):
        compare([pointer, *NAMES], settings, tmp_path / "out", tokens=100)  # two have a tokeniser for each side
    assert not (tmp_path / "out").exists()
    joint = compare([pointer, *NAMES], [*settings, "target_text=null"], tmp_path / "out", tokens=100)
    assert joint.record["tokenizer"] == "words, for both sides"


# ------------------------------------------------------------------------------------------------- what is compared


@pytest.mark.parametrize(
    "data",
    ["my.tsv", "folder/my.TSV.gz", "my.en,my.de", "cmudict", "tatoeba-en-zh:valid", "operations"],
)
def test_pairs_are_compared_by_models_of_pairs(data: str) -> None:
    assert ladder_for(data) == PairContest.presets


@pytest.mark.parametrize("data", [None, "my.txt", "my.jsonl", "shakespeare", "tang-poems", "time-machine:train"])
def test_all_else_is_compared_by_language_models(data: str | None) -> None:
    assert ladder_for(data) == TextContest.presets


@pytest.mark.parametrize("data", ["digits", "fashion:test", "train-images-idx3-ubyte.gz", "my.idx3"])
def test_images_are_compared_by_models_of_images(data: str, tmp_path: Path) -> None:
    assert ladder_for(data) == ladder_for(str(tmp_path)) == ImageContest.presets


def test_a_file_counts_before_a_corpus_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("cmudict", "one,two.txt"):
        (tmp_path / name).write_text("text")
        assert ladder_for(name) == TextContest.presets
    assert data_settings("cmudict") == ["data.train=cmudict", "data.valid=null", "data.test=null"]


def test_records_of_sources_and_targets_are_pairs(tmp_path: Path) -> None:
    for record, contest in {'{"source": "a", "target": "b"}': PairContest, '{"text": "a"}': TextContest}.items():
        (tmp_path / "my.jsonl").write_text(record)
        assert ladder_for(str(tmp_path / "my.jsonl")) == contest.presets


def test_the_parts_of_a_bundled_corpus_are_used_and_a_files_end_is_held_out() -> None:
    for name in PairContest.presets:
        preset, settings = load_config(name), data_settings("cmudict")
        assert load_config(name, settings) == preset
        data = load_config(name, data_settings("my.tsv")).data
        assert (data.train, data.valid, data.test) == ("my.tsv", None, None)
    assert load_config("lstm", data_settings("shakespeare")).data.valid is None
    assert load_config("captioner", data_settings("scenes")) == load_config("captioner")
