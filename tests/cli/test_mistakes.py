"""Mistakes: one line on stderr that says what is wrong, where, and what to do; exit code 2; nothing half-written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sealing import unfinish

import seqloom
from seqloom.cli import main
from seqloom.files import TEMPORARY

Cli = Callable[..., Any]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a command that fails must leave nothing behind."""
    path = tmp_path / "place"
    path.mkdir()
    return path


@pytest.fixture
def damaged(run: Path, tmp_path: Path) -> Path:
    """A copy of a run, to be damaged."""
    return shutil.copytree(run, tmp_path / "damaged")


def cut(file: Path, bytes_left: int) -> None:
    file.write_bytes(file.read_bytes()[:bytes_left])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# -------------------------------------------------------------------------------------------- configuration, data


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["model.features.sizze=3"], "unknown key 'model.features.sizze' (did you mean 'model.features.size'?)"),
        (["trainning.steps=3"], "unknown key 'trainning' (did you mean 'training'?)"),
        (["model.features.size=-1"], "model.features.size: input should be greater than or equal to 1 (got -1)"),
        (["model.features.size=4294967296"], "model.features.size: input should be less than or equal to 1000000"),
        (["model.features.layers=100000"], "model.features.layers: input should be less than or equal to 1000"),
        ([f"training.steps={10**30}"], "training.steps: input should be less than or equal to 1000000000000000"),
        ([f"seed={2**64}"], "seed: input should be less than or equal to 1000000000000000"),
        (["training.epochs=.inf"], "training.epochs: input should be a finite number"),
        (["training.optimizer.learning_rate=1e39"], "learning_rate: input should be less than or equal to 1000000000"),
        (["model.features.kind=lstmm"], "'lstmm' is not one of the kinds (did you mean 'lstm'?)"),
        (["steps"], "--set steps: write key=value"),
        (["training.device=gpu"], "'gpu' is not a device; training.device and --device take"),
        (["data.batch_size=4000"], "too few for one batch of 4000 windows of 8 tokens: use more text, or lower"),
        (["data.train=missing.txt"], "missing.txt: no such file, and no bundled corpus of that name"),
        (["data.valid=missing.txt"], "missing.txt: no such file"),
        (["text.min_count=1000"], "lower text.min_count or give more text"),
        (["objective.kind=random-truncation", "model.features.kind=average"], "needs recurrent features"),
    ],
)
def test_a_wrong_setting_is_named(settings: list[str], said: str, cli: Cli, tiny: list[str], place: Path) -> None:
    wrong = [part for setting in settings for part in ("--set", setting)]
    done = cli("train", "lstm", *tiny, *wrong, "--out", place / "run", "--quiet")
    assert done.code == 2
    assert said in done.error
    assert not list(place.iterdir())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty: there is no text to learn from"),
        (b"good line\nb\xe4d line\n", "text.txt, line 2: not UTF-8 (byte 0xe4 at offset 1 of the line)"),
        (b"one line only\n", "name a validation text with data.valid"),
        (b"a b\n" * 8, "use more text, or lower data.batch_size or data.length"),
        (b"\x1f\x8b\x08\x00broken", "text.txt: the gzip file"),
    ],
)
def test_a_text_that_cannot_be_used_is_named(
    content: bytes, said: str, cli: Cli, tiny: list[str], place: Path, tmp_path: Path
) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(content)
    done = cli("train", "lstm", *tiny, "--set", f"data.train={text}", "--out", place / "run", "--quiet")
    assert done.code == 2
    assert said in done.error
    assert not list(place.iterdir())


def test_a_mistake_leaves_other_files_in_the_folder_alone(cli: Cli, tiny: list[str], place: Path) -> None:
    (place / "thesis").mkdir()
    (place / "thesis" / "chapter.txt").write_text("years of work\n", encoding="utf-8")
    (place / "empty.txt").write_text("", encoding="utf-8")
    before = contents(place)
    result = cli("train", "lstm", *tiny, "--set", f"data.train={place / 'empty.txt'}", "--out", str(place))
    assert result.code == 2
    assert contents(place) == before


