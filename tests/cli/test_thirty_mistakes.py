"""Thirty mistakes in every verb: one line on stderr, exit code 2, nothing on stdout, no traceback."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from thirty_mistakes import Place, mistakes, tree, verbs

import seqloom
from seqloom.cli import main

NOT_DONE = {  # no run here is a tagger, a BERT, a sequence VAE, an RBM, a GAN or draws what texts say; some take long
    *("quickstart", "compare", "anneal", "predict", "interpolate", "fill", "serve", "words evaluate"),
    *("images sample", "images complete", "images draw", "inspect gan"),
}


def call(*arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `seqloom ...`, without the files of the fixture `cli`: it is called often."""
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        patch.setattr(sys, "argv", ["seqloom", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    return ended.value.code or 0, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def place(run: Path, corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("mistakes")
    ngram = seqloom.train("ngram", [f"data.train={corpus_file}", "data.unit=line"], folder / "ngram", report=False)
    images = seqloom.train("pca", ["data.train=digits", "model.size=4"], folder / "images", report=False)
    (folder / "wrong").mkdir()
    return Place.make(folder / "wrong", run, ngram.path, images.path, corpus_file)


def test_every_verb_is_among_them(place: Place, tmp_path: Path) -> None:
    assert set(verbs(place, tmp_path)) == set(tree())


@pytest.mark.parametrize("verb", sorted(tree()))
def test_a_mistake_is_one_line(verb: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = list(mistakes(verb, place, tmp_path, 30))
    assert len(made) == 30
    for line in made:
        code, out, err = call(*line)
        assert (code, out, err.count("\n")) == (2, "", 1), (line, err)
        assert err.startswith("error: "), line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", sorted(set(tree()) - NOT_DONE))
def test_without_the_mistake_it_is_done(
    verb: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_reports: None
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call(*verb.split(), *verbs(place, tmp_path)[verb], *["--json"] * (verb != "completion"))
    assert code == 0, err
    assert verb == "completion" or all(map(json.loads, out.splitlines()))
