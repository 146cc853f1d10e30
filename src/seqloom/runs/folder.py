"""The run folder: what training writes and every other verb reads.

runs/mine/
  config.yaml          the whole configuration, defaults included
  assets/              tokenisers, labels, formats, copies of other runs
  model.safetensors    weights
  run.json             the manifest: how far the run is, and the checksums of its files; written last
  metrics.jsonl        one JSON object per log point
  samples.jsonl        what a model that writes texts wrote at its validations
  checkpoints/step-…/  what resuming needs
  report.html
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path, PurePath
from typing import IO, Any, Literal

from seqloom.arrays import check_seal
from seqloom.config import RunConfig, load_config, preset_names, save_config
from seqloom.config.schema.admission import admitted, known_kinds
from seqloom.data.places import Names, depends_on_place, found, is_here, located, named, renamed
from seqloom.errors import CheckpointError, UserError
from seqloom.files import atomic_folder, checksum, clear_unfinished, disk_errors, read_sealed, write_sealed
from seqloom.training.journal import METRICS, SAMPLES
from seqloom.training.places import CHECKPOINTS, REPORT, WEIGHTS, checkpoints_in
from seqloom.version import __version__

LOCK = ".lock"
MANIFEST = "run.json"
MOST_NAMED = 12  # runs that an error lists

checksums: ContextVar[bool] = ContextVar("checksums", default=True)
"""Whether the checksums of runs are compared when they are opened, if `$SEQLOOM_CHECKSUMS` is not 0. What is in the
files is validated in any case."""


@dataclass(frozen=True)
class Manifest:
    """How far a run is, and what its files are."""

    state: Literal["beginning", "training", "finished"]
    """beginning: its assets are being written, and nothing was learned; finished: training came to its end."""
    data: dict[str, str] = field(default_factory=dict)
    """A checksum of what each key of the configuration names to learn from."""
    sha256: dict[str, str] = field(default_factory=dict)
    """The checksum of each file that loading reads; weights are added when the run is finished."""
    stood: list[str] = field(default_factory=list)
    """The folder in which training was started, seen from the run's and then as it is, where names of data are relative
    to it."""
    plugins: dict[str, str] = field(default_factory=dict)
    """The kinds of layers and models that are not part of this package, each with the module that has it."""
    parameters: int | None = None
    """How many numbers the model learned, as `load` counts them; known when the run is finished."""
    seqloom: str = __version__

    @classmethod
    def read(cls, path: Path) -> Manifest:
        document = read_sealed(path)
        try:
            manifest = cls(**document)
            known = manifest.state in ("beginning", "training", "finished")
            inside = all(_is_inside(name) and isinstance(manifest.sha256[name], str) for name in manifest.sha256)
            places = isinstance(manifest.stood, list) and all(isinstance(place, str) for place in manifest.stood)
            texts = isinstance(manifest.data, dict) and _are_texts(manifest.plugins)
            counted = isinstance(manifest.parameters, int | None)
            if not known or not inside or not places or not texts or not counted:
                raise ValueError("it lists what no run has")
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is no manifest of a run ({error}): train again") from None
        return manifest


@dataclass(frozen=True)
class RunFolder:
    """Paths and contents of one run."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """An existing run, every file of which is what was written."""
        folder = cls.known(path)
        if checksums.get() and os.environ.get("SEQLOOM_CHECKSUMS") != "0":
            folder.check()
            folder.check_weights()
        return folder

    @classmethod
    def known(cls, path: str | Path) -> RunFolder:
        """An existing run whose training has begun; its files are not looked at."""
        folder = cls(Path(path))
        folder.check_there()
        if not folder.begun:
            raise CheckpointError(f"the training of {path} has not begun: go on with --resume")
        return folder

    @property
    def runs_inside(self) -> list[Path]:
        """The runs in this folder, and in the folders of comparisons in it."""
        found = sorted(file.parent for depth in ("*", "*/*") for file in self.path.glob(f"{depth}/{MANIFEST}"))
        return [run for run in found if not (run.parent / MANIFEST).is_file()]

    @property
    def runs(self) -> list[Path]:
        """This run alone, or those in a folder of several; an error where there is none."""
        inside = [] if self.manifest_file.is_file() else self.runs_inside
        if not inside:
            self.check_there()
        return inside or [self.path]

    def check_there(self) -> None:
        """Refuse a folder that holds no run; where runs lie in it, name them."""
        if self.manifest_file.is_file():
            return
        runs = self.runs_inside
        if not runs:
            why = f"there is no {MANIFEST} in it" if self.path.exists() else f"there is no such folder{self._meant}"
            why = "it is a file" if self.path.is_file() else why
            raise CheckpointError(f"{self.path} is not a run folder: {why}")
        listed = ", ".join(map(str, runs[:MOST_NAMED])) + (", ..." if len(runs) > MOST_NAMED else "")
        raise CheckpointError(f"{self.path} holds {len(runs)} run{'s' * (len(runs) > 1)}: {listed}; name one")

    @property
    def _meant(self) -> str:
        """A hint for a misspelt folder: the run of a similar name beside it, or in `runs`; or what a preset is for."""
        runs = {run.name: run for place in (Path("runs"), self.path.parent) for run in RunFolder(place).runs_inside}
        if close := get_close_matches(self.path.name, runs, n=1):
            return f" (did you mean {runs[close[0]]}?)"
        preset = str(self.path)
        return f" ({preset} is a preset: seqloom train {preset} makes such a run)" if preset in preset_names() else ""

    @classmethod
    def unused(cls, name: str) -> RunFolder:
        """`runs/NAME`, or `runs/NAME-2` and so on when that is taken."""
        base = Path("runs") / name
        path, number = base, 2
        while path.exists():
            path, number = base.with_name(f"{name}-{number}"), number + 1
        return cls(path)

    @property
    def config_file(self) -> Path:
        return self.path / "config.yaml"

    @property
    def weights_file(self) -> Path:
        return self.path / WEIGHTS

    @property
    def manifest_file(self) -> Path:
        return self.path / MANIFEST

    @property
    def assets(self) -> Path:
        return self.path / "assets"

    @property
    def inner(self) -> list[RunFolder]:
        """The runs inside this one: copies of other runs among the assets, and stages that are runs of their own."""
        return [RunFolder((self.path / name).parent) for name in self.manifest.sha256 if Path(name).name == MANIFEST]

    @property
    def checkpoints(self) -> list[Path]:
        """The finished checkpoints of all stages."""
        stages = [path for path in self.path.glob(f"*/{CHECKPOINTS}") if not (path.parent / MANIFEST).exists()]
        return [saved for path in (self.path / CHECKPOINTS, *stages) for saved in checkpoints_in(path)]

    @cached_property
    def config(self) -> RunConfig:
        """The configuration, checked again, with its data named as one finds it from here."""
        self.check_plugins()
        known = self.manifest if self.manifest_file.is_file() else Manifest("beginning")
        return found(load_config(self.config_file), self._places(known), known.data, self.path)

    def check_free(self) -> None:
        """Refuse a folder that holds a run already, or files in the places of a run's."""
        if self.begun:
            raise UserError(f"{self.path} holds a run already: go on with --resume, or choose another --out")
        if not self.manifest_file.exists():
            names = (METRICS, SAMPLES, CHECKPOINTS, REPORT)
            for file in (self.config_file, self.weights_file, self.assets, *(self.path / name for name in names)):
                if file.exists():
                    raise UserError(f"{file} is there already, and of no run that is whole: choose another --out")

    def check_same(self, config: RunConfig) -> None:
        """Refuse a folder that holds a run of another configuration."""
        if self.begun:
            advice = "choose another --out, or delete that folder"
            check_unchanged(self.config, config, f"{self.path} holds a run of another configuration", advice)

    # -------------------------------------------------------------------------------------------------- the manifest

    @property
    def manifest(self) -> Manifest:
        """The manifest, checked."""
        return Manifest.read(self.manifest_file)

    @property
    def begun(self) -> bool:
        """Whether this is a run that can be loaded or go on: all that training begins with is there."""
        return self.manifest_file.is_file() and self.manifest.state != "beginning"

    @property
    def state(self) -> str:
        """The state of the manifest; "stopped" where training is not finished, and nobody is at it any more."""
        state = self.manifest.state
        return state if state == "finished" or self._is_written else "stopped"

    @property
    def _is_written(self) -> bool:
        """Whether the process that the lock names is alive, as far as one can see from this machine. The lock itself is
        left alone: to try it would refuse a training that begins at this moment."""
        try:
            who = (self.path / LOCK).read_text(encoding="utf-8")
            process, _, machine = who.removeprefix("process ").partition(" on ")
            if machine == platform.node():
                os.kill(int(process), 0)
        except PermissionError:  # it is there, and somebody else's
            return True
        except (OSError, ValueError):
            return False
        return True

    @property
    def finished(self) -> bool:
        """Whether training came to its end."""
        return self.manifest_file.is_file() and self.manifest.state == "finished"

    def claim(self) -> None:
        """Say that a run begins here; what one that never began has left is cleared away."""
        if self.manifest_file.exists():
            shutil.rmtree(self.assets, ignore_errors=True)
            self.config_file.unlink(missing_ok=True)
        self._write(Manifest("beginning"))

    def begin(self, config: RunConfig, data: dict[str, str]) -> None:
        """Keep the configuration: from now on this is a run. Weights change until it is finished."""
        assets = self._checksums(self._assets())
        stood, config = self.manifest.stood, self._as_named(config)
        if not stood and depends_on_place(config):
            here = os.path.realpath(".")
            stood = [os.path.relpath(here, os.path.realpath(self.path)), here]
        # Killed between the next two, the configuration is the old one or the new one, and no checksum says which.
        plugins = admitted(config)
        self._write(Manifest("training" if self.begun else "beginning", data, assets, stood, plugins))
        save_config(config, self.config_file)
        self._write(Manifest("training", data, self._checksums([self.config_file]) | assets, stood, plugins))

    def finish(self, parameters: int, stages: Iterable[str] = ()) -> None:
        """Training came to its end: say how large the model is, and list all weights too, those of stages in folders of
        their own among them."""
        files = [self.config_file, *self._assets(), self.weights_file]
        for folder in (self.path / stage for stage in stages):
            files.append(folder / MANIFEST if (folder / MANIFEST).is_file() else folder / WEIGHTS)
        known = self.manifest
        checksums = self._checksums(files) | known.sha256
        self._write(replace(known, state="finished", sha256=checksums, parameters=parameters))

    def check(self) -> None:
        """Refuse a run of which a file, or one of a run inside it, is not what was written."""
        for name, expected in self.manifest.sha256.items():
            file = self.path / name
            if not file.is_file() or checksum(file) != expected:
                what = "is not what was written (its checksum differs)" if file.is_file() else "is missing"
                raise CheckpointError(f"{file} {what}: bring it back from a copy, or train again")
        for run in self.inner:
            run.check()
            run.check_weights()

    def check_weights(self) -> None:
        """Refuse weights that no manifest lists yet, and that are not what was written."""
        if not self.finished and self.weights_file.is_file():
            check_seal(self.weights_file)

    @property
    def plugin_options(self) -> str:
        """What every command with this run ends with: the plugins that it asks for."""
        return "".join(f" --plugin {_plugin_argument(home)}" for home in dict.fromkeys(self.manifest.plugins.values()))

    def check_plugins(self) -> None:
        """Refuse a run that has something of a plugin which nobody registered: a run never imports code by itself."""
        known = known_kinds()
        for kind, home in self.manifest.plugins.items():
            if kind not in known:
                plugin = _plugin_argument(home)
                raise CheckpointError(
                    f"the run in {self.path} asks for the plugin {home!r}, which has its {kind!r}: give it again with "
                    f"--plugin {plugin} (in Python: load(..., plugins=[{plugin!r}]), or import it first)"
                )

    def check_data(self, data: dict[str, str]) -> None:
        """Refuse to go on with other data than before."""
        for key, before in self.manifest.data.items():
            if key not in data and key in named(self.config):
                raise UserError(
                    f"{named(self.config)[key]}, {key} of the run in {self.path}, is not there: bring it back, or say "
                    f"where it is with --set {key}=..."
                )
            if data.get(key) != before:
                raise UserError(
                    f"{key} is not what the run in {self.path} learned from until now: bring the files back as they "
                    "were, or train anew into another --out"
                )

    def _places(self, known: Manifest) -> list[Path]:
        """What names of data are relative to: the folder in which training was started, as seen from here, which holds
        where both were moved together, and where it was."""
        return [Path(os.path.realpath(self.path), place) for place in known.stood]

    def _as_named(self, config: RunConfig) -> RunConfig:
        """The configuration of a run that goes on, with names relative to where it was started: those that it had, and
        absolute ones for what is new, unless one stands there."""
        places = self._places(self.manifest)
        if not places:
            return config
        before, from_here, here = named(load_config(self.config_file)), named(self.config), any(map(is_here, places))
        names = named(config)
        for key, value in names.items():
            if from_here.get(key) == value:
                names[key] = before[key]
            elif not here:
                names[key] = located(value) or value
        return renamed(config, names)

    def _assets(self) -> list[Path]:
        """The files of the assets; of copies of runs only the manifests, which answer for the rest."""
        copies = [file for pattern in ("*", "*/*") for file in sorted(self.assets.glob(f"{pattern}/{MANIFEST}"))]
        return [*sorted(file for file in self.assets.glob("*") if file.is_file()), *copies]

    def _checksums(self, files: Iterable[Path]) -> dict[str, str]:
        return {str(file.relative_to(self.path)): checksum(file) for file in files}

    def _write(self, manifest: Manifest) -> None:
        write_sealed(self.manifest_file, asdict(manifest))


