"""The one engine: from a configuration to a run folder, and from a run folder to the trained model in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqloom.config import RunConfig, Settings, listed_settings, load_config, named_kinds, save_config
from seqloom.data.fingerprints import fingerprints
from seqloom.data.materials import remark_on_text
from seqloom.data.places import named
from seqloom.errors import SeqloomError, UserError
from seqloom.files import disk_errors
from seqloom.keywords import hinted
from seqloom.progress import watching
from seqloom.runs import folder as folders
from seqloom.runs.assets import Assets
from seqloom.runs.folder import RunFolder, check_unchanged, locked
from seqloom.runs.kind import Kind, Work, kind_named
from seqloom.runs.log import commands, gathered, in_a_sentence
from seqloom.runs.stages import Stage
from seqloom.runs.trained import Trained
from seqloom.training import Interrupted, Journal, Processes, Reporter, Silent, read_metrics
from seqloom.training.journal import METRICS, SAMPLES
from seqloom.training.places import CHECKPOINTS, REPORT, checkpoints_in, step_of

Source = str | Path | Mapping[str, Any] | RunConfig
"""A preset, a YAML file, a mapping, or a configuration that was checked already."""
MAY_CHANGE = ("training.", "objective.", "engine.", "description", "data.train", "data.valid", "data.test")
"""The beginnings of keys that may change when a run goes on. Data may have moved, but must be the same."""
BEGIN_ANEW = ("seed", "start", "data.")
"""Those that may be others, besides, in a run that begins with the weights of another."""


@hinted()
def load(path: str | Path, device: str = "auto", checksums: bool = True, plugins: Iterable[str | Path] = ()) -> Trained:
    """The model of a run folder, with its best weights.

    checksums: whether to compare the checksums of all files, which takes a moment for large ones. What a file holds is
    validated in any case.
    plugins: Python files, installed plugins or modules that register what the run has of its own; no run imports them
    by itself.
    """
    for plugin in plugins:
        from seqloom.runs.plugins import load_plugin  # knows all layers, and with them torch

        load_plugin(plugin)
    with _comparing(checksums):
        folder = RunFolder.open(path)
    with _comparing(False):  # runs inside this one were looked at with it
        return kind_named(folder.config.model.kind).open(folder, device)


@hinted()
def train(
    source: Source,
    settings: Settings = (),
    out: str | Path | None = None,
    resume: bool = False,
    reporter: Reporter | None = None,
    report: bool = True,
) -> Trained:
    """Train a preset, a YAML file or a mapping, with settings on top, into the folder `out`.

    settings: `key=value` texts, or a mapping: of dotted keys ({"training.steps": 200}), or nested.

    Where `source` is the folder of a run, its configuration holds, and the new run begins with its weights.
    With `resume`, a run that stopped goes on exactly where its last checkpoint was written; its own configuration
    holds, with the settings on top (more steps, say). Without `report`, no page is written.
    """
    if resume and out is None:
        raise UserError("--resume needs --out: say which run shall go on")
    folder = RunFolder(Path(out)) if out is not None else RunFolder.unused(_name(source))
    if isinstance(source, str | Path) and RunFolder(Path(source)).manifest_file.is_file():
        before = RunFolder(Path(source))
        source, settings = (
            before.config.model_dump(mode="json"),
            [("start", str(before.path)), *listed_settings(settings)],
        )
    if resume and not folder.manifest_file.is_file():
        if folder.runs_inside:
            folder.check_there()
        raise UserError(f"{folder.path} holds no run that could go on: leave --resume out, or look for the right --out")
    if resume and not folder.begun and not source:
        raise UserError(f"the training of {folder.path} has not begun: name what to train once more, with --resume")
    return train_into(folder, source, settings, resume and folder.begun, reporter, report)


def train_into(
    folder: RunFolder,
    source: Source,
    settings: Settings = (),
    goes_on: bool = False,
    reporter: Reporter | None = None,
    report: bool = True,
) -> Trained:
    """Train into a folder that is free, or whose run goes on."""
    if goes_on:
        folder.check_plugins()
        config = load_config(folder.config.model_dump(mode="json"), settings)
        data = (key for key in named(config) if key.startswith("data."))
        may_change = (*MAY_CHANGE, *data, *(f"model.{key}" for key in config.model.may_change))
        advice = "that stays as it was; train anew into another --out"
        check_unchanged(folder.config, config, f"the run in {folder.path} cannot go on", advice, may_change)
        _check_model(folder, source, settings)
        _check_steps(folder, config)
    else:
        config = _checked(source, settings)
    processes = Processes.join(config.training.device)
    if kind_named(config.model.kind).needs_torch:
        _ = processes.device  # what is no device is refused before anything is read
    try:
        with locked(folder.path) if processes.main else nullcontext():
            if not goes_on:
                folder.check_free()
            speaker = reporter if reporter is not None and processes.main else Silent()
            if idle := config.idle_limits():
                speaker.say(f"note: {config.model.kind} is not trained by steps: {idle} has no effect")
            trained = fit(folder, config, goes_on, processes, speaker)
            if processes.main and report:
                speaker.say(f"writing {folder.path / 'report.html'}")
                write_report(trained)
    except Interrupted as stopped:
        if folder.begun:
            without = () if report else ("--no-report",)
            stopped.command = ("seqloom", "train", "--resume", "--out", str(folder.path), *without)
        raise
    finally:
        processes.leave()
    return trained


def _checked(source: Source, settings: Settings) -> RunConfig:
    """The configuration with settings on top; one that was checked already, and has none, as it is."""
    if not isinstance(source, RunConfig):
        return load_config(source, settings)
    return load_config(source.model_dump(), settings) if settings else source


def _check_model(folder: RunFolder, source: Source, settings: Settings) -> None:
    """Refuse to go on with a run of another kind of model, or of its parts, than the source names, if one is named."""
    if not source:
        return
    tree = source.model_dump(mode="json") if isinstance(source, RunConfig) else source
    there = folder.config.leaves()
    for key, kind in named_kinds(tree, settings).items():
        if there.get(key) != kind:
            part = "" if key == "model.kind" else f" with {key[len('model.') : -len('.kind')]} {there.get(key)}"
            name = source if isinstance(source, str | Path) else "it"
            raise UserError(
                f"{folder.path} holds a model of kind {there['model.kind']!r}{part}, not {kind}: leave {name} out, or "
                "choose another --out"
            )


def _check_steps(folder: RunFolder, config: RunConfig) -> None:
    """Refuse to end a run before the step at which it is."""
    steps, saved = config.training.steps, checkpoints_in(folder.path / CHECKPOINTS)
    if steps is None or steps == folder.config.training.steps or not saved or config.idle_limits():
        return
    if steps <= step_of(saved[-1]):
        raise UserError(
            f"{folder.path} is at step {step_of(saved[-1])} already, and training.steps={steps} would train nothing: "
            "give a larger number"
        )


def fit(folder: RunFolder, config: RunConfig, goes_on: bool, processes: Processes, reporter: Reporter) -> Trained:
    """Fit what a configuration describes into a folder; `goes_on` says that it holds such a run already."""
    kind = kind_named(config.model.kind)
    if goes_on and folder.finished and folder.config == config:
        folder.check()
        return load(folder.path, config.training.device, checksums=False)
    with _whole_or_nothing(folder, goes_on, processes.main):
        work = _begin(kind, folder, config, goes_on, processes, reporter)
        seed = 1000 * config.seed + processes.rank  # the same weights, another dropout, in each process
        stages: list[str] = []
        own: list[str] = []  # those that are not runs of their own, with a seed and a log of their own
        for stage in kind.stages(work):
            _seed(kind, seed + 100 * len(own))
            _fit_stage(stage, work)
            stages.append(stage.name)
            if not isinstance(stage, InnerRun):
                own.append(stage.name)
    processes.wait()  # for weights that only the first of them writes
    trained = load(folder.path, config.training.device, checksums=False)
    if processes.main:
        if Stage.name not in own:
            _gather(folder, own)
        folder.finish(trained.parameters, (name for name in stages if name != Stage.name))
    processes.wait()
    return trained


def write_run(out: str | Path, config: RunConfig, assets: Assets, save: Callable[[Path], None]) -> Trained:
    """A run of a model that was trained elsewhere; `save` writes its weights into a file."""
    folder = RunFolder(Path(out))
    with locked(folder.path), _whole_or_nothing(folder, goes_on=False, main=True):
        folder.check_free()
        folder.claim()
        assets.save(folder)
        save_config(config, folder.config_file)
        save(folder.weights_file)
        trained = kind_named(config.model.kind).open(folder, "cpu")
        folder.finish(trained.parameters)  # at once: there is no training that could go on
        return trained


def _begin(
    kind: Kind[Any, Any, Any],
    folder: RunFolder,
    config: RunConfig,
    goes_on: bool,
    processes: Processes,
    reporter: Reporter,
) -> Work[Any, Any]:
    """Read the data, build the model, and write what a run begins with; a folder is a run once all of it is there."""
    data_read = fingerprints(config)
    if goes_on:
        folder.check()
        folder.check_data(data_read)
    else:
        if remark := remark_on_text(config):
            reporter.say(remark)
        config = kind.settle(config)
    start = RunFolder.open(config.start) if config.start is not None and not folder.checkpoints else None
    if start is not None:
        advice = "what it learned fits no other; leave these keys as they are there"
        dropped = (key for key in config.leaves() if key.startswith("model.") and key.endswith("dropout"))
        free = (*MAY_CHANGE, *BEGIN_ANEW, *dropped)  # what is dropped in training is nothing that was learned
        check_unchanged(start.config, config, f"{start.path} cannot be gone on from", advice, free)
    kept = kind.assets.load(folder) if goes_on else kind.assets.load(start) if start is not None else None
    with watching(reporter):
        data, assets = processes.first_alone(lambda: kind.prepare(config, kept))
    _seed(kind, config.seed)
    model = kind.build(config, assets)
    if start is not None:
        from seqloom.training import load_model_weights, load_weights

        load_model_weights(model, load_weights(start.weights_file), str(start.weights_file))
    elif not folder.checkpoints:
        for line in kind.begin(model, config, assets, data):
            reporter.say(line)
    if processes.main:
        if not goes_on:
            folder.claim()
            assets.save(folder)
        folder.begin(config, data_read)
    processes.wait()
    return Work(config, data, assets, model, folder, processes, reporter)


def _seed(kind: Kind[Any, Any, Any], number: int) -> None:
    """Let the random numbers of torch follow from a number, where the kind draws any."""
    if kind.needs_torch:
        import torch

        torch.manual_seed(number)


@dataclass
class InnerRun(Stage):
    """A stage that is a run of its own, which another run needs: in a folder named after the stage."""

    config: RunConfig
    name: str

    def fit(self, folder: Path, processes: Processes, reporter: Reporter) -> None:
        inner = RunFolder(folder)
        fit(inner, self.config, inner.begun, processes, reporter)


def _fit_stage(stage: Stage, work: Work[Any, Any]) -> None:
    """Fit a stage: the only one in the folder of the run, one of several in a folder of its own."""
    path = work.folder.path
    if stage.name != Stage.name:
        path = path / stage.name
        with disk_errors(path):
            path.mkdir(exist_ok=True)
        work.reporter.say(f"stage {stage.name}")
    stage.fit(path, work.processes, work.reporter)


def _gather(folder: RunFolder, names: list[str]) -> None:
    """`metrics.jsonl` and `samples.jsonl` of a run with several stages: the entries of all of them."""
    logged, samples = gathered([folder.path / name for name in names])
    for file, entries in ((METRICS, logged), (SAMPLES, samples)):
        (folder.path / file).unlink(missing_ok=True)
        if entries or file == METRICS:
            journal = Journal(folder.path, name=file)
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
        useless = isinstance(error, UserError | Interrupted) or not folder.begun
        learned = folder.weights_file.is_file() or any(folder.path.rglob(f"{CHECKPOINTS}/step-*"))
        if main and useless and not goes_on and not learned:
            for entry in set(folder.path.iterdir()) - others:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        raise


@contextmanager
def _comparing(wanted: bool) -> Iterator[None]:
    """Whether runs that are opened inside this block have their checksums compared; a block that wants none wins."""
    before = folders.checksums.set(folders.checksums.get() and wanted)
    try:
        yield
    finally:
        folders.checksums.reset(before)


def write_report(trained: Trained) -> Path:
    """Write `report.html` of a run; gives its path."""
    from seqloom.reports.run_report import training_section, write_run_report  # draws: matplotlib takes a second

    page = trained.path / REPORT
    shown = kind_named(trained.kind).report(trained)
    write_run_report(
        page,
        trained.path.name,
        in_a_sentence(trained),
        RunFolder(trained.path).config_file.read_text(encoding="utf-8"),
        shown.training if shown.training is not None else training_section(read_metrics(trained.path)),
        {"parameters": trained.parameters, **shown.figures},
        shown.sections,
        commands(trained),
    )
    return page


def _name(source: Source) -> str:
    return Path(source).stem if isinstance(source, str | Path) else "run"