def test_an_empty_validation_text_is_named(cli: Cli, tiny: list[str], place: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    done = cli("train", "lstm", *tiny, "--set", f"data.valid={tmp_path / 'empty.txt'}", "--out", place / "run")
    assert done.code == 2
    assert f"{tmp_path / 'empty.txt'}: the corpus is empty" in done.error
    assert not list(place.iterdir())


def test_a_validation_text_shorter_than_a_window_is_no_mistake(cli: Cli, tiny: list[str], tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("the cat\n")
    arguments = (*tiny, "--set", f"data.valid={short}", "--set", "training.steps=2", "--out", tmp_path / "run")
    (found,) = cli("train", "lstm", *arguments, "--quiet", "--json").records
    (score,) = seqloom.load(tmp_path / "run", device="cpu").log_prob(["the cat"])
    assert found["valid_loss"] == pytest.approx(-score / 3, rel=1e-5)


def test_an_unknown_preset_is_met_with_a_suggestion(cli: Cli, place: Path) -> None:
    done = cli("train", "lsstm", "--out", place / "run")
    assert done.code == 2
    assert done.error == "'lsstm' is neither a preset nor a configuration file (did you mean 'lstm'?)"
    assert not list(place.iterdir())


def test_a_key_that_is_typed_as_an_option_is_set(cli: Cli) -> None:
    said = "no such option: --batch-size (did you mean --set data.batch_size=...?); see seqloom train --help"
    assert cli("train", "lstm", "--batch-size", "8").error == said


def test_what_was_typed_is_repeated_as_it_was(cli: Cli) -> None:
    assert "(Once Upon)" in cli("generate", "runs/lstm", "Once Upon").error
    long = "no name of a file is as long as this text " * 20
    assert long in cli("generate", "runs/lstm", f"{long}!").error


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("generate {run} Once Upon", "--prompt 'Once Upon'"),
        ("generate {run} {text}", "--input {text}"),
        ("score {run} {text}", "--input {text}"),
        ("predict {run} {text}", "--input {text}"),
        ("evaluate {run} {text}", "--source {text}"),
        ("score {run} {folder}", "--image {folder}"),
    ],
)
def test_what_is_one_argument_too_many_gets_its_option(
    typed: str, meant: str, cli: Cli, run: Path, corpus_file: Path
) -> None:
    names = {"run": run, "text": corpus_file, "folder": run.parent}
    done = cli(*typed.format(**names).split())
    assert done.code == 2
    assert f"(did you mean {meant.format(**names)}?); see seqloom" in done.error


def test_a_key_and_its_value_may_have_spaces_around(cli: Cli, tiny: list[str], place: Path) -> None:
    done = cli("train", "lstm", *tiny, "--set", " training.steps = 0", "--out", place / "run")
    assert "training.steps: input should be greater than or equal to 1 (got 0)" in done.error


def test_broken_yaml_is_named_with_its_line(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("training:\n  steps: [3\n")
    done = cli("train", config, "--out", tmp_path / "run")
    assert done.code == 2
    assert f"{config} is not valid YAML" in done.error
    assert "line 3, column 1: expected ',' or ']', but got '<stream end>'" in done.error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("verb", [("stats",), ("compare",), ("compare", "rnn", "--data")])
def test_a_missing_file_is_a_mistake_in_other_verbs_too(verb: tuple[str, ...], cli: Cli, place: Path) -> None:
    more = ("--out", place / "out", "--quiet") if verb[0] == "compare" else ()
    done = cli(*verb, "missing.txt", *more)
    assert done.code == 2
    assert "missing.txt: no such file" in done.error
    assert not list(place.iterdir())


# ----------------------------------------------------------------------------------------------------- run folders


def test_a_run_is_never_overwritten(cli: Cli, run: Path, tiny: list[str]) -> None:
    before = contents(run)
    done = cli("train", "lstm", *tiny, "--out", run)
    assert done.code == 2
    assert "holds a run already: go on with --resume, or choose another --out" in done.error
    assert contents(run) == before


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("gru", "with features lstm, not gru: leave gru out, or choose another --out"),
        ("lstm --set model.features.kind=gru", "model.features.kind is 'lstm' there, 'gru' here"),
        ("ngram", "holds a model of kind 'language', not ngram: leave ngram out"),
        ("", "is at step 40 already, and training.steps=30 would train nothing: give a larger number"),
    ],
)
def test_a_run_does_not_go_on_as_another_nor_backwards(typed: str, said: str, cli: Cli, run: Path) -> None:
    before = contents(run)
    done = cli("train", *typed.split(), "--resume", "--set", "training.steps=30", "--out", run)
    assert done.code == 2
    assert said in done.error
    assert contents(run) == before


