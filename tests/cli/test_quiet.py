"""What verbs say beside their results, and that they can be told to say nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from thirty_mistakes import tree

from seqloom.cli.options import print_scores
from seqloom.metrics.corpus_scores import Scored
from seqloom.training import read_metrics

Cli = Callable[..., Any]


def test_every_verb_can_be_told_to_be_quiet() -> None:
    without = [name for name, verb in tree().items() if not any("-q" in parameter.opts for parameter in verb.params)]
    assert without == []


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "{run}"),
        ("generate", "{run}", "--input", "{corpus}", "--batch-size", "8", "--max-length", "5"),
        ("generate", "{run}", "--prompt", "the", "--strategy", "beam", "--max-length", "5"),
    ],
    ids=["evaluate", "generate", "beam"],
)
def test_progress_is_shown_and_changes_nothing(
    command: tuple[str, ...], cli: Cli, run: Path, corpus_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqloom.progress.PAUSE", 0.0)  # as if everything took long
    arguments = [part.format(run=run, corpus=corpus_file) for part in command]
    loud, quiet = cli(*arguments), cli(*arguments, "-q")
    assert " left" in loud.err.splitlines()[0]
    assert quiet.err == ""
    assert loud.out == quiet.out != ""


def test_pictures_are_announced_unless_quiet(cli: Cli, corpus_file: Path, tmp_path: Path) -> None:
    command = ("stats", corpus_file, "--plot", tmp_path / "zipf.svg")
    assert cli(*command).err.startswith("picture: ")
    assert cli(*command, "--quiet").err == ""


def test_a_distance_is_called_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    print_scores({"frechet_distance_real": Scored(1.5, "judge"), "bits_per_character": Scored(2.0, "judge")})
    assert capsys.readouterr().out.splitlines()[:2] == ["Fréchet distance real 1.5000", "bits per character    2.0000"]


def test_models_of_images_count_images_and_name_their_distance(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    for number, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (60, 8, 8), np.uint8)):
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{number}.png")
    settings = ["training.steps=2", "training.log_every=1", "training.validate_every=2", "training.device=cpu"]
    settings += ["model.network.sizes=[8]", "data.batch_size=8", f"data.train={tmp_path / 'pictures'}"]
    options = [part for setting in settings for part in ("--set", setting)]
    done = cli("train", "gan", *options, "--out", tmp_path / "run", "--no-report")
    assert done.code == 0
    assert "step 2: valid Fréchet distance " in done.err
    assert " images/s  " in done.err
    assert {entry["unit"] for entry in read_metrics(tmp_path / "run") if "tokens_per_second" in entry} == {"images"}
