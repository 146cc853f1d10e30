"""The contract of runs: every kind of run goes through this module, as the list in `kinds.py` says.

Construct without side effects; fit; give log-probabilities, or refuse; draw by a seed, or refuse; load, and copy, with
the same outputs; resume bit for bit; report; reject bad parameters by name; have some verbs, and answer the others with
a sentence. Only what users have is used here: `train`, `load`, `load_config`, the command line, and the run folder.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
import torch
from kinds import CASES, FAULTS, FIRST, VERBS, Case, known_kinds
from questions import TEXTS
from sealing import unfinish
from workshop import TIMING, of_cases

import seqloom
from seqloom.errors import ConfigError, UserError
from seqloom.kinds import kind_named
from seqloom.training import Interrupted
from seqloom.training.trainer import Trainer

Cli = Callable[..., Any]
DATA = ("text", "pairs", "tagged", "labelled", "images", "captions")
PATHS = ("judge", "run", "vectors", "start")  # keys of the configuration that take any string


@pytest.fixture(autouse=True)
def _in_the_workshop(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workshop.folder)


def marks(case: Case, asked: str) -> list[Any]:
    """A test that meets a fault of today is expected to fail, and to be looked at when it does not any more."""
    reason = FAULTS.get((case.kind, asked))
    return [pytest.mark.xfail(reason=reason, raises=(AssertionError, AttributeError), strict=True)] if reason else []


def of_runs(cases: Sequence[Case], asked: str = "") -> Any:
    """A test for the run of each case, which asks it for something."""
    parameters = [pytest.param(case, id=case.name, marks=marks(case, asked)) for case in cases]
    return pytest.mark.parametrize("run", parameters, indirect=True)


def of_verbs(has: bool) -> Any:
    """A test for each verb that a kind of run has, or lacks."""
    parameters = [
        pytest.param(case, verb, id=f"{case.name}-{verb}", marks=marks(case, verb))
        for case in FIRST
        for verb in VERBS
        if (verb in case.verbs) == has
    ]
    return pytest.mark.parametrize(("run", "verb"), parameters, indirect=["run"])


STEPPED = [case for case in CASES if not case.at_once]


def test_every_kind_is_in_the_list() -> None:
    assert {case.kind for case in CASES} == known_kinds()


def test_the_list_is_sound() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert {name for case in CASES for name in case.needs} <= set(names)
    assert {verb for case in CASES for verb in (*case.verbs, *case.arguments)} <= set(VERBS)
    assert {kind for kind, _ in FAULTS} <= known_kinds()


# ------------------------------------------------------------------------------------------------------ configuration


@of_cases(CASES)
def test_constructing_has_no_side_effects(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = random_states()
    config = seqloom.load_config(case.preset, case.settings)
    assert config.model.kind == case.kind
    assert seqloom.load_config(config.model_dump()) == config
    np.testing.assert_equal(random_states(), before)
    assert not list(tmp_path.iterdir())


def random_states() -> Any:
    return torch.get_rng_state().numpy(), np.random.get_state(), random.getstate()  # noqa: NPY002 - nobody may touch it


@of_cases(CASES)
def test_bad_parameters_are_rejected_by_name(case: Case) -> None:
    for key, value in leaves(seqloom.load_config(case.preset, case.settings).model.model_dump(mode="json")):
        wrong = ["-1"]
        if isinstance(value, list):
            wrong.append("[-1]")
        if isinstance(value, str) and key.rpartition(".")[2] not in PATHS:
            wrong.append("nonsense")
        for each in wrong:
            with pytest.raises(ConfigError, match=rf"model\.{re.escape(key)}(\.0)?: "):
                seqloom.load_config(case.preset, [*case.settings, f"model.{key}={each}"])


def leaves(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted keys of a nested mapping, with their values."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


@of_cases(CASES)
def test_a_misspelt_key_is_rejected_with_what_was_meant(case: Case) -> None:
    keys = [key for key, _ in leaves(seqloom.load_config(case.preset, case.settings).model.model_dump())]
    parts = {key.rpartition(".")[0]: f"model.{key}" for key in keys}  # the last key of each part
    for key in parts.values():
        misspelt, said = re.escape(key + key[-1]), re.escape(f"(did you mean {key!r}?)")
        with pytest.raises(ConfigError, match=f"unknown key '{misspelt}' {said}"):
            seqloom.load_config(case.preset, [*case.settings, f"{key}{key[-1]}=3"])


@of_cases(FIRST)
def test_data_of_another_kind_is_rejected(case: Case) -> None:
    own = seqloom.load_config(case.preset, case.settings).data.kind
    for other in set(DATA) - {own}:
        with pytest.raises(ConfigError, match=f"'{case.kind}'"):
            seqloom.load_config(case.preset, [f"data={{kind: {other}}}"])


def test_another_kind_of_data_takes_the_keys_of_the_old_kind_with_it() -> None:
    with pytest.raises(ConfigError, match="a model of kind 'language' learns from text"):
        seqloom.load_config("lstm", ["data.kind=images"])


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("order", "0"),
        ("order", "1000"),
        ("smoothing", "kneser"),
        ("prune", "[1]"),
        ("prune", "[0, 2, 1]"),
        ("delta", "0"),
        ("discounts", "[1.5]"),
        ("discounts", "[]"),
        ("backoff", "1"),
    ],
)
def test_bad_parameters_of_counted_models_are_rejected_by_name(key: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=key):
        seqloom.load_config("ngram", [f"model.{key}={wrong}"])


@of_cases(FIRST)
def test_the_command_line_refuses_a_bad_parameter_and_writes_nothing(
    case: Case, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    *_, (key, _) = leaves(seqloom.load_config(case.preset, case.settings).model.model_dump())
    for setting in (f"model.{key}=-1", "training.stepz=3"):
        done = cli("train", case.preset, *options(*case.settings, setting), "--out", tmp_path / "run")
        assert done.code == 2
        assert setting.partition("=")[0] in done.error
        assert not list(tmp_path.iterdir())


def options(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


# ---------------------------------------------------------------------------------------------------------- training


@of_runs(CASES)
def test_training_leaves_a_run_folder(run: Any) -> None:
    asked = seqloom.load_config(run.case.preset, run.case.settings)
    kept = seqloom.load_config(run.path / "config.yaml")
    assert kept.model == asked.model
    assert kept.training == asked.training
    assert run.trained.path == run.path
    assert run.trained.parameters > 0
    assert (run.path / "model.safetensors").is_file()
    checkpoints = list(run.path.rglob("checkpoints"))  # one folder for each stage of the training
    assert bool(checkpoints) != run.case.at_once
    for folder in checkpoints:
        assert max(step.name for step in folder.iterdir()) == f"step-{asked.training.steps:08}"


@of_runs(CASES)
def test_fitting_ends_with_finite_numbers(run: Any, cli: Cli) -> None:
    entries = read_metrics(run.path)
    assert entries
    assert all(np.isfinite(number) for number in numbers(entries))
    found = run.trained.evaluate().scores
    assert found
    assert all(np.isfinite(score.value) and score.signature for score in found.values())
    if run.case in FIRST:
        (printed,) = cli("evaluate", run.path, "--json").records
        assert printed == {name: vars(score) for name, score in found.items()}


@of_runs(FIRST)
def test_a_run_says_what_it_is_and_shows_what_it_has(run: Any) -> None:
    said = repr(run.trained)
    assert said.startswith(f"<{type(run.trained).__name__} {run.path}: {run.case.kind}, ")
    assert f"{run.trained.parameters:,} parameters" in said
    validated = any("valid_loss" in entry for entry in read_metrics(run.path))
    assert ("validation" in said) == validated
    assert {"evaluate", "figures", "path", "config", "verbs"} <= set(dir(run.trained))
    assert all(hasattr(run.trained, name) for name in dir(run.trained))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def numbers(tree: Any) -> Iterator[float]:
    """All numbers of a nested document."""
    if isinstance(tree, dict | list):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from numbers(part)
    elif isinstance(tree, int | float):
        yield tree


@of_runs([case for case in CASES if case.learns])
def test_the_training_loss_falls(run: Any) -> None:
    losses = [entry["loss"] for entry in read_metrics(run.path) if "loss" in entry]
    assert mean(losses[-8:]) < mean(losses[:8]) - 0.2  # it begins as the distribution of the words


@of_runs([case for case in CASES if case.kind in ("ngram", "interpolation")])
def test_counted_models_predict_better_than_chance(run: Any) -> None:
    words = set(Path("sentences.txt").read_text(encoding="utf-8").split())
    (entry,) = read_metrics(run.path)
    assert entry["valid_perplexity"] < len(words)


@of_runs([case for case in CASES if kind_named(case.kind).deterministic])
def test_a_kind_without_chance_gives_the_same_model_under_every_seed(run: Any, tmp_path: Path) -> None:
    again = seqloom.train(run.path / "config.yaml", ["seed=1"], tmp_path / "again", report=False)
    assert (again.config.seed, run.trained.config.seed) == (1, 0)
    assert (again.path / "model.safetensors").read_bytes() == (run.path / "model.safetensors").read_bytes()


@of_runs(FIRST)
def test_the_report_is_one_page_that_fetches_nothing(run: Any) -> None:
    page = (run.path / "report.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert page.lower().count("<html") == 1
    assert page.rstrip().lower().endswith("</html>")
    assert re.search(rf"<title>[^<]*\b{run.case.name}\b[^<]*</title>", page)
    assert not re.findall(r"<script[^>]*\bsrc\b", page)
    loaded = re.findall(r"<(?:img|link|iframe|source|object)\b[^>]*\b(?:src|href|data)=[\"']?([^\"'> ]+)", page)
    assert all(address.startswith("data:") for address in loaded)
    assert "@import" not in page


@of_runs(FIRST)
def test_the_report_begins_with_a_sentence_and_ends_with_commands_for_the_run(run: Any) -> None:
    body = re.split("</h1>|</main>", (run.path / "report.html").read_text(encoding="utf-8"))[1]
    lead = re.match(r'<p class="lead">([^<]+)</p>', body)
    assert lead
    assert lead[1].endswith(".")
    assert re.search(r", trained on [^,:]+ for \S+\N{NO-BREAK SPACE}s", lead[1]), lead[1]
    last = body[body.rindex("<h2>") :]
    commands = re.findall(r"<code>seqloom ([^<]*)</code>", last)
    assert len(commands) >= 2
    assert all(f" {run.path}" in command for command in commands)


# ----------------------------------------------------------------------------------------------------------- two verbs


@of_runs(CASES, "log_prob")
def test_log_probabilities_are_finite_or_refused(run: Any) -> None:
    if run.case.log_prob is None:
        with pytest.raises(UserError, match=f"'{run.case.kind}'"):
            run.trained.log_prob(TEXTS)
        return
    found = run.case.log_prob(run.trained)
    assert found
    assert all(np.isfinite(value) for value in found.values())


@of_runs(CASES, "sample")
def test_what_is_drawn_follows_from_the_seed_or_is_refused(run: Any) -> None:
    if run.case.sample is None:
        with pytest.raises(UserError, match=f"'{run.case.kind}'"):
            run.trained.sample(2)
        return
    drawn = run.case.sample(run.trained, 3)
    if isinstance(drawn, np.ndarray):
        assert drawn.dtype == np.uint8
        assert len(drawn) == 4
    before = random_states()
    np.testing.assert_equal(run.case.sample(run.trained, 3), drawn)
    np.testing.assert_equal(random_states(), before)  # nobody else's numbers are used up
    with pytest.raises(AssertionError):
        np.testing.assert_equal(run.case.sample(run.trained, 4), drawn)


@of_runs([case for case in CASES if case in FIRST or case.name in ("ngram-pruned", "pairs-latent", "copying")])
def test_tokens_score_what_their_line_scores_or_are_refused(run: Any, cli: Cli, tmp_path: Path) -> None:
    if "score" not in run.case.verbs:
        with pytest.raises(UserError, match=f"'{run.case.kind}'"):
            run.trained.full_scores("the cat")
        return
    command = run.case.command("score", tmp_path)
    done = cli(*command, "--tokens", "--json")
    by_tokens = run.case.kind == "bert"  # its estimate is one of each token, but not of the end
    if "--image" in command or (run.trained.estimate and not by_tokens):
        assert done.code == 2
        assert "--tokens" in done.error or "whole lines" in done.error
        assert cli(*command, "--no-eos").code == 2
        return
    without_ends = cli(*command, "--no-eos", "--json").records
    lines = cli(*command, "--json").records
    for line, detailed, without_end in zip(lines[:-1], done.records[:-1], without_ends[:-1], strict=True):
        tokens = detailed.pop("token_scores")
        assert detailed == pytest.approx(line, rel=1e-5)
        assert len(tokens) == line["tokens"]
        assert sum(token["log_prob"] for token in tokens) == pytest.approx(line["log_prob"], rel=1e-5)
        assert {token["order"] is None for token in tokens} == {run.case.kind != "ngram"}
        assert (tokens[-1]["text"] == "<eos>") is not by_tokens
        end = 0.0 if by_tokens else tokens[-1]["log_prob"]
        assert without_end["log_prob"] == pytest.approx(line["log_prob"] - end, rel=1e-4)
    assert lines[-1] == pytest.approx(done.records[-1], rel=1e-5)
    assert cli(*command, "--no-bos").code == (0 if run.case.kind == "ngram" else 2)


# ---------------------------------------------------------------------------------------------------- loading, copying


@of_runs(CASES)
def test_a_run_comes_back_from_its_folder_with_the_same_outputs(run: Any) -> None:
    again = seqloom.load(run.path, "cpu")
    assert type(again) is type(run.trained)
    assert again.parameters == run.trained.parameters
    np.testing.assert_equal(run.case.outputs(again), run.outputs)


@of_runs(CASES)
def test_a_copy_stands_on_its_own(run: Any, tmp_path: Path) -> None:
    original = run.outputs
    shutil.copytree(run.path, tmp_path / "copy")
    Path("runs").rename("put-away")  # the original, and all that it was made of
    try:
        np.testing.assert_equal(run.case.outputs(seqloom.load(tmp_path / "copy", "cpu")), original)
    finally:
        Path("put-away").rename("runs")


# ------------------------------------------------------------------------------------------------------------ resuming


class Killed(BaseException):
    """As a process dies: nothing is saved any more."""


def kill() -> None:
    raise Killed


def press_control_c() -> None:
    signal.raise_signal(signal.SIGINT)


@of_runs(STEPPED)
def test_stopped_and_resumed_equals_uninterrupted(
    run: Any, tmp_path: Path, no_reports: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_at(first_validation(run) + 1, press_control_c, monkeypatch)
    with pytest.raises(Interrupted):
        seqloom.train(run.case.preset, run.case.settings, tmp_path / "parts")
    check_resuming(tmp_path / "parts", run)


@of_runs([case for case in FIRST if not case.at_once])
def test_killed_and_resumed_equals_uninterrupted(
    run: Any, tmp_path: Path, no_reports: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_at(first_validation(run) + 2, kill, monkeypatch)  # and so two steps are done, and logged, twice
    with pytest.raises(Killed):
        seqloom.train(run.case.preset, run.case.settings, tmp_path / "parts")
    check_resuming(tmp_path / "parts", run)


def first_validation(run: Any) -> int:
    """The step of the first validation, which saves a checkpoint."""
    return run.trained.config.training.validate_every


def check_resuming(path: Path, run: Any) -> None:
    seqloom.train("", out=path, resume=True)
    assert untimed(read_metrics(path)) == untimed(read_metrics(run.path))
    assert final_weights(path) == final_weights(run.path)


def end_at(step: int, end: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first training that reaches a step end there."""
    original, pending = Trainer._optimise, [step]

    def optimise(self: Any) -> None:
        original(self)
        if pending and self.progress.step == pending[0]:
            pending.clear()
            end()

    monkeypatch.setattr(Trainer, "_optimise", optimise)