def test_resume_must_say_which_run(cli: Cli, tiny: list[str], place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    done = cli("train", "lstm", *tiny, "--resume")
    assert done.code == 2
    assert "--resume needs --out" in done.error
    assert not list(place.iterdir())


@pytest.mark.parametrize("verb", ["generate", "score", "evaluate", "inspect"])
def test_a_folder_that_is_no_run_is_named(verb: str, cli: Cli, place: Path) -> None:
    arguments = ("inspect", "gradients") if verb == "inspect" else (verb,)
    for folder, why in ((place, "run.json in it"), (place / "missing", "such folder")):
        done = cli(*arguments, folder)
        assert done.code == 2
        assert done.error == f"{folder} is not a run folder: there is no {why}"
    done = cli(*arguments, "lstm")
    assert done.error.endswith("no such folder (lstm is a preset: seqloom train lstm makes such a run)")
    (place / "my.txt").touch()
    assert cli(*arguments, place / "my.txt").error == f"{place / 'my.txt'} is not a run folder: it is a file"


@pytest.mark.parametrize(
    ("file", "left", "said"),
    [
        ("model.safetensors", 100, "model.safetensors is not what was written"),
        ("model.safetensors", 0, "model.safetensors is not what was written"),
        ("assets/tokenizer.json", 100, "assets/tokenizer.json is not what was written"),
        ("config.yaml", 0, "config.yaml is not what was written"),
        ("config.yaml", 120, "config.yaml is not what was written"),
        ("run.json", 0, "run.json is damaged"),
    ],
)
def test_a_truncated_file_of_a_run_is_named(file: str, left: int, said: str, cli: Cli, damaged: Path) -> None:
    cut(damaged / file, left)
    for arguments in (("generate", damaged, "--prompt", "the"), ("score", damaged)):
        done = cli(*arguments)
        assert done.code == 2
        assert said in done.error


def test_checksums_are_left_out_on_request(cli: Cli, damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CHECKSUMS", "1")  # and put back after the test
    weights = bytearray((damaged / "model.safetensors").read_bytes())
    weights[-3] ^= 1
    (damaged / "model.safetensors").write_bytes(weights)
    assert "its checksum differs" in cli("evaluate", damaged).error
    assert cli("--no-checksums", "evaluate", damaged).code == 0


def test_a_run_without_weights_says_so(cli: Cli, damaged: Path) -> None:
    (damaged / "model.safetensors").unlink()
    done = cli("score", damaged)
    assert done.code == 2
    assert "model.safetensors is missing: bring it back from a copy, or train again" in done.error
    unfinish(damaged)  # as in a training that has not validated yet
    done = cli("score", damaged)
    assert done.code == 2
    going_on = f"go on with seqloom train --resume --out {damaged}"
    assert done.error == f"{damaged} has no weights yet, for it made no validation: if it stopped, {going_on}"


def test_a_truncated_checkpoint_stops_resuming_and_deleting_it_helps(cli: Cli, damaged: Path) -> None:
    *_, last = sorted((damaged / "checkpoints").iterdir())
    cut(last / "training.safetensors", 500)
    before = contents(damaged / "checkpoints")
    longer = ("train", "lstm", "--set", "training.steps=41", "--out", damaged, "--resume", "--quiet")
    done = cli(*longer)
    assert done.code == 2
    assert f"checkpoint {last} is damaged: training.safetensors" in done.error
    assert "Delete that folder to resume from the checkpoint before it" in done.error
    assert contents(damaged / "checkpoints") == before
    shutil.rmtree(last)
    assert cli(*longer).code == 0


# ------------------------------------------------------------------------------------------------------- decoding


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--prompt", "a", "--input", "b.txt"), "give one of --prompt, --input and --chat"),
        (("--temperature", -1), "temperature must be a number, 0 or more, not -1.0"),
        (("--top-p", 0), "top_p must be above 0 and at most 1, not 0.0"),
        (("--top-p", 1.5), "top_p must be above 0 and at most 1, not 1.5"),
        (("--strategy", "beam", "--beam", 2, "--n-best", 3), "between 1 and the beam's width (2), not 3"),
        (("--strategy", "greedy", "--n-best", 3), "use --strategy beam or sample"),
        (("--min-length", 9, "--max-length", 3), "min_length must be between 0 and max_length (3), not 9"),
        (("--strategy", "beam", "--length-penalty", -1), "length_penalty must be 0 or more"),
        (("--coverage-penalty", "nan"), "coverage_penalty must be a finite number, not nan"),
        (("--prompt", "caf\udce9"), r"'caf\udce9' is not text: it has bytes that are not UTF-8"),
        (("--input", "missing.txt"), "no such file: missing.txt"),
        (("--device", "cuda:99"), "device 'cuda:99' was asked for, but torch sees"),
        (("--device", "gpu"), "'gpu' is not a device; training.device and --device take"),
    ],
)
@pytest.mark.parametrize("to_file", [False, True])
def test_a_wrong_way_to_decode_is_named(
    arguments: tuple[Any, ...], said: str, to_file: bool, cli: Cli, run: Path, place: Path
) -> None:
    done = cli("generate", run, *arguments, *(("--output", place / "out.txt") if to_file else ()))
    assert done.code == 2
    assert said in done.error
    assert not list(place.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ("--beam", "0"),
        ("--beam", str(2**31)),
        ("--n-best", str(2**64)),
        ("--max-length", str(10**30)),
        ("--seed", "-1"),
        ("--strategy", "best"),
        ("--no-such-option",),
        ("--top-k", "x"),
    ],
)
def test_a_wrong_option_is_a_usage_error(arguments: tuple[str, ...], cli: Cli, run: Path) -> None:
    done = cli("generate", run, *arguments)
    assert done.code == 2
    assert done.out == ""
    assert arguments[0] in done.err
    assert "Traceback" not in done.err