def check_unchanged(before: RunConfig, now: RunConfig, what: str, advice: str, free: tuple[str, ...] = ()) -> None:
    """Refuse a configuration in which another key changed than those that begin with one of `free`."""
    mine, other = ({**config.leaves(), **_absolute(config)} for config in (before, now))
    for key in sorted(mine | other):
        if mine.get(key) != other.get(key) and not key.startswith(free):
            raise UserError(f"{what} ({key} is {mine.get(key)!r} there, {other.get(key)!r} here): {advice}")


def _absolute(config: RunConfig) -> dict[str, Names]:
    """The names of data, the same for the same files wherever one stands."""
    return {key: located(value) or value for key, value in named(config).items()}


def copy_run(source: RunFolder, target: Path) -> None:
    """What loading a run needs, so that the copy stands on its own."""
    with atomic_folder(target) as temporary:
        _copy(source, temporary)


def _copy(source: RunFolder, target: Path) -> None:
    names = {MANIFEST, source.config_file.name, *source.manifest.sha256}
    if source.weights_file.is_file():
        names.add(WEIGHTS)
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.path / name, target / name)
    for run in source.inner:
        _copy(run, target / run.path.relative_to(source.path))


def _plugin_argument(home: str) -> str:
    """What `--plugin` takes, by the module that registered something."""
    return home if "." in home else f"{home}.py"


