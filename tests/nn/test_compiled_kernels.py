"""The compiler takes every kernel with the arguments that its callers give it, for a GPU that need not be there.

Triton's interpreter runs what its compiler refuses: loops whose variables change their type, shapes that are no powers
of two, constants of the wrong type. Here the callers run with tensors of the processor, and to launch a kernel is to
compile it for an H200, down to its machine code; what it would have computed is not there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.decoding import Limits
from seqloom.nn import kernels
from seqloom.text.special import EOS, UNK

pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") == "1",
    reason="triton is not installed, or does not compile: it is released for Linux alone",
)

MODULES = sorted(path.stem for path in Path(kernels.__file__).parent.glob("[!_]*.py"))
CASES = [
    (module, kind)
    for module in MODULES
    for kind in (torch.float32, torch.bfloat16)
    if module != "cells" or kind == torch.float32  # cells are computed in nothing else
]
SHARED = 227 << 10  # bytes of shared memory that a program of an H200 may have

Compiled = list[tuple[str, Any]]
"""Names of kernels that were launched, each with its program."""


class Absent:
    """Stands for the driver of an H200. The number of the device is none: what a GPU compiled is kept by number."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return -1

    def get_current_stream(self, _device: int) -> int:
        return 0


@pytest.fixture
def compiled(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiled]:
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "triton"))
    monkeypatch.setattr(driver, "_active", Absent())
    found: Compiled = []
    launch = JITFunction.run

    def only_compile(self: Any, *arguments: Any, **options: Any) -> None:
        assert all(number > 0 for number in options["grid"])
        found.append((self.fn.__name__, launch(self, *arguments, **(options | {"warmup": True}))))

    monkeypatch.setattr(JITFunction, "run", only_compile)
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")  # as in training: what is exact takes three times as long to compile
    yield found
    torch.set_float32_matmul_precision(precision)
    for name, program in found:
        assert program.metadata.shared <= SHARED, name
        assert "cubin" in program.asm, name


def random(*shape: int, kind: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape).to(kind)


def launch_cells(kind: torch.dtype) -> None:
    from seqloom.nn.kernels import cells

    numbers = partial(random, kind=kind)
    for size in (5, 512):
        states, above = (numbers(2, size), numbers(2, size)), (numbers(3, 2, size), numbers(2, size))
        kept, peepholes = (numbers(4, 2, size), numbers(3, 2, size)), numbers(3, size)
        cells.coupled_steps(numbers(3, 2, 3 * size), *states, numbers(3 * size, size))
        cells.coupled_gradients(numbers(3, 2, 3, size), *kept, numbers(3 * size, size), *above)
        cells.peephole_steps(numbers(3, 2, 4 * size), *states, numbers(4 * size, size), peepholes)
        cells.peephole_gradients(numbers(3, 2, 4, size), *kept, numbers(4 * size, size), peepholes, *above)


def launch_choice(kind: torch.dtype) -> None:
    from seqloom.nn.kernels.choice import survey, write_down

    # Greedy, drawn, and chosen already; rows that lie apart, one block and several, with a prompt behind them or none.
    for rows, size, limits, inverse, given, normalised, width in (
        (1, 50_257, Limits(9), 0.0, False, False, 0),
        (3, 300, Limits(9, 1, unknown=False), 1.4, False, True, 4),
        (8, 50_257, Limits(20, 16), 1.0, False, False, 4),
        (2, 9000, Limits(9, 5), 0.0, True, False, 1),
    ):
        scores = random(rows, size + 1, kind=kind)[:, :size]
        own = {name: torch.zeros(rows, dtype=torch.long) for name in ("token", "length", "place")}
        own |= {"rest": torch.zeros(rows, width, dtype=torch.long), "written": torch.zeros(rows, 16, 2).double()}
        own["uniforms"] = torch.rand(rows, 16, dtype=torch.float64)
        known = survey(scores, limits.never, EOS, own["length"], limits.min_length, inverse)
        chosen = own["token"].clone() if given else None
        write_down(scores, known, chosen, inverse, normalised, own, EOS, UNK, limits.min_length)


def launch_drawn(kind: torch.dtype) -> None:
    from seqloom.nn.kernels.drawn import drawn

    for size in (1, 12, 8000):
        drawn(random(3, size, kind=kind))


def launch_entropy(kind: torch.dtype) -> None:
    from seqloom.nn.kernels.entropy import losses_and_slopes

    for count, width, smoothing, cap in (
        (1, 1, 0.0, 0.0),
        (60, 64, 0.1, 0.0),
        (6868, 6912, 0.0, 30.0),
        (50_257, 50_304, 0.1, 1.5),
    ):
        losses_and_slopes(random(2, width, kind=kind), torch.zeros(2, dtype=torch.long), count, smoothing, cap)


