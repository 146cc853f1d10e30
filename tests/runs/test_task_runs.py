"""Runs of several tasks: validated, evaluated and asked by name, gone on from with pairs, resumed after a kill."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest

import seqloom
from seqloom.errors import ConfigError, DataError, UserError
from seqloom.runs.engine import write_report
from seqloom.text.marks import MarkedTokenizer
from seqloom.training import Silent, read_metrics
from seqloom.training.trainer import Trainer

NOUNS, VERBS = ["cat", "dog", "bird", "king", "boy"], ["sees", "likes", "hears"]
STACK = {"kind": "transformer", "size": 16, "layers": 1, "heads": 2, "positions": "relative"}
SPANS = {"kind": "spans", "train": "story.txt", "length": 24, "rate": 0.25, "mean": 2.0}
LOUD = {"kind": "pairs", "name": "loud", "train": "loud.tsv", "prefix": "shout: "}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    draw = random.Random(0)
    lines = [f"the {draw.choice(NOUNS)} {draw.choice(VERBS)} the {draw.choice(NOUNS)} ." for _ in range(200)]
    (folder / "story.txt").write_text("\n".join(lines), encoding="utf-8")
    pairs = [f"{number} {line}\t{line.upper()}" for number, line in enumerate(lines[:80])]
    (folder / "loud.tsv").write_text("\n".join(pairs), encoding="utf-8")
    (folder / "small.txt").write_text("the cat sees the dog .", encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)


def config(*tasks: dict[str, Any], **data: Any) -> dict[str, Any]:
    return {
        "text": {"kind": "whitespace"},
        "data": {"kind": "tasks", "tasks": list(tasks), "batch_tokens": 400, **data},
        "model": {"kind": "seq2seq", "embedding": {"size": 16}, "encoder": STACK, "decoder": STACK},
        "training": {"steps": 12, "validate_every": 6, "log_every": 1, "device": "cpu"},
    }


@pytest.fixture(scope="module")
def mixture(place: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        return seqloom.train(config(SPANS | {"share": 3}, LOUD | {"share": 1}), out=place / "runs" / "mixture")


# -------------------------------------------------------------------------------------------------------- by name


def test_validation_tells_each_task_and_their_mean_by_share(mixture: Any) -> None:
    entry = next(entry for entry in reversed(read_metrics(mixture.path)) if "valid_loss" in entry)
    expected = 0.75 * entry["valid_loss_spans"] + 0.25 * entry["valid_loss_loud"]
    assert entry["valid_loss"] == pytest.approx(expected)
    assert entry["valid_perplexity"] == pytest.approx(math.exp(expected))
    assert entry["valid_perplexity_loud"] == pytest.approx(math.exp(entry["valid_loss_loud"]))


def test_evaluation_tells_each_task_or_the_one_that_is_named(mixture: Any) -> None:
    every = mixture.evaluate(max_length=5).scores
    assert "spans perplexity" in every
    assert "spans BLEU" not in every
    assert {"loud perplexity", "loud BLEU", "loud ROUGE-L"} <= every.keys()
    alone = mixture.evaluate(max_length=5, task="loud")
    assert alone.scores == {name.removeprefix("loud "): score for name, score in every.items() if name[:4] == "loud"}
    assert all(source.startswith("shout: ") for source in alone.sources)
    assert set(mixture.evaluate(task="spans").scores) == {"perplexity"}


def test_the_perplexity_of_a_task_is_that_of_its_pairs_as_they_are_read(mixture: Any) -> None:
    pairs = [line.split("\t") for line in Path("loud.tsv").read_text(encoding="utf-8").splitlines()[:9]]
    Path("some.tsv").write_text("\n".join("\t".join(pair) for pair in pairs), encoding="utf-8")
    scores = mixture.score([f"shout: {source}" for source, _ in pairs], [target for _, target in pairs])
    expected = math.exp(-sum(each.log_prob for each in scores) / sum(each.tokens for each in scores))
    found = mixture.evaluate("some.tsv", task="loud", max_length=3).scores["perplexity"].value
    assert found == pytest.approx(expected, rel=1e-4)


def test_spans_of_another_text_can_be_evaluated(mixture: Any) -> None:
    own, other = (mixture.evaluate(files, task="spans").scores["perplexity"].value for files in (None, "story.txt"))
    assert own != other


def test_a_task_is_asked_with_its_prefix(mixture: Any) -> None:
    typed = mixture.generate("shout: the cat", max_length=6)
    assert mixture.generate("the cat", task="loud", max_length=6) == typed
    assert mixture.generate("the cat", max_length=6) != typed


def test_gaps_are_filled(mixture: Any) -> None:
    source = "the <extra_id_0> sees the <extra_id_1>"
    (raw,), (written,) = (mixture.generate(source, task=task, max_length=12)[0] for task in (None, "spans"))
    assert raw.log_prob == written.log_prob
    assert "sees the" in written.text
    for gap, said in re.findall(r"(<extra_id_[01]>) ?([^<]*)", raw.text):
        assert source.replace(gap, said.strip()).split()[:1] == written.text.split()[:1] == ["the"]


def test_nonsense_is_answered_with_what_there_is(mixture: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"learned no task 'lod' \(did you mean 'loud'\?\)"):
        mixture.generate("the cat", task="lod")
    with pytest.raises(UserError, match=r"several tasks: say which one some\.tsv is of \(spans, loud\)"):
        mixture.evaluate("some.tsv")
    with pytest.raises(UserError, match="learns several tasks, and models are compared by one"):
        seqloom.compare([mixture.path, "seq2seq-rnn"], out=tmp_path / "ladder")


def test_the_report_shows_pairs_and_gaps(mixture: Any) -> None:
    write_report(mixture)
    page = (mixture.path / "report.html").read_text(encoding="utf-8")
    assert "shout: " in page
    assert "&lt;extra_id_0&gt;" in page
    assert "trained on story.txt, loud.tsv for" in page


# ------------------------------------------------------------------------------------------------------- tokenisers


def test_the_tokeniser_knows_all_tasks_and_has_names_for_gaps(mixture: Any) -> None:
    tokenizer = mixture.tokenizer
    assert isinstance(tokenizer, MarkedTokenizer)
    assert len(tokenizer.marks) == 100
    assert 0 not in tokenizer.encode("shout: the cat SEES <extra_id_99>")


def test_what_looks_like_the_name_of_a_gap_in_a_text_is_none(tmp_path: Path) -> None:
    (tmp_path / "odd.txt").write_text("the <extra_id_0> is odd .\n" * 40, encoding="utf-8")
    from seqloom.data.task_materials import prepare_tasks

    spans = SPANS | {"train": str(tmp_path / "odd.txt"), "valid_fraction": 0.3}
    materials = prepare_tasks(seqloom.load_config(config(spans)))
    tokens = materials.tasks[0].train.tokens
    assert tokens.max() < materials.tokenizer.inner.size
    assert tokens.min() > 3  # neither padding nor the end of a line


def test_long_windows_have_more_gaps_than_usual() -> None:
    from seqloom.data.task_materials import prepare_tasks

    materials = prepare_tasks(
        seqloom.load_config(config(SPANS | {"length": 260, "rate": 0.45, "mean": 1.0, "valid_fraction": 0.5}))
    )
    assert len(materials.tokenizer.marks) == 117


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (SPANS | {"train": "small.txt", "valid": "story.txt"}, r"small\.txt: 6 tokens .* two windows have 48"),
        (SPANS | {"valid": "small.txt"}, r"small\.txt: 6 tokens"),
        (LOUD | {"max_length": 2}, r"data\.max_length"),
    ],
)
def test_too_little_to_learn_from_is_refused(task: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        seqloom.train(config(task), out=tmp_path / "run")


# --------------------------------------------------------------------------------------------------------- going on


def test_pairs_are_learned_with_the_weights_and_the_tokeniser_of_tasks(mixture: Any, tmp_path: Path) -> None:
    data = {"data": {"kind": "pairs", "train": "loud.tsv"}, "model.encoder.dropout": 0.1}
    said = Remembering()
    tuned = seqloom.train(mixture.path, data, tmp_path / "tuned", reporter=said, report=False)
    assert tuned.tokenizer.document == mixture.tokenizer.document
    before = mixture.score(*_held_out_sides(tuned))
    expected = -sum(each.log_prob for each in before) / sum(each.tokens for each in before)
    begun = next(line for line in said.lines if "as it begins" in line)
    assert float(re.findall(r"valid_loss ([\d.]+)", begun)[0]) == pytest.approx(expected, rel=1e-3)
    assert not tuned.tasks
    with pytest.raises(UserError, match="learned from pairs, not from tasks"):
        tuned.generate("the cat", task="loud")


class Remembering(Silent):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def _held_out_sides(trained: Any) -> tuple[list[str], list[str]]:
    held_out = trained.held_out()
    return held_out.sources, [several[0] for several in held_out.references]


def test_spans_need_a_tokeniser_with_names_for_gaps(mixture: Any, tmp_path: Path) -> None:
    pairs = seqloom.train(
        config() | {"data": {"kind": "pairs", "train": "loud.tsv"}}, {"training.steps": 2}, tmp_path / "pairs"
    )
    with pytest.raises(ConfigError, match="begin with a run that learned spans"):
        seqloom.train(pairs.path, {"data": {"kind": "tasks", "tasks": [SPANS]}}, tmp_path / "gaps")


class Killed(BaseException):
    """As a process dies: nothing is saved any more."""


def test_killed_and_resumed_equals_uninterrupted(mixture: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Trainer._optimise

    def dying(self: Any) -> None:
        original(self)
        if self.progress.step == 8:
            raise Killed

    monkeypatch.setattr(Trainer, "_optimise", dying)
    with pytest.raises(Killed):
        seqloom.train(config(SPANS | {"share": 3}, LOUD | {"share": 1}), out=tmp_path / "run", report=False)
    monkeypatch.setattr(Trainer, "_optimise", original)
    again = seqloom.train("", out=tmp_path / "run", resume=True, report=False)
    assert (again.path / "model.safetensors").read_bytes() == (mixture.path / "model.safetensors").read_bytes()


def test_a_run_goes_on_only_with_what_it_learned_from(mixture: Any, tmp_path: Path, place: Path) -> None:
    tree = config(SPANS | {"train": str(tmp_path / "mine.txt")})
    text = Path("story.txt").read_text(encoding="utf-8")
    (tmp_path / "mine.txt").write_text(text, encoding="utf-8")
    seqloom.train(tree, {"training.steps": 2}, tmp_path / "run", report=False)
    (tmp_path / "mine.txt").write_text(text + "\nthe end .", encoding="utf-8")
    with pytest.raises(UserError, match=r"data\.tasks\.0\.train is not what the run in"):
        seqloom.train("", {"training.steps": 4}, tmp_path / "run", resume=True)
    moved = {"training.steps": 4, "data.tasks.0.train": str(place / "story.txt")}
    seqloom.train("", moved, tmp_path / "run", resume=True, report=False)
    with pytest.raises(UserError, match=r"data\.tasks\.0\.length is 24 there, 20 here"):
        seqloom.train("", {"data.tasks.0.length": 20}, tmp_path / "run", resume=True)


# ----------------------------------------------------------------------------------------------------- command line


def test_data_takes_the_place_of_tasks_by_what_it_is(cli: Any, mixture: Any, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(json.dumps(config(SPANS, LOUD)), encoding="utf-8")
    for name, data, kind in (("spans", "story.txt", "tasks"), ("pairs", "loud.tsv", "pairs")):
        done = cli("train", tmp_path / "tiny.yaml", "--data", data, "--out", tmp_path / name, "--no-report")
        assert done.code == 0, done.err
        found = seqloom.load(tmp_path / name).config.data
        assert found.kind == kind
        assert [task.train for task in found.tasks] == ["story.txt"] if kind == "tasks" else found.train == "loud.tsv"
    assert seqloom.load(tmp_path / "spans").config.data.tasks[0].length == 24
    done = cli("train", mixture.path, "--data", "loud.tsv", "--out", tmp_path / "tuned", "--no-report")
    assert done.code == 0, done.err
    assert seqloom.load(tmp_path / "tuned").config.start == str(mixture.path)


def test_the_command_line_names_tasks(cli: Any, mixture: Any) -> None:
    written = cli("generate", mixture.path, "--task", "loud", "--prompt", "the cat", "--max-length", 6, "--json")
    (record,) = written.records
    assert record["input"] == "the cat"
    assert record["outputs"][0]["text"] == mixture.generate("the cat", task="loud", max_length=6)[0][0].text
    (scores,) = cli("evaluate", mixture.path, "--task", "spans", "--json").records
    assert set(scores) == {"perplexity"}
    assert "spans taken out of windows" in scores["perplexity"]["signature"]
    assert cli("evaluate", mixture.path, "--task", "nonsense").code == 2
