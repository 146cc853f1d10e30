"""What children of the server do: train a case, load it and ask it, under disturbances. They stand in the workshop."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import sys
from dataclasses import fields, is_dataclass
from errno import ENOSPC
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import events
import numpy as np
import torch
from kinds import CASES
from sealing import reseal

import seqloom
import seqloom.cli
import seqloom.cli.app
import seqloom.interop
from seqloom import training
from seqloom.files import write_text
from seqloom.kinds import kind_named, kind_names
from seqloom.runs.folder import RunFolder

FEW_STEPS = ("training.steps=6", "training.validate_every=3", "training.checkpoint_every=2", "training.log_every=1")
"""On top of the cases that are trained step by step: three checkpoints, the oldest of which is deleted again."""

MEMORY = 16 << 30  # bytes of addresses, most of which torch takes for itself and never uses

DISTURBANCES = {
    "nothing": lambda _: events.nothing,
    "kill": events.kill_at,
    "full": lambda first: events.full_from(first, ENOSPC),
    "read-only": lambda _: events.read_only,
}


def prepare() -> None:
    """Import all that a child could need, before the server forks; nothing of torch has run until then."""
    for kind in kind_names():
        kind_named(kind)
    for late in ("torch._dynamo", "torch.profiler", "scipy.linalg", "seqloom.models.word2vec"):
        import_module(late)  # what torch, numba and seqloom import at first use takes longer than a tiny training
    target = import_module("numba.core.registry").cpu_target
    target.typing_context.refresh()
    target.target_context.refresh()
    torch.set_num_threads(1)
    import_module("seqloom.training.trainer").SAMPLED = 1e9  # no clock decides which validations keep samples
    os.fsync = lambda descriptor: None  # the disk keeps what a killed process wrote; waiting for it takes half the time


def train(name: str, out: str, resume: bool = False, disturbance: str = "nothing", at: int = 0) -> list[str]:
    """Train a case into a folder; the file events in it."""
    seen = events.watch(Path(out), DISTURBANCES[disturbance](at))
    seqloom.train(_case(name).preset, _settings(name), out, resume=resume, report=False)
    return seen


def ask(name: str, folder: str, only_finished: bool = False) -> str | None:
    """Load a run and ask all that can be asked of it; a digest of the answers, or None where a run is not finished and
    nothing was to be asked then."""
    trained = seqloom.load(folder, "cpu")
    if only_finished and not RunFolder(Path(folder)).finished:
        return None
    return digest(_case(name).outputs(trained))


def read_metrics(folder: str) -> list[Any]:
    """The entries of the log of a run."""
    return training.read_metrics(folder)


def command(*words: str, inside: str = ".", read_only: str = "") -> int:
    """Call `seqloom ...` inside a folder, and where below another nothing can be changed; the exit code."""
    os.chdir(inside)
    if read_only:
        events.watch(Path(read_only), events.read_only)
    sys.argv = ["seqloom", *words]
    try:
        seqloom.cli.main()
    except SystemExit as ended:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it has ended: what comes now comes too late
        return ended.code or 0
    return 0


def train_command(name: str, out: str) -> int:
    """Train a case by the command line; the exit code."""
    settings = [part for setting in _settings(name) for part in ("--set", setting)]
    return command("train", _case(name).preset, *settings, "--out", out, "--no-report", "--quiet")


def train_small_files(name: str, out: str, largest: int) -> list[str]:
    """Train a case where no file can be larger than so many bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))  # Python ignores the signal that comes with it
    return train(name, out)


def compare(out: str, disturbance: str = "nothing", at: int = 0) -> list[str]:
    """Compare two tiny models, without drawing the page; the file events."""
    page = ModuleType("seqloom.reports.ladder_page")  # in the place of the one that draws, which takes a second
    page.write_ladder_page = lambda ladder, path: write_text(path, "a page")
    sys.modules[page.__name__] = page
    seqloom.runs.engine.write_report = lambda trained: write_text(trained.path / "report.html", "a page")
    seen = events.watch(Path(out), DISTURBANCES[disturbance](at))
    seqloom.compare(["rnn", "gru"], [*_case("rnn").settings, *FEW_STEPS], out)
    return seen


def transfer(verb: str, source: str, out: str, disturbance: str = "nothing", at: int = 0) -> list[str]:
    """Import or export an n-gram model, or write the page of a run, in a folder; the file events."""
    from seqloom.reports.run_report import write_run_report  # takes a second, and few children need it

    seen = events.watch(Path(out).parent, DISTURBANCES[disturbance](at))
    if verb == "import":
        seqloom.interop.import_arpa(source, Path(out))
    elif verb == "export":
        seqloom.interop.export_arpa(source, Path(out))
    else:
        write_run_report(Path(out), "a run", "a sentence", "configuration", "<p>curves</p>", {}, [], [])
    return seen


def seal_and_ask(name: str, folder: str) -> str | None:
    """Make all checksums of a run right, and ask it; there is no more memory than a tiny run needs."""
    reseal(Path(folder))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    return ask(name, folder)


def train_with_cache(cache: str, name: str, out: str) -> list[str]:
    """Train a case with another cache."""
    os.environ["SEQLOOM_CACHE"] = cache
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


def _settings(name: str) -> tuple[str, ...]:
    case = _case(name)
    return case.settings if case.at_once else (*case.settings, *FEW_STEPS)


def _case(name: str) -> Any:
    return next(case for case in CASES if case.name == name)
