"""Both sides of a row, one at a time or in turns: how fast, in how much memory, after how long; and the row of it."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from benchmarks.machine import Rates, measure_rates
from benchmarks.tables import Table, number
from benchmarks.timing import Call, Effort, Measurement, alternate, measure

GIB = 1 << 30


@dataclass(frozen=True)
class Contestant:
    """A way to do the work of a row: what it is, and how to make the call that does the work once."""

    name: str
    make: Callable[[], Call]


@dataclass(frozen=True)
class Side:
    """How a contestant did."""

    name: str
    first: float | None = None
    """Seconds from nothing to the end of the first call: made, moved, compiled, recorded."""
    peak: float | None = None
    """GiB at most, over what was there before, in the first two calls."""
    taken: Measurement | None = None
    failed: str = ""

    @property
    def rate(self) -> float | None:
        return self.taken and self.taken.rate


def fastest(sides: Sequence[Side]) -> Side:
    """The best of several ways that a contestant has."""
    return max(sides, key=lambda side: side.rate or 0.0)


@dataclass(frozen=True)
class Floor:
    """The least that the work can take, in milliseconds: its products, and the bytes it must move."""

    products: float
    moves: float

    @property
    def milliseconds(self) -> float:
        """The larger: at best, both go on at the same time."""
        return max(self.products, self.moves)


@dataclass(frozen=True)
class Row:
    """A row of the table, and a line of the file."""

    name: str
    ours: Side
    peer: Side | None = None
    floor: Floor | None = None
    unit: str = "tokens"
    note: str = ""
    figures: Mapping[str, float | list[float]] = field(default_factory=dict)
    """More of what was measured, for the file."""

    @classmethod
    def failing(cls, name: str, error: Exception) -> Row:
        """The line of a row that could not be measured."""
        return cls(name, Side("", failed=said(error)))

    @property
    def milliseconds(self) -> float | None:
        return self.ours.taken and 1e3 * self.ours.taken.median

    @property
    def share(self) -> float | None:
        """Of the time taken, what the floor takes."""
        return self.floor.milliseconds / self.milliseconds if self.floor and self.milliseconds else None

    @property
    def ratio(self) -> float | None:
        """Of speeds: above 1, seqloom is the faster one."""
        rates = self.ours.rate, self.peer and self.peer.rate
        return rates[0] / rates[1] if rates[0] and rates[1] else None

    @property
    def said(self) -> str:
        """What failed, and what else is to be said."""
        failures = [f"{side.name or self.name} failed: {side.failed}" for side in self._sides() if side.failed]
        return "; ".join([*failures, *([self.note] if self.note else [])])

    def cells(self) -> list[str]:
        """As `HEADER` has it."""
        peer = self.peer or Side("")
        figures = [
            *(self.ours.rate, peer.rate, self.ratio, self.milliseconds, self.floor and self.floor.milliseconds),
            *(self.share, self.ours.peak, peer.peak, self.ours.first, peer.first),
        ]
        shown = ["" if figure is None else number(figure) for figure in figures]
        shown[5] = "" if self.share is None else f"{self.share:.0%}"
        return [self.name, self.ours.name, peer.name, self.unit, *shown, self.said]

    def line(self, device: str) -> str:
        """As JSON: what the cells show, every repetition of both sides, and when and where."""
        found = {"milliseconds": self.milliseconds, "share": self.share, "ratio": self.ratio}
        rates = {"rate": self.ours.rate, "peer_rate": self.peer and self.peer.rate}
        where = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "device": device}
        return json.dumps({**asdict(self), **rates, **found, "said": self.said, **where})

    def _sides(self) -> list[Side]:
        return [side for side in (self.ours, self.peer) if side]


HEADER = [
    *("row", "seqloom", "peer", "of", "seqloom /s", "peer /s", "seqloom / peer", "ms", "floor ms", "share"),
    *("GiB", "peer GiB", "first s", "peer first s", "note"),
]


@dataclass(frozen=True)
class Stand:
    """Where all is measured: a GPU, or a processor that stands in for it."""

    device: torch.device
    effort: Effort
    say: Callable[[str], None]
    limits: dict[bool, Rates] = field(default_factory=dict)
    """What the machine can do, by whether in bf16; measured when first asked for."""

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def apart(self, contestant: Contestant, work: int) -> Side:
        """One that has the machine for itself, and leaves nothing behind."""
        call, side = self._made(contestant)
        if call is None:
            return side
        try:
            return replace(side, taken=measure(call, work, self.effort, self.device))
        except Exception as error:
            return replace(side, failed=said(error))

    def in_turns(self, contestants: Sequence[Contestant], work: int) -> list[Side]:
        """Several that are all there at once and take turns; who could not be made is left out."""
        made = [self._made(each) for each in contestants]
        able = [(call, work) for call, _ in made if call is not None]
        taken = iter(alternate(able, self.effort, self.device) if able else [])
        return [side if call is None else replace(side, taken=next(taken)) for call, side in made]

    def _made(self, contestant: Contestant) -> tuple[Call | None, Side]:
        """The call, made and called twice: the first time, optimisers make what the second finds."""
        self._clear()
        before = torch.cuda.memory_allocated(self.device) if self.on_gpu else 0
        began = time.perf_counter()
        try:
            call = contestant.make()
            call()
            self._wait()
            first = time.perf_counter() - began
            call()
            self._wait()
        except Exception as error:
            return None, Side(contestant.name, failed=said(error))
        peak = (torch.cuda.max_memory_allocated(self.device) - before) / GIB if self.on_gpu else None
        return call, Side(contestant.name, first, peak)

    def floor(self, flops: float, moved: float, half: bool = True) -> Floor:
        """How long so many FLOPs and bytes take at the speeds of a large product and a large copy."""
        if half not in self.limits:
            dtype = torch.bfloat16 if half else torch.float32
            self.limits[half] = measure_rates(self.device, dtype, 64, 512, self.effort)
            self._clear()
        return Floor(1e3 * flops / self.limits[half].multiply, 1e3 * moved / self.limits[half].move)

    def _clear(self) -> None:
        """Give back the memory of whoever was measured before."""
        gc.collect()
        if self.on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)

    def _wait(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize(self.device)


Job = tuple[str, Callable[[], Row]]
"""The name of a row, and how it is measured."""


@dataclass
class Record:
    """Rows as they come in: each is written down at once, for the machine may be gone the next moment."""

    file: Path
    device: str
    rows: list[Row] = field(default_factory=list)

    def add(self, job: Job) -> None:
        """Measure a row. One that fails says so, and the next has its turn."""
        name, measured = job
        try:
            row = measured()
        except Exception as error:
            row = Row.failing(name, error)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(row.line(self.device) + "\n")
        self.rows.append(row)

    def table(self, title: str, note: str) -> Table:
        """All of them."""
        return Table(title, note, HEADER, [row.cells() for row in self.rows], words=4)


def said(error: Exception) -> str:
    """The first line of an error, after what it is."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
