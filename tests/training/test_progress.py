"""What a person sees while training runs, on a terminal and elsewhere."""

from __future__ import annotations

import os
import pty
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from seqloom.progress import (
    Bar,
    LateLines,
    Lines,
    PassingBar,
    Reporter,
    about,
    be_quiet,
    clock,
    passing_reporter,
    reporter,
    say,
    watched,
    watching,
)


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


# ----------------------------------------------------------------------------------------------- by a clock of our own


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("seqloom.progress.time.monotonic", clock)
    return clock


def test_what_is_left_is_by_the_pace_or_by_the_clock(time: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.start("training", 100, 1000, seconds=180.0)
    time.now = 10.0
    lines.advance(110, "loss 2")  # a second a step: 890 s by the steps, 170 by the clock
    lines.after = 60.0
    time.now = 20.0
    lines.advance(900, "loss 1")  # 40 steps a second
    assert capsys.readouterr().err.splitlines() == [
        "training: 1000 steps, 3:00 at most, going on at 100",
        "step 110/1000  loss 2  2:50 left",
        "step 900/1000  loss 1  0:02 left, 1:02 for all",
    ]


@pytest.mark.parametrize(
    ("seconds", "by_clock", "in_words"),
    [
        (0.2, "0:00", "about 1 s"),
        (8.1, "0:08", "about 9 s"),
        (31, "0:31", "about 40 s"),
        (61, "1:01", "about 2 min"),
        (3600, "1:00:00", "about 60 min"),
        (9000, "2:30:00", "about 2.5 h"),
    ],
)
def test_time_in_words(seconds: float, by_clock: str, in_words: str) -> None:
    assert (clock(seconds), about(seconds)) == (by_clock, in_words)


def test_plain_lines_come_only_where_it_takes_long(time: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    def slowly(items: range) -> Iterator[int]:
        for item in items:
            time.now += 3.0
            yield item

    shown = passing_reporter()
    assert isinstance(shown, LateLines)
    with watching(shown):
        assert list(watched(range(1000), "quick", 1000)) == list(range(1000))
        assert list(watched(slowly(range(5)), "sources", 5)) == list(range(5))
    assert capsys.readouterr().err.splitlines() == ["sources: 2 of 5, 0:09 left", "sources: 4 of 5, 0:03 left"]


class Noted(Reporter):
    def __init__(self) -> None:
        self.notes: list[object] = []

    def start(self, title: str, step: int, total: int, seconds: float = 0.0) -> None:
        self.notes.append(f"{title} {total}")

    def advance(self, step: int, figures: str = "") -> None:
        self.notes.append(step)

    def stop(self) -> None:
        self.notes.append("end")


def test_what_is_watched_inside_of_something_watched_is_a_part_of_it() -> None:
    noted = Noted()
    with watching(noted):
        for batch in watched(["ab", "cde"], "letters", 5, len):
            list(watched(batch, "inner", len(batch)))
        list(watched("x", "one", 1))
        endless = watched(count(), "steps", 3)
        assert [next(endless) for _ in range(3)] == [0, 1, 2]
        del endless
        with pytest.raises(ZeroDivisionError):
            [1 // number for number in watched(range(3), "failing", 3)]
    assert list(watched("xyz", "nobody looks", 3)) == list("xyz")
    first = ["letters 5", 2, 5, "end", "steps 3", 1, 2, "end", "failing 3", "end"]
    assert [note for note in noted.notes if note != "end"] == [note for note in first if note != "end"]
    assert noted.notes[-1] == "end"


def test_who_wants_quiet_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    be_quiet(True)
    try:
        say("something")
        use(reporter())
        use(passing_reporter())
    finally:
        be_quiet(False)
    assert capsys.readouterr().err == ""
    say("something")
    assert capsys.readouterr().err == "something\n"


def test_results_do_not_go_through_the_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """rich would send what is printed while a bar is shown to where the bar is."""
    monkeypatch.setenv("TERM", "xterm")
    outside, inside = pty.openpty()
    with open(inside, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        shown = passing_reporter()
        assert isinstance(shown, PassingBar)
        with watching(shown):
            for item in watched("abc", "letters", 3):
                sys.stdout.write(f"{item}\n")
    os.close(outside)
    assert capsys.readouterr().out == "a\nb\nc\n"
