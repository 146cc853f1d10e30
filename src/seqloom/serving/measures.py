"""What a server counts, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from threading import Lock

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)  # seconds

Labels = tuple[tuple[str, str], ...]


class Measures:
    """Counters, histograms of seconds, and gauges that are read when somebody asks."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[str, dict[Labels, float]] = {}
        self._seconds: dict[str, dict[Labels, list[float]]] = {}
        self._gauges: dict[str, dict[Labels, Callable[[], float]]] = {}
        self._help: dict[str, str] = {}

    def count(self, name: str, about: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            self._help[name] = about
            counts = self._counts.setdefault(name, {})
            counts[_key(labels)] = counts.get(_key(labels), 0) + amount

    def time(self, name: str, about: str, seconds: float, **labels: str) -> None:
        """Add to a histogram: how often it took how long, and the sum."""
        with self._lock:
            self._help[name] = about
            row = self._seconds.setdefault(name, {}).setdefault(_key(labels), [0.0] * (len(BOUNDS) + 2))
            row[bisect_left(BOUNDS, seconds)] += 1
            row[-1] += seconds

    def gauge(self, name: str, about: str, read: Callable[[], float], **labels: str) -> None:
        """A number that is read when somebody asks."""
        with self._lock:
            self._help[name] = about
            self._gauges.setdefault(name, {})[_key(labels)] = read

    def text(self) -> str:
        """All of it, as Prometheus reads it (exposition format 0.0.4)."""
        with self._lock:
            return "".join(line + "\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for name, rows in self._counts.items():
            yield from self._head(name, "counter")
            yield from (f"{name}{_shown(labels)} {_all_digits(value)}" for labels, value in rows.items())
        for name, gauges in self._gauges.items():
            yield from self._head(name, "gauge")
            yield from (f"{name}{_shown(labels)} {_all_digits(read())}" for labels, read in gauges.items())
        for name, histograms in self._seconds.items():
            yield from self._head(name, "histogram")
            for labels, row in histograms.items():
                below = 0.0
                for bound, amount in zip([*map(str, BOUNDS), "+Inf"], row[:-1], strict=True):
                    below += amount
                    yield f"{name}_bucket{_shown((*labels, ('le', bound)))} {_all_digits(below)}"
                yield f"{name}_sum{_shown(labels)} {_all_digits(row[-1])}"
                yield f"{name}_count{_shown(labels)} {_all_digits(below)}"

    def _head(self, name: str, kind: str) -> Iterator[str]:
        yield f"# HELP {name} {self._help[name]}"
        yield f"# TYPE {name} {kind}"


def _all_digits(value: float) -> str:
    """A number in full: of a counter that is rounded, a rate would stand still and then jump."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _key(labels: dict[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _shown(labels: Labels) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels) + "}" if labels else ""
