"""`seqloom runs` and `seqloom report`: what is in a folder of runs, by small files alone; the page of one of them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sealing import unfinish, write

import seqloom
from seqloom.arrays import shapes_of
from seqloom.runs.folder import RunFolder
from seqloom.runs.listing import span

Cli = Callable[..., Any]


@pytest.fixture
def folder(run: Path, corpus_file: Path, tmp_path: Path) -> Path:
    """Two neural runs, of which one is an hour older, and an n-gram model."""
    for name in ("old", "young"):
        shutil.copytree(run, tmp_path / name)
    for file in (tmp_path / "old").rglob("*"):
        os.utime(file, (0, time.time() - 3700))
    seqloom.train(
        "ngram",
        [f"data.train={corpus_file}", "data.unit=line", "data.valid_fraction=0.2"],
        tmp_path / "counted",
        report=False,
    )
    return tmp_path


def test_every_run_has_a_line(cli: Cli, folder: Path, run: Path) -> None:
    header, *lines = cli("runs", folder).out.splitlines()
    assert header.split() == ["run", "model", "data", "figure", "parameters", "size", "state", "age"]
    assert [Path(line.split()[0]).name for line in lines] == ["counted", "old", "young"]
    assert lines[1].split()[-3:] == ["finished", "1", "h"]
    for part in ("language, features lstm, output softmax", "tiny.txt", "perplexity", "2,", "kB"):
        assert part in lines[1]


def test_the_numbers_are_those_of_the_loaded_model(cli: Cli, folder: Path, run: Path) -> None:
    found = {Path(each["run"]).name: each for each in cli("runs", folder, "--json").records}
    old, model = found["old"], seqloom.load(run, "cpu")
    assert old["parameters"] == model.parameters
    assert found["counted"]["parameters"] == seqloom.load(folder / "counted").parameters
    assert old["bytes"] == sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
    assert old["figure"]["name"] == "valid_perplexity"
    assert old["figure"]["value"] == pytest.approx(model.evaluate().perplexity, rel=1e-4)
    assert old["figure"]["text"] == f"perplexity {old['figure']['value']:.2f}"
    assert (old["kind"], old["parts"]) == ("language", {"features": "lstm", "output": "softmax"})
    assert 3700 <= old["age"] < 3900
    assert found["counted"]["data"] == "tiny.txt"


def test_a_run_that_does_not_say_how_large_it_is_is_counted_by_its_weights(
    cli: Cli, folder: Path, run: Path, tmp_path: Path
) -> None:
    """Those of earlier versions, and those that are not finished."""
    write(folder / "old", replace(RunFolder(folder / "old").manifest, parameters=None))
    unfinish(folder / "young")
    found = {Path(each["run"]).name: each["parameters"] for each in cli("runs", folder, "--json").records}
    assert found["old"] == found["young"] == seqloom.load(run, "cpu").parameters


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("run", ["counted", "old", "young"]),
        ("age", ["counted", "young", "old"]),
        ("model", ["old", "young", "counted"]),
        ("size", ["counted", "old", "young"]),
        ("parameters", ["counted", "old", "young"]),
    ],
)
def test_runs_are_sorted(cli: Cli, folder: Path, order: str, names: list[str]) -> None:
    assert [Path(each["run"]).name for each in cli("runs", folder, "--sort", order, "--json").records] == names
    backwards = cli("runs", folder, "--sort", order, "--reverse", "--json").records
    assert {Path(backwards[0]["run"]).name, Path(backwards[1]["run"]).name} >= {names[-1]}


def test_by_their_figures_the_best_perplexity_comes_first(cli: Cli, folder: Path) -> None:
    values = [each["figure"]["value"] for each in cli("runs", folder, "--sort", "figure", "--json").records]
    assert values == sorted(values)


def damage(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-8])


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda run: damage(run / "model.safetensors"), "its header tells of"),
        (lambda run: (run / "model.safetensors").write_bytes(b""), "its header is damaged"),
        (lambda run: (run / "model.safetensors").unlink(), "is missing"),
        (lambda run: damage(run / "run.json"), "run.json is damaged"),
        (lambda run: (run / "config.yaml").write_text("model: {kind: nonesuch}"), "nonesuch"),
        (lambda run: (run / "config.yaml").unlink(), "config.yaml"),
    ],
    ids=["cut", "empty", "no weights", "manifest", "configuration", "no configuration"],
)
def test_a_damaged_run_does_not_stop_the_others(
    cli: Cli, run: Path, tmp_path: Path, harm: Callable[[Path], object], said: str
) -> None:
    for name in ("a", "b", "c"):
        shutil.copytree(run, tmp_path / name)
    harm(tmp_path / "b")
    *told, damaged = cli("runs", tmp_path, "--json").records
    assert [each["run"] for each in told] == [str(tmp_path / "a"), str(tmp_path / "c")]
    assert set(damaged) == {"run", "error"}
    assert (damaged["run"], said in damaged["error"]) == (str(tmp_path / "b"), True), damaged
    done = cli("runs", tmp_path)
    assert (done.code, len(done.out.splitlines())) == (0, 3)
    assert done.err.startswith("error: ")
    shutil.rmtree(tmp_path / "a")
    shutil.rmtree(tmp_path / "c")
    assert cli("runs", tmp_path).code == 2


def test_a_run_without_weights_yet_has_no_parameters(cli: Cli, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "a")
    (tmp_path / "a" / "model.safetensors").unlink()
    (tmp_path / "a" / "metrics.jsonl").unlink()
    unfinish(tmp_path / "a")
    (found,) = cli("runs", tmp_path, "--json").records
    assert (found["state"], found["parameters"], found["figure"]) == ("stopped", None, None)
    (tmp_path / "a" / ".lock").write_text(f"process {os.getpid()} on {os.uname().nodename}")
    assert cli("runs", tmp_path, "--json").records[0]["state"] == "training"


def test_a_run_by_itself_is_a_list_of_one_without_what_it_keeps(cli: Cli, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "a")
    shutil.copytree(run, tmp_path / "a" / "assets" / "kept")
    assert [each["run"] for each in cli("runs", tmp_path / "a", "--json").records] == [str(tmp_path / "a")]


def test_a_folder_without_runs_is_named(cli: Cli, tmp_path: Path) -> None:
    done = cli("runs", tmp_path)
    assert done.code == 2
    assert done.error.startswith(f"{tmp_path} is not a run folder")
    assert "--sort" in cli("runs", tmp_path, "--sort", "beauty").error


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (59.9, "59 s"), (180, "3 min"), (3600, "1 h"), (86400, "1 day"), (200000, "2 days"), (1e8, "3 years")],
)
def test_ages_are_told_by_their_largest_unit(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_a_header_tells_types_and_shapes(run: Path) -> None:
    import torch
    from safetensors.torch import load_file

    tensors = load_file(run / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert shapes_of(run / "model.safetensors") == {name: ("F32", list(each.shape)) for name, each in tensors.items()}


def test_a_report_is_written_again(cli: Cli, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "a")
    page = tmp_path / "a" / "report.html"
    page.unlink()
    done = cli("report", tmp_path / "a")
    assert (done.code, done.out) == (0, f"{page}\n")
    assert "<html" in page.read_text(encoding="utf-8")
    assert cli("report", tmp_path / "a", "--json").records == [{"report": str(page)}]
    assert cli("report", tmp_path / "b").code == 2
