"""The program as the shell sees it: what it imports, what it does to a pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SEQLOOM = [sys.executable, "-m", "seqloom"]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "--help"], ["inspect", "ngrams", "--help"], ["presets"], ["--version"]]
)
def test_help_does_not_wait_for_torch(arguments: list[str]) -> None:
    watched = (
        "import sys, atexit\n"
        "heavy = ('torch', 'numpy', 'matplotlib', 'tokenizers', 'numba')\n"
        "atexit.register(lambda: sys.stderr.write(','.join(name for name in heavy if name in sys.modules)))\n"
        "from seqloom.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", watched, *arguments], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout
    assert done.stderr == ""


def test_without_a_verb_it_explains_itself() -> None:
    done = subprocess.run(SEQLOOM, capture_output=True, text=True)
    assert "quickstart" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_accident(run: Path) -> None:
    """As `seqloom score run --json | head -n 1` does."""
    read, write = os.pipe()
    with open(read) as reader:
        process = subprocess.Popen(
            [*SEQLOOM, "score", str(run), "--json"], stdin=subprocess.PIPE, stdout=write, stderr=subprocess.PIPE
        )
        os.close(write)
        lines = b"the cat sat\n" * 20_000  # far more than a pipe holds
        process.stdin.write(lines[: 12 * 1024])
        process.stdin.flush()
        first = json.loads(reader.readline())
    _, err = process.communicate(lines)
    assert first["tokens"] == 4
    assert process.returncode == 1
    assert err == b""


def test_a_prompt_streams_through_a_pipe(run: Path) -> None:
    arguments = ["generate", str(run), "--prompt", "the cat", "--strategy", "greedy", "--max-length", "5"]
    done = subprocess.run([*SEQLOOM, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("the cat")
    assert done.stderr == ""
