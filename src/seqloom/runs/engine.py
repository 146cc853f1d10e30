"""The one engine: from a configuration to a run folder, and from a run folder to the trained model in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from seqloom.config import RunConfig, load_config
from seqloom.errors import SeqloomError, UserError
from seqloom.files import clear_unfinished
from seqloom.runs.assets import Assets
from seqloom.runs.folder import RunFolder, locked
from seqloom.runs.kind import Kind, Work, kind_named
from seqloom.runs.stages import Stage
from seqloom.runs.trained import Trained
from seqloom.training import Interrupted, Journal, Processes, Reporter, Silent, read_metrics

Source = str | Path | Mapping[str, Any] | RunConfig
"""A preset, a YAML file, a mapping, or a configuration that was checked already."""


def load(path: str | Path, device: str = "auto") -> Trained:
    """The model of a run folder, with its best weights."""
    folder = RunFolder.open(path)
    return kind_named(folder.config.model.kind).open(folder, device)


def train(
    source: Source,
    settings: Iterable[str] = (),
    out: str | Path | None = None,
    resume: bool = False,
    reporter: Reporter | None = None,
    report: bool = True,
) -> Trained:
    """Train a preset, a YAML file or a mapping, with `key=value` settings on top, into the folder `out`.

    With `resume`, a run that stopped goes on exactly where its last checkpoint was written; its own configuration
    holds, with the settings on top (more steps, say). Without `report`, no page is written.
    """
    if resume and out is None:
        raise UserError("--resume needs --out: say which run shall go on")
    folder = RunFolder(Path(out)) if out is not None else RunFolder.unused(_name(source))
    goes_on = resume and folder.config_file.is_file()
    if goes_on:
        config = load_config(folder.config_file, settings)
    else:
        config = source if isinstance(source, RunConfig) else load_config(source, settings)
        folder.check_free()
    processes = Processes.join(config.training.device)
    try:
        with locked(folder.path) if processes.main else nullcontext():
            speaker = reporter if reporter is not None and processes.main else Silent()
            fit(folder, config, goes_on, processes, speaker)
            trained = load(folder.path, config.training.device)
            if processes.main and report:
                write_report(trained)
    finally:
        processes.leave()
    return trained


def fit(folder: RunFolder, config: RunConfig, goes_on: bool, processes: Processes, reporter: Reporter) -> None:
    """Fit what a configuration describes into a folder; `goes_on` says that it holds such a run already."""
    kind = kind_named(config.model.kind)
    with _whole_or_nothing(folder, goes_on, processes.main):
        work = _begin(kind, folder, config, goes_on, processes, reporter)
        seed = 1000 * config.seed + processes.rank  # the same weights, another dropout, in each process
        names: list[str] = []  # of the stages that are not runs of their own, with a seed and a log of their own
        for stage in kind.stages(work):
            torch.manual_seed(seed + 100 * len(names))
            _fit_stage(stage, work)
            if not isinstance(stage, InnerRun):
                names.append(stage.name)
    if processes.main:
        if Stage.name not in names:
            _gather(folder, names)
        folder.seal(finished=True)
    processes.wait()


def write_run(out: str | Path, config: RunConfig, assets: Assets, save: Callable[[Path], None]) -> Trained:
    """A run of a model that was trained elsewhere; `save` writes its weights into a file."""
    folder = RunFolder(Path(out))
    folder.check_free()
    with locked(folder.path), _whole_or_nothing(folder, goes_on=False, main=True):
        assets.save(folder)
        folder.write_config(config)
        save(folder.weights_file)
        folder.seal(finished=True)
    return load(folder.path, "cpu")


def _begin(
    kind: Kind[Any, Any, Any],
    folder: RunFolder,
    config: RunConfig,
    goes_on: bool,
    processes: Processes,
    reporter: Reporter,
) -> Work[Any, Any]:
    """Read the data, build the model, and write what a run begins with; a folder is a run once all of it is there."""
    if goes_on:
        folder.check(goes_on)
        if processes.main:
            clear_unfinished(folder.path)
    else:
        config = kind.settle(config)
    kept = kind.assets.load(folder) if goes_on else None
    data, assets = processes.first_alone(lambda: kind.prepare(config, kept))
    torch.manual_seed(config.seed)
    model = kind.build(config, assets)
    if not any(folder.path.rglob("checkpoints")):
        for line in kind.begin(model, config, assets, data):
            reporter.say(line)
    if processes.main:
        if not goes_on:
            assets.save(folder)
        folder.write_config(config)
        folder.seal(finished=False)
    processes.wait()
    return Work(config, data, assets, model, folder, processes, reporter)


@dataclass
class InnerRun(Stage):
    """A stage that is a run of its own, which another run needs: in a folder named after the stage."""

    config: RunConfig
    name: str

    def fit(self, folder: Path, processes: Processes, reporter: Reporter) -> None:
        inner = RunFolder(folder)
        fit(inner, self.config, inner.config_file.is_file(), processes, reporter)


def _fit_stage(stage: Stage, work: Work[Any, Any]) -> None:
    """Fit a stage: the only one in the folder of the run, one of several in a folder of its own."""
    path = work.folder.path
    if stage.name != Stage.name:
        path = path / stage.name
        path.mkdir(exist_ok=True)
        work.reporter.say(f"stage {stage.name}")
    stage.fit(path, work.processes, work.reporter)


def _gather(folder: RunFolder, names: list[str]) -> None:
    """`metrics.jsonl` of a run with several stages: the entries of all of them, one after another."""
    entries, before = [], 0
    for name in names:
        own = read_metrics(folder.path / name)
        entries += [{**entry, "stage": name, "step": before + entry["step"]} for entry in own]
        before += own[-1]["step"] if own else 0
    (folder.path / "metrics.jsonl").unlink(missing_ok=True)
    journal = Journal(folder.path)
    for entry in entries:
        journal.write(entry)
    journal.close()


@contextmanager
def _whole_or_nothing(folder: RunFolder, goes_on: bool, main: bool) -> Iterator[None]:
    """Nothing is left of a new run that the user must change before it can be trained, or that learned nothing before
    it was interrupted. What else lies in the folder is not touched."""
    others = set(folder.path.iterdir()) if main and folder.path.is_dir() else set()
    try:
        yield
    except SeqloomError as error:
        useless = isinstance(error, UserError | Interrupted) or not folder.config_file.is_file()
        learned = folder.weights_file.is_file() or any(folder.path.rglob("checkpoints/step-*"))
        if main and useless and not goes_on and not learned:
            for entry in set(folder.path.iterdir()) - others:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        raise


def write_report(trained: Trained) -> None:
    """`report.html` of a run."""
    from seqloom.reports.run_report import training_section, write_run_report  # draws: matplotlib takes a second

    shown = kind_named(trained.kind).report(trained)
    write_run_report(
        trained.path / "report.html",
        trained.path.name,
        RunFolder(trained.path).config_file.read_text(encoding="utf-8"),
        shown.training if shown.training is not None else training_section(read_metrics(trained.path)),
        {"parameters": trained.parameters, **shown.figures},
        shown.sections,
    )


def _name(source: Source) -> str:
    return Path(source).stem if isinstance(source, str | Path) else "run"
