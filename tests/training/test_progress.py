"""What a person sees while training runs, on a terminal and elsewhere."""

from __future__ import annotations

import os
import pty
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from seqloom.progress import Bar, Lines, Reporter, reporter


def use(shown: Reporter) -> None:
    """As a comparison does: a word before each training, and two trainings."""
    for name in ("first", "second"):
        shown.say(f"{name} [model]")
        shown.start("training", 3, 10)
        shown.advance(5, "loss 1.2345  999 tokens/s")
        shown.say("step 5: valid_loss 1.1")
        shown.advance(10, "loss 1.1111  999 tokens/s")
        shown.stop()


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    outside, inside = pty.openpty()
    with open(inside, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        shown = reporter()
        assert isinstance(shown, Bar)
        use(shown)
        terminal.flush()
        os.set_blocking(outside, False)
        seen = b""
        with suppress(BlockingIOError):  # all there is, which may come in several pieces
            while piece := os.read(outside, 1 << 16):
                seen += piece
    os.close(outside)
    return seen.decode()


def test_a_terminal_gets_a_bar_with_speed_and_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = on_a_terminal(monkeypatch)
    for expected in ("first [model]", "second [model]", "10/10", "loss 1.1111", "tokens/s", "step 5: valid_loss 1.1"):
        assert expected in seen


def test_a_log_gets_plain_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = reporter()
    assert isinstance(shown, Lines)
    use(shown)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[:3] == [
        "first [model]",
        "training: 10 steps, going on at 3",
        "step 5/10  loss 1.2345  999 tokens/s  0:00 left",
    ]
    assert "\x1b" not in captured.err
