"""Several processes under torchrun: the same losses as one process with the same global batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file
from watching import figures

import seqloom

# Trains several configurations one after the other, so that starting processes is paid for once.
SEVERAL = """
import json, sys
import torch.distributed as dist
import seqloom
from seqloom.training import Silent
dist.init_process_group("gloo")  # one group for all: processes that meet again and again find old addresses
for source, settings, out, resume in json.loads(sys.argv[1]):
    seqloom.train(source, settings, out, resume, Silent())
dist.destroy_process_group()
"""


@pytest.fixture
def config(corpus_file: Path, tmp_path: Path) -> Path:
    """No dropout: its masks differ between one process and several."""
    path = tmp_path / "config.yaml"
    path.write_text(
        f"""
data: {{train: {corpus_file}, batch_size: 4, length: 8, sampling: sequential}}
model:
  embedding: {{size: 12}}
  features: {{kind: lstm, size: 12, layers: 2}}
training:
  steps: 12
  device: cpu
  accumulate: 2
  log_every: 1
  validate_every: 4
  checkpoint_every: 4
  optimizer: {{learning_rate: 0.03}}
""",
        encoding="utf-8",
    )
    return path


def torchrun(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run in two processes."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*launcher, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)


def train_all(tmp_path: Path, *trainings: tuple[Path | str, list[str], Path, bool]) -> None:
    script = tmp_path / "several.py"
    script.write_text(SEVERAL)
    listed = [(str(source), settings, str(out), resume) for source, settings, out, resume in trainings]
    done = torchrun(script, json.dumps(listed))
    assert done.returncode == 0, done.stderr


def assert_same_losses(several: Path, one: Path) -> None:
    """All figures, the counts of tokens and steps among them; and the weights."""
    left, right = figures(several), figures(one)
    assert len(left) == len(right)
    for mine, other in zip(left, right, strict=True):
        assert mine == pytest.approx(other, rel=1e-5)
    weights = load_file(one / "model.safetensors")
    found = load_file(several / "model.safetensors")
    assert found.keys() == weights.keys()
    for name, tensor in weights.items():
        assert found[name].sub(tensor).abs().max() < 1e-4, name


def test_two_processes_train_like_one_and_only_the_first_talks(config: Path, tmp_path: Path) -> None:
    done = torchrun("-m", "seqloom", "train", config, "--out", tmp_path / "two", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert found["folder"] == str(tmp_path / "two")
    assert done.stderr.count("step 12: valid_loss") == 1
    seqloom.train(config, [], tmp_path / "one")
    assert_same_losses(tmp_path / "two", tmp_path / "one")


def test_sharded_random_and_resumed_training_agree_too(config: Path, tmp_path: Path) -> None:
    random, half, dropout = ["data.sampling=random"], ["training.steps=8"], ["model.features.dropout=0.3"]
    train_all(
        tmp_path,
        (config, ["training.sharded=true"], tmp_path / "sharded", False),
        (config, random, tmp_path / "random", False),
        (config, dropout, tmp_path / "whole", False),
        (config, [*dropout, *half], tmp_path / "parts", False),
        (config, ["training.steps=12"], tmp_path / "parts", True),
    )
    seqloom.train(config, [], tmp_path / "one")
    seqloom.train(config, random, tmp_path / "one-random")
    assert_same_losses(tmp_path / "sharded", tmp_path / "one")
    assert_same_losses(tmp_path / "random", tmp_path / "one-random")
    assert figures(tmp_path / "parts") == figures(tmp_path / "whole")
    for file in ("model.safetensors", "checkpoints/step-00000012/training.safetensors"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("sharded", ["false", "true"])
def test_every_kind_of_training_survives_two_processes(sharded: str, config: Path, tmp_path: Path) -> None:
    """Averages, other optimisers, untied weights, a Transformer; a checkpoint of one process goes on in two."""
    cases = {
        "average": ["training.averaging.kind=exponential", "training.averaging.decay=0.8"],
        "checkpoints": ["training.averaging.kind=checkpoints", "training.averaging.last=2"],
        "untied": ["model.output.tied=false", "training.clip=0"],
        "clipped": ["training.clip=0.05"],
        "sgd": ["training.optimizer.kind=sgd", "training.optimizer.momentum=0.9"],
        "rmsprop": ["training.optimizer.kind=rmsprop"],
        "transformer": ["model.features.kind=transformer", "model.features.size=16", "model.features.layers=2"],
        "convolution": ["model.features.kind=convolution", "model.features.size=12"],
        "regularised": ["objective.activation=1.0", "objective.temporal=1.0"],
        "clock": ["training.minutes=60", "training.schedule.kind=cosine"],
    }
    several = [f"training.sharded={sharded}"]
    trainings = []
    for name, settings in cases.items():
        trainings.append((config, [*several, *settings], tmp_path / "two" / name, False))
        seqloom.train(config, settings, tmp_path / "one" / name)
    for name in ("average", "untied", "transformer"):
        half = [*cases[name], "training.steps=8"]
        trainings.append((config, [*several, *half], tmp_path / "parts" / name, False))
        trainings.append((config, ["training.steps=12"], tmp_path / "parts" / name, True))
    seqloom.train(config, ["training.steps=8"], tmp_path / "one" / "moved")
    trainings.append((config, [*several, "training.steps=12"], tmp_path / "one" / "moved", True))
    train_all(tmp_path, *trainings)
    for name in cases:
        assert_same_losses(tmp_path / "two" / name, tmp_path / "one" / name)
    for name in ("average", "untied", "transformer"):
        assert figures(tmp_path / "parts" / name) == figures(tmp_path / "two" / name)
    seqloom.train(config, [], tmp_path / "one" / "whole")
    assert_same_losses(tmp_path / "one" / "moved", tmp_path / "one" / "whole")


@pytest.mark.slow
def test_muon_takes_the_same_steps_in_two_processes(config: Path, tmp_path: Path) -> None:
    """Sharded or not. Its products are in bfloat16, so one process differs in what that rounds."""
    muon = ["training.optimizer.kind=muon", "training.optimizer.other_rate=0.01"]
    train_all(
        tmp_path,
        (config, muon, tmp_path / "replicated", False),
        (config, [*muon, "training.sharded=true"], tmp_path / "sharded", False),
    )
    seqloom.train(config, muon, tmp_path / "one")
    assert_same_losses(tmp_path / "sharded", tmp_path / "replicated")
    for mine, other in zip(figures(tmp_path / "sharded"), figures(tmp_path / "one"), strict=True):
        assert mine == pytest.approx(other, rel=1e-3)


@pytest.mark.slow
def test_rows_that_cannot_be_shared_out_are_a_clear_error(config: Path, tmp_path: Path) -> None:
    done = torchrun("-m", "seqloom", "train", config, "--set", "data.batch_size=3", "--out", tmp_path / "run")
    assert done.returncode != 0
    assert "exitcode  : 2" in done.stderr
    assert done.stderr.count("error: data.batch_size (3) must be a multiple of the 2 processes") == 1
    assert "rank0]: Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_wrong_text_is_reported_once(config: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"fine\nbr\xffken\n")
    wrong = f"data.train={tmp_path / 'bad.txt'}"
    done = torchrun("-m", "seqloom", "train", config, "--set", wrong, "--out", tmp_path / "run")
    assert done.returncode != 0
    assert done.stderr.count("bad.txt, line 2: not UTF-8") == 1
    assert "]: Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_comparison_in_two_processes_is_printed_and_reported_once(config: Path, tmp_path: Path) -> None:
    other = tmp_path / "gru.yaml"
    other.write_text(config.read_text(encoding="utf-8").replace("lstm", "gru"), encoding="utf-8")
    done = torchrun("-m", "seqloom", "compare", config, other, "--out", tmp_path / "runs", "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert [rung["name"] for rung in json.loads(line)["rungs"]] == ["config", "gru"]
    assert (tmp_path / "runs" / "report.html").is_file()
    assert done.stderr.count("gru: ") == 1
