"""The machine: what it is, and how fast it multiplies and copies."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from benchmarks.timing import Effort, measure


def describe(device: torch.device) -> list[tuple[str, str]]:
    """What a reader must know to compare the numbers with their own."""
    rows = [("processor", _processor()), ("cores", f"{os.cpu_count()} (torch uses {torch.get_num_threads()} threads)")]
    if device.type == "cuda":
        rows.append(("GPU", torch.cuda.get_device_name(device)))
    return [
        *rows,
        ("torch", str(torch.__version__)),
        ("Python", platform.python_version()),
        ("date", datetime.now(UTC).strftime("%Y-%m-%d")),
    ]


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@dataclass(frozen=True)
class Rates:
    """What the machine can do, as measured here: the best repetition counts, for this is a limit."""

    multiply: float
    """FLOP/s of a large matrix product."""
    multiply_step: float
    """FLOP/s of the product that a recurrent network makes at every step: [batch, size] × [size, 4 · size]."""
    move: float
    """Bytes/s of a large copy, read and written bytes counted."""


def measure_rates(device: torch.device, dtype: torch.dtype, batch: int, size: int, effort: Effort) -> Rates:
    """Measure the machine with `dtype`; `batch` and `size` are those of the recurrent network."""
    large = 8192 if device.type == "cuda" else 2048
    values = 1 << 28 if device.type == "cuda" else 1 << 25  # far more than any cache holds
    return Rates(
        _multiply(large, large, large, device, dtype, effort),
        _multiply(batch, size, 4 * size, device, dtype, effort),
        _move(values, device, effort),
    )


def _multiply(rows: int, inner: int, columns: int, device: torch.device, dtype: torch.dtype, effort: Effort) -> float:
    left = torch.randn(rows, inner, device=device, dtype=dtype)
    right = torch.randn(inner, columns, device=device, dtype=dtype)
    product = torch.empty(rows, columns, device=device, dtype=dtype)
    taken = measure(lambda: torch.mm(left, right, out=product), rows, effort, device)
    return 2 * rows * inner * columns / min(taken.seconds)


def _move(values: int, device: torch.device, effort: Effort) -> float:
    source, target = torch.ones(values, device=device), torch.empty(values, device=device)
    taken = measure(lambda: target.copy_(source), values, effort, device)
    return 2 * source.nbytes / min(taken.seconds)
