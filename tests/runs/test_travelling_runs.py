"""Runs that travel: their data is found from any folder, also after both were moved, and nothing else is taken."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from sealing import write

import seqloom
from seqloom.config import load_config
from seqloom.data.places import located
from seqloom.errors import CheckpointError, DataError, UserError
from seqloom.runs.folder import RunFolder

RECURRENT = [
    "text.min_count=1",
    "data.batch_size=4",
    "data.length=8",
    "model.embedding.size=8",
    "model.features.size=8",
    "training.steps=4",
    "training.validate_every=2",
    "training.checkpoint_every=2",
    "training.device=cpu",
]


@pytest.fixture(scope="module")
def made(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a text, a counted model and a network that learned from it by its bare name."""
    project = tmp_path_factory.mktemp("made") / "project"
    project.mkdir()
    shutil.copyfile(corpus_file, project / "my.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        seqloom.train(
            "ngram", ["data.train=my.txt", "text.min_count=1", "data.valid_fraction=0.2"], "runs/ngram", report=False
        )
        seqloom.train("gru", ["data.train=./my.txt", *RECURRENT], "runs/gru", report=False)
    return project


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    """A copy of it in a place of its own, where no file of the first one is to be found."""
    project = shutil.copytree(made, tmp_path / "project")
    for name in ("ngram", "gru"):
        folder = RunFolder(project / "runs" / name)
        assert folder.manifest.stood == ["../..", str(made)]
        write(folder.path, replace(folder.manifest, stood=["../..", str(project)]))
    return project


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another folder, where one stands, with another text of the same name."""
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "my.txt").write_text("something else\n" * 90)
    monkeypatch.chdir(tmp_path / "else")
    return tmp_path / "else"


def figures(run: Path) -> dict[str, Any]:
    return {name: score.value for name, score in seqloom.load(run, "cpu").figures().items()}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# -------------------------------------------------------------------------------------------------------- evaluating


def test_a_run_is_evaluated_on_its_own_text_from_anywhere(
    project: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "runs" / "ngram").chmod(0o555)
    before = contents(project)
    from_elsewhere = figures(project / "runs" / "ngram")
    assert seqloom.load(project / "runs" / "ngram", "cpu").config.data.train == str(project / "my.txt")
    monkeypatch.chdir(project / "runs")
    assert figures(Path("ngram")) == from_elsewhere
    monkeypatch.chdir(project)
    assert figures(Path("runs/ngram")) == from_elsewhere
    assert seqloom.load("runs/ngram", "cpu").config.data.train == "my.txt"
    monkeypatch.chdir(project.parent)
    assert seqloom.load(project / "runs" / "ngram", "cpu").config.data.train == "project/my.txt"
    assert contents(project) == before


def test_a_run_that_was_moved_with_its_text_finds_it(project: Path, elsewhere: Path) -> None:
    expected = figures(project / "runs" / "ngram")
    moved = Path(shutil.move(project, project.parent / "moved"))
    assert figures(moved / "runs" / "ngram") == expected


def test_a_run_that_was_moved_alone_finds_its_text_where_it_was(project: Path, elsewhere: Path) -> None:
    expected = figures(project / "runs" / "ngram")
    alone = shutil.copytree(project / "runs" / "ngram", elsewhere / "a" / "b" / "ngram")  # two above: another my.txt
    assert (alone / ".." / ".." / ".." / "my.txt").is_file()
    assert figures(alone) == expected
    other = shutil.copytree(alone, elsewhere / "b" / "ngram")
    assert (other / ".." / ".." / "my.txt").is_file()
    assert figures(other) == expected


def test_a_run_of_before_is_looked_for_where_one_stands(
    project: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = project / "runs" / "ngram"
    expected = figures(run)
    write(run, replace(RunFolder(run).manifest, stood=[]))
    monkeypatch.chdir(project)
    assert figures(run) == expected


def test_who_asks_for_a_text_that_is_gone_is_said(project: Path, elsewhere: Path, tmp_path: Path) -> None:
    text = (project / "my.txt").read_bytes()
    (project / "my.txt").unlink()
    run = seqloom.load(project / "runs" / "ngram", "cpu")
    assert len(run.generate(["the"])) == 1  # which needs no text
    with pytest.raises(
        DataError, match=rf"^{project}/my.txt: no such file or folder; the run in {run.path} asks for it \(data"
    ):
        run.figures()
    shutil.copyfile(project / "runs" / "ngram" / "config.yaml", tmp_path / "other.txt")
    assert run.figures(str(tmp_path / "other.txt"))
    (elsewhere / "my.txt").write_bytes(text)
    assert seqloom.load(run.path, "cpu").figures()


# ---------------------------------------------------------------------------------------------------------- going on


def test_a_run_goes_on_from_anywhere_to_the_same_weights(
    project: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = project / "runs" / "gru"
    there = shutil.copytree(project, project.parent / "there")
    monkeypatch.chdir(there)
    seqloom.train("gru", ["training.steps=6"], "runs/gru", resume=True, report=False)
    monkeypatch.chdir(elsewhere)
    seqloom.train("gru", ["training.steps=6"], run, resume=True, report=False)
    expected, found = (load_file(folder / "model.safetensors") for folder in (there / "runs" / "gru", run))
    assert all(expected[name].equal(found[name]) for name in expected)
    assert (run / "config.yaml").read_bytes() == (there / "runs" / "gru" / "config.yaml").read_bytes()
    assert load_config(run / "config.yaml").data.train == "./my.txt"
    moved = Path(shutil.move(project, project.parent / "moved"))
    assert seqloom.load(moved / "runs" / "gru", "cpu").config.data.train == str(moved / "my.txt")


def test_a_run_that_is_finished_has_nothing_to_do_from_elsewhere(project: Path, elsewhere: Path) -> None:
    before = contents(project)
    seqloom.train("", out=project / "runs" / "gru", resume=True, report=False)
    assert contents(project) == before


def test_data_may_be_named_anew_from_where_one_stands(project: Path, elsewhere: Path) -> None:
    run = project / "runs" / "gru"
    shutil.move(project / "my.txt", elsewhere / "renamed.txt")
    with pytest.raises(UserError, match=rf"my.txt, data.train of the run in {run}, is not there: .*--set data.train="):
        seqloom.train("gru", ["training.steps=6"], run, resume=True)
    seqloom.train("gru", ["training.steps=6", "data.train=renamed.txt"], run, resume=True, report=False)
    assert load_config(run / "config.yaml").data.train == str(elsewhere / "renamed.txt")


def test_the_same_text_under_another_name_is_the_same_configuration(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(project / "runs" / "gru")
    monkeypatch.chdir(project / "runs")
    same, other = (folder.config.model_copy(deep=True) for _ in range(2))
    same.data.train, other.data.train = "../my.txt", "../yours.txt"
    folder.check_same(same)
    with pytest.raises(UserError, match=r"data\.train is '/.*/my\.txt' there, '\.\./yours\.txt' here"):
        folder.check_same(other)


# --------------------------------------------------------------------------------------------------------------- names


def test_all_ways_to_name_data_are_found(project: Path) -> None:
    (project / "a.en").touch()
    (project / "b.de").touch()
    (project / "images").mkdir()
    for name, expected in {
        "my.txt": f"{project}/my.txt",
        "./runs/../my.txt": f"{project}/my.txt",
        f"{project}/my.txt": f"{project}/my.txt",
        "a.en, b.de": f"{project}/a.en,{project}/b.de",
        "images": f"{project}/images",
        "images:train": f"{project}/images:train",
        "tatoeba-en-zh:valid": "tatoeba-en-zh:valid",
        "none.txt": "",
        "a.en,none.de": "",
        "x" * 5000: "",
    }.items():
        assert located(name, project) == expected
    assert located(["my.txt", "shakespeare"], project) == [f"{project}/my.txt", "shakespeare"]
    assert located(["my.txt", "none.txt"], project) == []


def test_a_folder_of_runs_lists_them(project: Path) -> None:
    with pytest.raises(CheckpointError, match=rf"holds 2 runs: {project}/runs/gru, {project}/runs/ngram; name one$"):
        seqloom.load(project / "runs")
    with pytest.raises(CheckpointError, match="holds 2 runs"):
        seqloom.train("gru", out=project / "runs", resume=True)