def untimed(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if key not in TIMING} for entry in entries]


def final_weights(path: Path) -> dict[str, bytes]:
    """The model, and all that the last checkpoint of each training in the folder holds."""
    files = [path / "model.safetensors"]
    for folder in path.rglob("checkpoints"):
        files += max(folder.glob("step-*")).glob("*.safetensors")
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@of_runs([case for case in CASES if case.at_once])
def test_what_is_fitted_at_once_is_done_again_where_it_did_not_finish(
    run: Any, tmp_path: Path, no_reports: None
) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    file = tmp_path / "run" / "model.safetensors"
    whole, written_at = file.read_bytes(), file.stat().st_mtime_ns
    seqloom.train("", out=tmp_path / "run", resume=True)
    assert file.stat().st_mtime_ns == written_at  # it was finished: nothing to do
    file.unlink()
    unfinish(tmp_path / "run")
    seqloom.train("", out=tmp_path / "run", resume=True)
    assert file.read_bytes() == whole
    assert untimed(read_metrics(tmp_path / "run")) == untimed(read_metrics(run.path))


@of_runs(CASES)
def test_a_finished_run_is_left_alone(run: Any, cli: Cli, tmp_path: Path, no_reports: None) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    before = contents(tmp_path / "run")
    done = cli("train", "--out", tmp_path / "run", "--resume")
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    assert str(tmp_path / "run") in done.out
    assert contents(tmp_path / "run") == before


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# ------------------------------------------------------------------------------------------------------ command line


@of_verbs(has=True)
def test_a_verb_that_a_run_has(run: Any, verb: str, cli: Cli, tmp_path: Path) -> None:
    words = run.case.command(verb, tmp_path)
    done = cli(*words)
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    assert done.out
    for file in (Path(word) for word in words if word.startswith(str(tmp_path))):
        assert file.stat().st_size > 0


@of_verbs(has=False)
def test_a_verb_that_a_run_lacks_is_answered_with_one_sentence(run: Any, verb: str, cli: Cli, tmp_path: Path) -> None:
    before = written(run.path)
    done = cli(*run.case.command(verb, tmp_path))
    assert done.code == 2
    assert re.search(rf"{re.escape(str(run.path))}(?![\w/])|'{run.case.kind}'", done.error)
    assert written(run.path) == before
    assert not list(tmp_path.iterdir())


def written(folder: Path) -> dict[Path, int]:
    """What is in a folder and here, with the time when each was written."""
    return {path: path.stat().st_mtime_ns for path in [*folder.rglob("*"), *Path().iterdir()]}
