"""`seqloom show`, and what every verb has in common."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sealing import unfinish
from thirty_mistakes import tree

import seqloom
from seqloom.runs.capabilities import CAPABILITIES
from seqloom.runs.overview import USES, command

Cli = Callable[..., Any]


def test_a_run_is_told_in_short(cli: Cli, run: Path, corpus_file: Path) -> None:
    (found,) = cli("show", run, "--json").records
    model = seqloom.load(run, "cpu")
    assert found["kind"] == "language"
    assert found["parts"] == {"features": "lstm", "output": "softmax"}
    assert found["parameters"] == model.parameters
    assert found["bytes"] == sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
    assert found["data"]["data.train"] == str(corpus_file)
    losses = [json.loads(line).get("valid_loss") for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert found["figures"]["valid_loss"] == min(loss for loss in losses if loss is not None)
    assert found["commands"][:2] == [f"seqloom evaluate {run}", f"seqloom generate {run} --prompt TEXT"]
    assert len(found["commands"]) == 1 + len(model.verbs)
    told = cli("show", run).out
    for part in (f"{model.parameters:,}", "lstm", str(corpus_file), *found["commands"]):
        assert part in told


def test_a_run_that_has_learned_nothing_yet_says_how_it_goes_on(cli: Cli, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "a")
    (tmp_path / "a" / "model.safetensors").unlink()
    unfinish(tmp_path / "a")
    (found,) = cli("show", tmp_path / "a", "--json").records
    assert (found["state"], found["parameters"]) == ("stopped", None)
    assert found["commands"] == [f"seqloom train --resume --out {tmp_path / 'a'}"]


def test_several_runs_are_shown_as_the_list_of_runs_has_them(cli: Cli, run: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(run, tmp_path / name)
    assert cli("show", tmp_path).out == cli("runs", tmp_path).out
    assert [found["run"] for found in cli("show", tmp_path, "--json").records] == [str(tmp_path / n) for n in "ab"]


def test_runs_of_comparisons_are_found_from_above(
    cli: Cli, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    alone, compared = Path("runs/alone"), Path("runs/my ladder/lstm")
    shutil.copytree(run, alone)
    shutil.copytree(run, compared)
    shutil.copytree(run, alone / "kept")  # what a run keeps is none of its own
    records = cli("show", "--json").records
    assert [record["run"] for record in records] == [str(alone), str(compared)]
    (compared_run,) = cli("show", compared, "--json").records
    assert compared_run["commands"][0] == "seqloom evaluate 'runs/my ladder/lstm'"
    assert cli("generate", "runs").error == f"runs holds 2 runs: {alone}, {compared}; name one"
    missing = "lsmt is not a run folder: there is no such folder"
    for verb in ("generate", "show"):
        assert cli(verb, "lsmt").error == f"{missing} (did you mean {compared}?)"


def test_a_folder_without_runs_is_named(cli: Cli, tmp_path: Path) -> None:
    done = cli("show", tmp_path)
    assert done.code == 2
    assert done.error.startswith(f"{tmp_path} is not a run folder: there is no run.json in it")


@pytest.mark.parametrize("verb", sorted({capability.verb for capability in CAPABILITIES}))
def test_every_command_that_is_offered_exists(verb: str) -> None:
    words = command(verb, "RUN").removeprefix("seqloom ").split()
    name = " ".join(words[: words.index("RUN")])
    known = {option for parameter in tree()[name].params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
    assert {option for option in verb.split() if option.startswith("--")} <= set(USES.get(verb, "").split())


def test_examples_stand_on_lines_of_their_own_in_the_help() -> None:
    assert not [name for name, verb in tree().items() if "\\b" in verb.help or "\b\nExamples:" not in verb.help]


def test_every_verb_that_prints_has_json() -> None:
    without = {name for name, verb in tree().items() if not any("--json" in each.opts for each in verb.params)}
    assert without == {"completion", "serve"}  # which print a script, and a log of JSON


def test_the_version_has_a_short_option(cli: Cli) -> None:
    assert cli("-V").out == cli("--version").out == f"seqloom {seqloom.__version__}\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("trian lstm", "no such command 'trian' (did you mean 'train'?); see seqloom --help"),
        ("train", "name a model: seqloom train lstm --data my.txt; seqloom presets lists them"),
        ("completion", "missing argument 'bash|zsh|fish': one of bash, zsh, fish; see seqloom completion --help"),
        ("stats", "missing argument 'FILE'; see seqloom stats --help"),
        ("presets show", "missing argument 'NAME'; see seqloom presets show --help"),
        ("score runs/x --device", "option '--device' requires an argument; see seqloom score --help"),
        ("generate runs/x --beam 0", "--beam: input should be greater than or equal to 1; see seqloom generate --help"),
        ("words neighbors x y", "no such command 'neighbors' (did you mean 'neighbours'?); see seqloom words --help"),
    ],
)
def test_usage_errors_are_told_like_all_others(line: str, said: str, cli: Cli) -> None:
    done = cli(*line.split())
    assert done.code == 2
    assert done.error == said