def launch_largest(kind: torch.dtype) -> None:
    from seqloom.nn.kernels.largest import largest

    for values in (random(1, 1, kind=kind), random(3, 8000, kind=kind), random(3, 40).double()):
        largest(values, min(values.size(1), 11))


def launch_norm(kind: torch.dtype) -> None:
    from seqloom.nn.kernels.norm import normed_sum

    for size, centred, biased in ((1, True, True), (40, True, False), (768, True, True), (1100, False, False)):
        weight = random(size, kind=kind)
        inputs, outputs = (random(2, 1, size, kind=kind) for _ in range(2))
        normed_sum(inputs, outputs, weight, weight.clone() if biased else None, 1e-5, centred)


def launch_nucleus(kind: torch.dtype) -> None:
    from seqloom.nn.kernels.nucleus import drawn_by_rank

    uniforms = torch.rand(2, 16, dtype=torch.float64)
    for log_probs, each in (
        (random(2, 1, kind=kind), uniforms[:, 3]),
        (random(2, 50).double(), uniforms[:, 0].contiguous()),
        (random(2, 50_257, kind=kind), uniforms[:, 0].contiguous()),
    ):
        drawn_by_rank(log_probs, 0.7, 0.9, each)


def launch_product(kind: torch.dtype) -> None:
    from seqloom.nn.kernels.product import multiplied

    for outputs, size, biased, activation in (
        (1, 1, False, ""),
        (400, 5, True, "relu"),
        (30, 1025, False, "gelu-tanh"),
        (2304, 768, True, ""),
        (768, 3072, True, ""),
        (3072, 768, True, "gelu-tanh"),
        (50_257, 768, False, ""),
        (3, 9000, True, ""),
    ):
        weight = torch.empty(outputs, size, dtype=kind)
        multiplied(random(1, 1, size, kind=kind), weight, weight[:, 0].clone() if biased else None, activation)


def launch_step(kind: torch.dtype) -> None:
    from seqloom.nn.kernels.step import attend_history, attend_source

    for rows, heads, size, capacity in ((1, 12, 64, 64), (1, 1, 7, 130), (16, 12, 64, 128), (64, 12, 64, 192)):
        queries, keys, values = random(rows, 1, 3, heads, size, kind=kind).permute(2, 0, 3, 1, 4)
        caches = (random(rows, heads, capacity, size, kind=kind) for _ in range(2))
        attend_history(queries, keys, values, *caches, torch.zeros(rows, capacity, dtype=torch.long), torch.tensor(3))
    for sources, heads, few, size, places in ((4, 2, 1, 40, 70), (1, 1, 3, 7, 1), (8, 8, 8, 64, 2000)):
        queries = random(sources, few, heads, size, kind=kind).transpose(1, 2)
        keys, values = (random(sources, heads, places, size, kind=kind) for _ in range(2))
        attend_source(queries, keys, values, torch.ones(sources, places, dtype=torch.bool))


def launch_window(kind: torch.dtype) -> None:
    from seqloom.nn.kernels.window import attend_window

    for heads, time, length, size, causal, masked, dropout in (
        (1, 1, 6, 5, False, True, 0.0),
        (2, 15, 21, 24, False, True, 0.1),
        *([(8, 40, 40, 64, True, False, 0.1)] if kind == torch.bfloat16 else []),
    ):
        queries = random(3, time, heads, size, kind=kind).transpose(1, 2).requires_grad_()
        keys, values = (random(3, heads, length, size, kind=kind).requires_grad_() for _ in range(2))
        mask = torch.ones(3, length, dtype=torch.bool) if masked else None
        attended = attend_window(queries, keys, values, mask, causal, dropout)
        attended.backward(torch.ones_like(attended))


LAUNCHES: dict[str, Callable[[torch.dtype], None]] = {
    name.removeprefix("launch_"): launch for name, launch in list(globals().items()) if name.startswith("launch_")
}


@pytest.mark.parametrize(("module", "kind"), CASES)
def test_the_compiler_takes_what_the_callers_launch(module: str, kind: torch.dtype, compiled: Compiled) -> None:
    LAUNCHES[module](kind)
    assert {name for name, _ in compiled} == entries(module)


def entries(module: str) -> set[str]:
    """The kernels of a module that are launched: those that no other one calls."""
    from triton.runtime.jit import JITFunction

    loaded = import_module(f"seqloom.nn.kernels.{module}")
    source = Path(str(loaded.__file__)).read_text(encoding="utf-8")
    names = {name for name, each in vars(loaded).items() if isinstance(each, JITFunction)}
    return {name for name in names if not re.search(rf"(?<!def )\b{name}\(", source)}
