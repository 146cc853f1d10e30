"""`import` and `export` of Hugging Face's folders, and the verbs on what was imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_runs import SHAPES, made


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gpt") / "run"
    made(path, SHAPES["gpt2"])
    return path


def test_a_run_goes_out_and_comes_back(cli: Any, gpt: Path, tmp_path: Path) -> None:
    out = tmp_path / "folder"
    done = json.loads(cli("export", gpt, "--to", "huggingface", out, "--json").out)
    assert done["bytes"] == sum(file.stat().st_size for file in out.iterdir())
    assert "numbers" in cli("import", out, "--out", tmp_path / "auto").out
    assert cli("import", out, "--from", "huggingface", "--out", tmp_path / "named").code == 0
    (tmp_path / "text.txt").write_text("the time traveller smiled\nThe end\n")
    scores = [cli("score", run, "--input", tmp_path / "text.txt").out for run in (gpt, tmp_path / "auto")]
    assert scores[0] == scores[1]
    assert cli("evaluate", tmp_path / "auto", "--source", tmp_path / "text.txt").code == 0
    search = ("--prompt", "the", "--strategy", "greedy", "--max-length", 20)
    texts = [cli("generate", run, *search) for run in (gpt, tmp_path / "auto")]
    assert texts[0].out == texts[1].out != ""
    assert texts[0].code == texts[1].code == 0
    assert "read from folder" in cli("show", tmp_path / "auto").out
    assert cli("export", tmp_path / "auto", "--to", "huggingface", tmp_path / "again").code == 0
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()


def test_mistakes_are_one_line(cli: Any, gpt: Path, tmp_path: Path) -> None:
    done = cli("import", tmp_path, "--out", tmp_path / "run")
    assert done.code == 2
    assert "config.json is missing" in done.error
    done = cli("export", gpt, "--to", "huggingface", tmp_path)
    assert done.code == 0  # an empty folder is as good as none
    done = cli("export", gpt, "--to", "huggingface", tmp_path)
    assert done.code == 2
    assert "is there already" in done.error
