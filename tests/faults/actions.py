"""What children of the server do: train a case, load it and ask it, under disturbances. They stand in the workshop.

All that a child could need is imported here, before the server forks; nothing of torch has run until then.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import fields, is_dataclass
from errno import ENOSPC
from importlib import import_module
from pathlib import Path
from typing import Any

import events
import numpy as np
import torch
from kinds import CASES
from numba.core.registry import cpu_target

import seqloom
import seqloom.cli.app
import seqloom.interop
from seqloom.kinds import kind_named, kind_names
from seqloom.runs.folder import RunFolder

for kind in kind_names():
    kind_named(kind)
for late in ("torch._dynamo", "torch.profiler", "scipy.linalg", "seqloom.models.word2vec"):
    import_module(late)  # what torch, numba and seqloom import at first use takes longer than a tiny training
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
torch.set_num_threads(1)
os.fsync = lambda descriptor: None  # the disk keeps what a killed process wrote, and waiting for it takes half the time

FEW_STEPS = ("training.steps=6", "training.validate_every=3", "training.checkpoint_every=2", "training.log_every=1")
"""On top of the cases that are trained step by step: three checkpoints, the oldest of which is deleted again."""

DISTURBANCES = {
    "nothing": lambda _: events.nothing,
    "kill": events.kill_at,
    "full": lambda first: events.full_from(first, ENOSPC),
    "read-only": lambda _: events.read_only,
}


def train(name: str, out: str, resume: bool = False, disturbance: str = "nothing", at: int = 0) -> list[str]:
    """Train a case into a folder; the file events in it."""
    case = _case(name)
    settings = case.settings if case.at_once else (*case.settings, *FEW_STEPS)
    seen = events.watch(Path(out), DISTURBANCES[disturbance](at))
    seqloom.train(case.preset, settings, out, resume=resume, report=False)
    return seen


def ask(name: str, folder: str, only_finished: bool = False) -> str | None:
    """Load a run and ask all that can be asked of it; a digest of the answers, or None where a run is not finished and
    nothing was to be asked then."""
    trained = seqloom.load(folder, "cpu")
    if only_finished and not RunFolder(Path(folder)).finished:
        return None
    return digest(_case(name).outputs(trained))


def command(*words: str, read_only: str = "") -> None:
    """Call `seqloom ...` with words of the command line; below one folder nothing can be written."""
    if read_only:
        events.watch(Path(read_only), events.read_only)
    sys.argv = ["seqloom", *words]
    seqloom.cli.main()


def with_cache(folder: str, name: str, out: str) -> list[str]:
    """Train a case with another cache."""
    os.environ["SEQLOOM_CACHE"] = folder
    return train(name, out)


def digest(answers: Any) -> str:
    """Equal for equal answers, bit for bit."""
    return hashlib.sha256(repr(_plain(answers)).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """A nested answer in types whose `repr` says all of it."""
    if isinstance(value, torch.Tensor):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if is_dataclass(value):
        return type(value).__name__, [_plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, dict):
        return [(_plain(key), _plain(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _case(name: str) -> Any:
    return next(case for case in CASES if case.name == name)
