"""One way to name data, and an answer with the right command for each of the other ways."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seqloom
from seqloom.config import load_config
from seqloom.data.corpora import data_settings
from seqloom.training import Interrupted
from seqloom.training.trainer import Trainer

Cli = Callable[..., Any]


@pytest.fixture(autouse=True)
def place(corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data of all kinds, where one stands."""
    text = corpus_file.read_text()
    for name in ("my.txt", "my novel.txt", "corpus", "1984", "texts/a.txt", "texts/b.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("pairs.tsv", "my.en", "my.de"):
        (tmp_path / name).write_text("one\teins\n")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


# -------------------------------------------------------------------------------------------------------- other ways


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("train my.txt", "my.txt is a text, no model: seqloom train lstm --data my.txt"),
        ("train gru my.txt", "my.txt is a text, no model: seqloom train gru --data my.txt"),
        ("train 'my novel.txt'", "my novel.txt is a text, no model: seqloom train lstm --data 'my novel.txt'"),
        ("train gru --train my.txt", "seqloom train gru --data my.txt"),
        ("train gru --input my.txt", "seqloom train gru --data my.txt"),
        ("train --config my.txt", "my.txt is a text, no model: seqloom train lstm --data my.txt"),
        ("train --config mine.yaml", "a configuration needs no option: seqloom train mine.yaml"),
        ("train pairs.tsv", "a corpus of pairs, no model: seqloom train translate --data pairs.tsv"),
        ("train my.en,my.de", "a corpus of pairs, no model: seqloom train translate --data my.en,my.de"),
        ("train digits", "digits is a set of images, no model: seqloom train vae --data digits"),
        ("train shakespeare", "shakespeare is a text, no model: seqloom train lstm --data shakespeare"),
        ("train corpus", "corpus is a text, no model: seqloom train lstm --data corpus"),
        ("train lstm my.en", "my.en is a text, no model: seqloom train lstm --data my.en"),
        (
            "train translate --data my.en my.de",
            "joined by a comma: --data my.en,my.de; several texts stand in brackets",
        ),
        ("train translate my.en my.de", "two aligned files are joined by a comma: --data my.en,my.de"),
        ("train lstm --set training.steps 5", "--set training.steps: write key=value"),
        ("train texts", "'texts' is a folder, not a configuration: name a model, and data with --data"),
        ("train gru --data texts", "--set 'data.train=[texts/a.txt, texts/b.txt]'"),
        ("train gru --data none.txt", "none.txt: no such file, and no bundled corpus of that name"),
        ("train", "name a model: seqloom train lstm --data my.txt"),
        ("train lstm gru", "train takes one model; for several: seqloom compare lstm gru"),
        ("train --resume texts", "texts holds no run that could go on"),
        ("train --resume", "--resume needs --out"),
        ("compare lstm --train my.txt", "data is named by --data: seqloom compare lstm --data my.txt"),
        ("compare my.txt pairs.tsv", "choose among my.txt and pairs.tsv"),
        ("compare my.txt --data pairs.tsv", "choose among pairs.tsv and my.txt"),
        ("compare empty", "images are named by --data: seqloom compare --data empty"),
        ("quickstart pairs.tsv", "holds pairs, and quickstart is for texts: seqloom compare --data pairs.tsv"),
        ("quickstart texts", "texts is a folder; name a file in it, or several"),
    ],
)
def test_another_way_is_answered_with_the_right_one(typed: str, said: str, cli: Cli, place: Path) -> None:
    before = files(place)
    done = cli(*shlex.split(typed))
    assert done.code == 2
    assert said in done.error
    assert files(place) == before


def test_a_run_in_the_place_of_a_model_goes_on(cli: Cli, place: Path) -> None:
    seqloom.train("ngram", ["data.train=my.txt"], "runs/ngram", report=False)
    done = cli("train", "runs/ngram")
    assert "start: a model of kind 'ngram' is not trained by steps" in done.error
    for going_on in (("--resume", "runs/ngram"), ("runs/ngram", "--resume"), ("--resume", "--out", "runs/ngram")):
        assert cli("train", *going_on, "--no-report").code == 0
    done = cli("generate", "runs", "--prompt", "the")
    assert done.error == "runs holds 1 run: runs/ngram; name one"


# ----------------------------------------------------------------------------------------------------------- one way


@pytest.mark.parametrize("name", ["my.txt", "my novel.txt", "1984", "texts/../my.txt"])
def test_data_is_a_file_whatever_its_name_is(name: str, cli: Cli, place: Path) -> None:
    done = cli("train", "ngram", "--data", name, "--out", "run", "--no-report", "--json", "--quiet")
    assert done.code == 0, done.err
    assert load_config("run/config.yaml").data.train == name


def test_several_files_can_be_listed() -> None:
    assert load_config("lstm", data_settings("[my.txt, corpus]")).data.train == ["my.txt", "corpus"]


class CalledError(Exception):
    """With what a verb called the library."""


@pytest.mark.parametrize(
    ("typed", "models", "train"),
    [
        ("compare my.txt", "lstm", "my.txt"),
        ("compare --data my.txt", "lstm", "my.txt"),
        ("compare gru my.txt", "gru", "my.txt"),
        ("compare my.en,my.de", "seq2seq-rnn", "my.en,my.de"),
        ("compare my.en", "lstm", "my.en"),
        ("compare digits", "mixture", "digits"),
        ("quickstart my.txt", "lstm", "my.txt"),
        ("quickstart --data my.txt", "lstm", "my.txt"),
        ("quickstart", "lstm", "time-machine"),
    ],
)
def test_data_may_stand_among_what_is_compared(
    typed: str, models: str, train: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def called(sources: Any, settings: Any, *_: Any, **__: Any) -> None:
        raise CalledError(sources, settings)

    monkeypatch.setattr("seqloom.kinds.compare", called)
    monkeypatch.setattr("seqloom.runs.comparison.compare", called)
    monkeypatch.setattr(sys, "argv", ["seqloom", *shlex.split(typed)])
    with pytest.raises(CalledError) as call:
        seqloom.cli.main()
    sources, settings = call.value.args
    assert models in sources
    assert load_config(models, settings).data.train == train


# ----------------------------------------------------------------------------------------------------- interruptions


@pytest.mark.parametrize("stop", [Interrupted("interrupted: saved at step 3", 15), KeyboardInterrupt()])
def test_an_interrupted_comparison_says_what_goes_on(
    stop: BaseException, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any, **__: Any) -> None:
        raise stop

    monkeypatch.setattr("seqloom.kinds.compare", stopped)
    typed = ("compare", "gru", "my novel.txt", "--out", "runs/mine")
    done = cli(*typed)
    assert done.code == (143 if isinstance(stop, Interrupted) else 130)
    assert shlex.split(done.error.partition("go on with: ")[2]) == ["seqloom", *typed]


def test_an_interrupted_training_says_what_goes_on(
    cli: Cli, tiny: list[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Trainer._optimise

    def interrupted(self: Trainer) -> None:
        original(self)
        if self.progress.step == 3:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Trainer, "_optimise", interrupted)
    done = cli("train", "gru", *tiny, "--set", "training.steps=6", "--out", "my runs/gru", "--no-report", "--quiet")
    assert done.code == 143
    monkeypatch.setattr(Trainer, "_optimise", original)
    _, program, *command = shlex.split(done.error.partition("go on with")[2])
    assert program == "seqloom"
    assert command == ["train", "--resume", "--out", "my runs/gru", "--no-report"]
    assert cli(*command, "--quiet").code == 0