def _are_texts(plugins: Any) -> bool:
    return isinstance(plugins, dict) and all(isinstance(home, str) for home in plugins.values())


def _is_inside(name: str) -> bool:
    """Whether the name of a file leads to a place below the folder."""
    path = PurePath(name)
    return not path.is_absolute() and ".." not in path.parts


def _make(path: Path) -> None:
    """Make a folder, unless it is there; where none can be, another must be named."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next(each for each in (path, *path.parents) if os.path.lexists(each))
        raise UserError(f"{file} is a file; --out names a folder") from None
    except (FileNotFoundError, PermissionError) as error:
        raise UserError(f"no folder can be made at {path} ({error.strerror}): choose another --out") from None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time writes into a folder; the lock of one that died is open to the next, who clears away
    what was not finished.

    A folder that was made for the lock and stayed empty is gone afterwards.
    """
    file = path / LOCK
    while True:
        with disk_errors(path):
            _make(path)
            lock = open(file, "a+", encoding="utf-8")  # noqa: SIM115 - open as long as it is held
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                who = _holder(lock)
                raise UserError(f"{path} is being written by {who}: wait for it, or choose another --out") from None
            if not _is_at(lock.fileno(), file):  # whoever held it has deleted it meanwhile
                continue
            with suppress(OSError):  # on a full disk, without a name
                os.ftruncate(lock.fileno(), 0)
                os.write(lock.fileno(), f"process {os.getpid()} on {platform.node()}".encode())
            clear_unfinished(path)
            try:
                yield
            finally:
                file.unlink(missing_ok=True)
                with suppress(OSError):  # not empty
                    path.rmdir()
            return


def _holder(lock: IO[str]) -> str:
    """Who holds a lock, who may be just about to say it."""
    for _ in range(50):
        lock.seek(0)
        if name := lock.read().strip():
            return name
        time.sleep(0.02)
    return "another process"


def _is_at(descriptor: int, file: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
