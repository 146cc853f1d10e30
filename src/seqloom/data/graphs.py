"""Weighted graphs: from a list of edges, or made up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import DataError, UserError, quoted, shown
from seqloom.text.reading import read_lines

LARGEST = 10_000_000
"""Edges, or nodes, at most."""
PETERSEN = (
    [(i, (i + 1) % 5) for i in range(5)] + [(i, i + 5) for i in range(5)] + [(5 + i, 5 + (i + 2) % 5) for i in range(5)]
)
EXAMPLES = "petersen, random:NODES:EDGES or random:NODES:EDGES:SEED"


@dataclass(frozen=True)
class Graph:
    """Nodes with names, and edges with weights between two of them each."""

    names: tuple[str, ...]
    first: NDArray[np.int64]
    """One end of each edge."""
    second: NDArray[np.int64]
    """The other end."""
    weights: NDArray[np.float64]

    @property
    def total(self) -> float:
        """The weight of all edges together."""
        return float(self.weights.sum())

    def crossing(self, sides: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which edges lead from one side to the other; `sides` holds 0 or 1 for each node."""
        return np.asarray(sides[self.first] != sides[self.second])

    def cut(self, sides: NDArray[np.integer]) -> float:
        """The weight of these edges."""
        return float(self.weights[self.crossing(sides)].sum())


def open_graph(source: str) -> Graph:
    """The graph of a file, or an example: `petersen`, `random:NODES:EDGES`, `random:NODES:EDGES:SEED`."""
    if Path(source).exists():
        return read_graph(Path(source))
    if source == "petersen":
        first, second = np.array(PETERSEN).T
        return Graph(tuple(map(str, range(10))), first, second, np.ones(len(PETERSEN)))
    if source.startswith("random:"):
        numbers = source.split(":")[1:]
        if len(numbers) not in (2, 3) or not all(number.isdecimal() and len(number) < 16 for number in numbers):
            raise UserError(
                f"{quoted(source)}: write random:NODES:EDGES or random:NODES:EDGES:SEED, for example random:100:300"
            )
        return random_graph(*map(int, numbers))
    raise UserError(f"{quoted(source)}: there is no such file; give a list of edges, or an example: {EXAMPLES}")


def read_graph(path: Path) -> Graph:
    """A graph from lines of a node, a tab, another node, and perhaps a tab and a weight; 1 where there is none."""
    numbers: dict[str, int] = {}
    edges: dict[tuple[int, int], float] = {}
    for line, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        where, columns = f"{path}, line {line}", text.split("\t")
        if len(columns) not in (2, 3) or not (columns[0] and columns[1]):
            raise DataError(
                f"{where}: {shown(text)} is no edge; write a node, a tab, a node, and perhaps a tab and a weight"
            )
        first, second = (numbers.setdefault(name, len(numbers)) for name in columns[:2])
        if first == second:
            raise DataError(f"{where}: an edge from {shown(columns[0])} to itself is never cut; remove it")
        edge = (min(first, second), max(first, second))
        if edge in edges:
            raise DataError(f"{where}: the edge between {shown(columns[0])} and {shown(columns[1])} was there before")
        edges[edge] = _weight(columns[2], where) if len(columns) == 3 else 1.0
        if len(edges) > LARGEST:
            raise DataError(f"{path} has more than {LARGEST:,} edges, which are the most there may be")
    if not edges:
        raise DataError(f"{path} has no edges: write a node, a tab, another node, a tab and a weight on each line")
    ends, weights = np.array(list(edges), np.int64), np.array(list(edges.values()))
    return Graph(tuple(numbers), ends[:, 0], ends[:, 1], weights)


def random_graph(nodes: int, edges: int, seed: int = 0) -> Graph:
    """So many edges of weight 1 between nodes, all choices of them as likely (Erdős & Rényi 1959)."""
    pairs = nodes * (nodes - 1) // 2
    most = min(pairs, LARGEST)
    if nodes > LARGEST:
        raise UserError(f"random:{nodes}:{edges}: there may be {LARGEST:,} nodes at most")
    if not 1 <= edges <= most:
        raise UserError(f"random:{nodes}:{edges}: {nodes:,} nodes can have 1 to {most:,} edges")
    chosen = np.sort(np.random.default_rng(seed).choice(pairs, edges, replace=False, shuffle=False))
    # Pair number k is row i, column j < i of a triangle whose row i begins at i (i - 1) / 2.
    first = ((1 + np.sqrt(1 + 8.0 * chosen)) / 2).astype(np.int64)
    first -= first * (first - 1) // 2 > chosen  # where the root was rounded up
    return Graph(tuple(map(str, range(nodes))), first, chosen - first * (first - 1) // 2, np.ones(edges))


def _weight(text: str, where: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not math.isfinite(weight):
        raise DataError(f"{where}: {shown(text)} is no weight; write a number")
    return weight
