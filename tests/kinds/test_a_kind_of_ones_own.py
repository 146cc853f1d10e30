"""A kind that is not part of the package: the page that shows one is followed, and every verb takes its runs."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sealing import unfinish

import seqloom
from seqloom.cli import main
from seqloom.errors import ConfigError

PAGE = Path(__file__).parent.parent.parent / "docs" / "adding-a-kind.md"
SETTINGS = {
    "data": {"train": "digits", "values": "sampled"},
    "model": {"kind": "independent-pixels"},
    "training": {"steps": 30, "validate_every": 10, "checkpoint_every": 10, "log_every": 10, "device": "cpu"},
}


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    """The kind of the page; registered twice, for a page of a notebook is run more than once."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    *definitions, _ = blocks  # the last one trains
    code = compile("\n".join(definitions), str(PAGE), "exec", dont_inherit=True)
    for _ in range(2):
        exec(code, {"__name__": "independent_pixels"})


@pytest.fixture(scope="module")
def run(_registered: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "pixels"
    seqloom.train(SETTINGS, out=path)
    return path


def call(*arguments: object) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["seqloom", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    return ended.value.code or 0


def test_it_trains_reports_and_comes_back(run: Path) -> None:
    trained = seqloom.load(run, "cpu")
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "independent-pixels" in page
    mean = float(trained.log_prob(trained.held_out()).mean())
    assert trained.figures()["log_prob"].value == mean
    counts = trained.held_out().images.reshape(-1, 64).mean(0) / 255
    best = float(np.sum(counts * np.log(counts + 1e-9) + (1 - counts) * np.log(1 - counts + 1e-9)))
    assert best - 20 < mean < best  # no independent pixels can do better than their own frequencies


def test_it_resumes_exactly(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "parts")
    shutil.rmtree(sorted((tmp_path / "parts" / "checkpoints").iterdir())[-1])
    unfinish(tmp_path / "parts")
    seqloom.train(SETTINGS, out=tmp_path / "parts", resume=True, report=False)
    assert (tmp_path / "parts" / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


def test_its_settings_are_checked_by_name() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'model\.spraed' \(did you mean 'model.spread'"):
        seqloom.load_config(SETTINGS, ["model.spraed=1"])
    with pytest.raises(ConfigError, match=r"learns from images: set data\.kind=images"):
        seqloom.load_config(SETTINGS, ["data={kind: text}"])


def test_verbs_of_its_capabilities_take_it(run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert call("images", "sample", run, "--n", 9, "--out", tmp_path / "drawn.png") == 0
    with Image.open(tmp_path / "drawn.png") as picture:
        assert picture.width == picture.height
    capfd.readouterr()
    assert call("evaluate", run, "--json") == 0
    assert json.loads(capfd.readouterr().out)["log_prob"]["signature"].startswith("exact; pixels sampled")
    assert call("train", "--out", run, "--resume", "--no-report", "--quiet") == 0


def test_other_verbs_say_what_it_is_for(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for verb in (
        ("embed", run, "--output", "x"),
        ("generate", run, "--prompt", "x"),
        ("predict", run),
        ("images", "denoise", run),
    ):
        capfd.readouterr()
        assert call(*verb) == 2
        said = capfd.readouterr()
        assert said.out == ""
        assert "is a model of kind 'independent-pixels', which is not for `seqloom" in said.err
        assert said.err.rstrip().endswith("it is for: evaluate, score --image, images sample")


def test_its_density_is_there_for_score(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    assert call("score", run, "--image", "digits", "--json") == 0
    *scores, total = map(json.loads, capfd.readouterr().out.splitlines())
    assert len(scores) == total["images"] == 1797
    assert total["total_log_prob"] == pytest.approx(sum(each["log_prob"] for each in scores))
    assert total["method"] == "exact"


def test_it_enters_the_ladder(run: Path, tmp_path: Path) -> None:
    small: list[Any] = ["model.iterations=3", "model.components=5", "data.values=sampled"]
    ladder = seqloom.compare(["mixture", str(run)], small, tmp_path / "ladder")
    assert ladder.best().name == "mixture"
    assert (tmp_path / "ladder" / "report.html").is_file()