def test_broken_utf8_in_the_input_names_the_line(cli: Cli, run: Path, tmp_path: Path) -> None:
    source = tmp_path / "prompts.txt"
    source.write_bytes(b"fine\nbr\xffken\n")
    done = cli("generate", run, "--input", source, "--output", tmp_path / "out.txt")
    assert done.code == 2
    assert f"{source}, line 2: not UTF-8" in done.error
    assert not (tmp_path / "out.txt").exists()
    assert not list(tmp_path.glob(TEMPORARY + "*"))


# ------------------------------------------------------------------------------------------------- the machine


def test_an_out_folder_that_cannot_be_is_a_mistake(cli: Cli, tiny: list[str], place: Path) -> None:
    taken = place / "taken"
    taken.write_text("a file, not a folder")
    for out, said in (
        (taken, f"{taken} is a file; --out names a folder"),
        (taken / "run", f"{taken} is a file; --out names a folder"),
        ("/proc/x", "no folder can be made at /proc/x (No such file or directory): choose another --out"),
    ):
        done = cli("train", "lstm", *tiny, "--out", out, "--quiet")
        assert (done.code, done.error) == (2, said)
    assert contents(place) == {"taken": b"a file, not a folder"}


def test_a_disk_that_fills_before_the_run_is_there_leaves_no_folder(
    cli: Cli, tiny: list[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        raise seqloom.SeqloomError(f"cannot write {path}: No space left on device; nothing was changed there")

    monkeypatch.setattr("seqloom.config.loading.write_text", full)
    done = cli("train", "lstm", *tiny, "--out", place / "run", "--quiet")
    assert done.code == 1
    assert "config.yaml: No space left on device" in done.error
    assert not list(place.iterdir())


def test_an_output_that_cannot_be_written_is_a_failure(cli: Cli, run: Path, corpus_file: Path, place: Path) -> None:
    (place / "taken").write_text("a file, not a folder")
    for arguments in (
        ("generate", run, "--output", place / "taken" / "out.txt"),
        ("stats", corpus_file, "--json", "--plot", place / "taken" / "zipf.svg"),
        ("inspect", "gradients", run, "--length", 8, "--json", "--out", place / "taken" / "gradients.svg"),
        ("presets", "copy", "lstm", place / "taken" / "lstm.yaml"),
    ):
        done = cli(*arguments)
        assert done.code == 1, arguments
        assert done.err.startswith("error: ")
        assert str(place / "taken") in done.err
        assert len(done.err.splitlines()) == 1
    assert contents(place) == {"taken": b"a file, not a folder"}


def test_a_lack_of_memory_is_a_failure_in_one_line(cli: Cli, tiny: list[str], place: Path) -> None:
    done = cli("train", "lstm", *tiny, "--set", "model.features.size=1000000", "--out", place / "run", "--quiet")
    assert done.code == 1
    assert done.error.startswith("not enough memory: ")
    assert "you tried to allocate 16000000000000 bytes" in done.error
    assert "lower data.batch_size, the sizes of the model" in done.error
    assert not list(place.iterdir())


def test_a_mistake_of_ours_still_shows_where_it_is(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("seqloom.kinds.load", broken)
    monkeypatch.setattr("sys.argv", ["seqloom", "score", str(run)])
    with pytest.raises(RuntimeError, match="a bug"):
        main()


def test_ctrl_c_outside_the_training_loop_exits_with_130(
    cli: Cli, tiny: list[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("seqloom.kinds.language.prepare_text", pressed)
    done = cli("train", "lstm", *tiny, "--out", place / "run")
    assert done.code == 130
    assert "Traceback" not in done.err
    assert not list(place.iterdir())
