"""The program as the shell sees it: what it says, and what it does to a pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SEQLOOM = [sys.executable, "-m", "seqloom"]


def test_without_a_verb_it_explains_itself() -> None:
    done = subprocess.run(SEQLOOM, capture_output=True, text=True)
    assert "quickstart" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    listed = (done.stdout + done.stderr).partition("Commands:")[2]
    assert "wherever a file does." in " ".join(listed.split())  # whole sentences
    assert "..." not in listed


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


def test_a_terminal_without_unicode_gets_escapes_and_json_stays_json() -> None:
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*SEQLOOM, "corpora", "--json"], capture_output=True, env=ascii_only, check=True)
    assert done.stdout.isascii()
    assert any("×" in json.loads(line)["description"] for line in done.stdout.splitlines())


def test_a_closed_stdout_is_no_accident() -> None:
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *SEQLOOM, "presets", "--json"]
    done = subprocess.run(closed, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_second_ctrl_c_ends_the_program_at_once() -> None:
    pressed_twice = (
        "import signal\n"
        "from seqloom.cli import _listen\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "_listen()\n"
        "try:\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    print('undoing', flush=True)\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    print('still there', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", pressed_twice], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "undoing\n", "")
