"""Without a GPU, the kernels run in Triton's interpreter, and only tests run them: they are for GPUs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from seqloom.decoding.rollout import draw
from seqloom.decoding.top import top
from seqloom.nn import kernels
from seqloom.nn.attention import attend
from seqloom.nn.cells import CoupledLayer, PeepholeLayer
from seqloom.nn.cross_entropy import cross_entropy

TESTS = Path(__file__).with_name("test_kernels.py")
NAMES = re.findall(r"^def (test_\w+)", TESTS.read_text(encoding="utf-8"), re.MULTILINE)
PARTS = 4
"""Of the tests, each in a process of its own: no part takes long, also where other work is going on."""
MODULES = sorted(path.stem for path in Path(kernels.__file__).parent.glob("[!_]*.py"))


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed; it is released for Linux alone")
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU runs these tests itself")
@pytest.mark.parametrize("part", range(PARTS))
def test_the_kernels_do_in_the_interpreter_what_plain_torch_does(part: int) -> None:
    # Triton reads the variable when it is imported, and torch.compile imports it: only a new process is sure to do.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += [f"{TESTS}::{name}" for name in NAMES[part::PARTS]]
    done = subprocess.run(command, env=environment | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout  # none was left out as on a machine without the interpreter
    assert int(passed[1]) > 100 / PARTS
    reasons = re.findall(r"^SKIPPED .*?: (.*)", done.stdout, re.MULTILINE)
    assert all("tl.dot" in reason for reason in reasons), reasons


def test_every_kernel_is_among_those_tested() -> None:
    assert MODULES
    imported = re.findall(r"from seqloom\.nn\.kernels\.(\w+) import", TESTS.read_text(encoding="utf-8"))
    assert set(imported) == set(MODULES)


def test_the_processor_uses_no_kernel_even_where_triton_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_INSTALLED", True)
    for name in MODULES:
        monkeypatch.setitem(sys.modules, f"seqloom.nn.kernels.{name}", None)  # to import it is an error
    tensors = [torch.randn(2, 3, 4, 5) for _ in range(3)]
    attend(*tensors, None, True, 0.0)
    with torch.no_grad():
        attend(tensors[0][:, :, :1], *tensors[1:], torch.ones(2, 1, 1, 4, dtype=torch.bool), False, 0.0)
    log_probs = torch.randn(3, 7).log_softmax(-1)
    top(log_probs, 2)
    draw(log_probs)
    cross_entropy(torch.randn(3, 4, requires_grad=True), torch.randn(7, 4), None, torch.tensor([0, 6, 3])).backward()
    for layer in (PeepholeLayer, CoupledLayer):
        cells = layer(4, 5, weight_drop=0.0, start="uniform")
        outputs, _ = cells(torch.randn(2, 3, 4), (torch.zeros(2, 5), torch.zeros(2, 5)))
        outputs.sum().backward()
