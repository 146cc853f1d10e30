"""A place where training processes start quickly, and a configuration worth interrupting."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from watching import Training

# Imports torch once and forks a process for every line of arguments: a process then costs milliseconds.
NURSERY = """
import json, os, sys
import torch, seqloom.cli, seqloom.kinds.language, seqloom.training
for line in sys.stdin:
    arguments, log = json.loads(line)
    child = os.fork()
    if child == 0:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.argv = ["seqloom", *arguments]
        seqloom.cli.main()
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="session")
def nursery() -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", NURSERY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    yield process
    process.stdin.close()
    process.wait(timeout=60)


@pytest.fixture(scope="session")
def start(nursery: subprocess.Popen[str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Training]:
    """Start `seqloom ...` in a process of its own; one at a time."""

    def start(*arguments: object) -> Training:
        log = tmp_path_factory.mktemp("output") / "log.txt"
        nursery.stdin.write(json.dumps([[str(argument) for argument in arguments], str(log)]) + "\n")
        nursery.stdin.flush()
        return Training(int(nursery.stdout.readline()), nursery, log)

    return start


@pytest.fixture(scope="session")
def eventful(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration in which everything that a checkpoint holds matters: dropout, carried state, moments, averages,
    a plateau, log lines that span checkpoints."""
    path = tmp_path_factory.mktemp("eventful") / "eventful.yaml"
    path.write_text(
        f"""
data: {{train: {corpus_file}, batch_size: 4, length: 8, sampling: sequential}}
model:
  embedding: {{size: 12, dropout: 0.2, word_dropout: 0.1}}
  features: {{kind: lstm, size: 12, layers: 2, dropout: 0.2, weight_drop: 0.3}}
training:
  steps: 60
  device: cpu
  accumulate: 2
  log_every: 7
  validate_every: 5
  checkpoint_every: 3
  optimizer: {{learning_rate: 0.03}}
  schedule: {{kind: plateau, patience: 1}}
  averaging: {{kind: exponential, decay: 0.9}}
""",
        encoding="utf-8",
    )
    return path
