"""The run folder: what training writes and every other verb reads.

runs/mine/
  config.yaml          the whole configuration, defaults included
  assets/              tokenisers, labels, formats, copies of other runs
  model.safetensors    weights
  run.json             the manifest: version and checksums, written last
  metrics.jsonl        one JSON object per log point
  checkpoints/step-…/  what resuming needs
  report.html
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from seqloom.config import RunConfig, load_config, save_config
from seqloom.errors import CheckpointError, UserError
from seqloom.files import atomic_folder, disk_errors, sha256, write_json
from seqloom.training.checkpoints import WEIGHTS
from seqloom.version import __version__

LOCK = ".lock"


@dataclass(frozen=True)
class RunFolder:
    """Paths and contents of one run."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """An existing run, every file of which is what was written."""
        folder = cls(Path(path))
        if not folder.config_file.is_file():
            raise CheckpointError(f"{path} is not a run folder: there is no {folder.config_file.name} in it")
        folder.check()
        return folder

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
        return self.path / "run.json"

    @property
    def assets(self) -> Path:
        return self.path / "assets"

    @property
    def inner(self) -> list[RunFolder]:
        """The runs inside this one: copies of other runs among the assets, and stages that are runs of their own."""
        return [
            RunFolder(file.parent)
            for pattern in ("*", "assets/*", "assets/*/*")
            for file in sorted(self.path.glob(f"{pattern}/config.yaml"))
        ]

    @cached_property
    def config(self) -> RunConfig:
        """The configuration, checked again."""
        return load_config(self.config_file)

    def write_config(self, config: RunConfig) -> None:
        """Keep a configuration; the folder is a run from then on."""
        save_config(config, self.config_file)

    def check_free(self) -> None:
        """Refuse a folder that holds a run already."""
        if self.config_file.exists():
            raise UserError(f"{self.path} holds a run already: go on with --resume, or choose another --out")

    def check_same(self, config: RunConfig) -> None:
        """Refuse a folder that holds a run of another configuration."""
        if not self.config_file.exists():
            return
        mine, other = _leaves(self.config.model_dump()), _leaves(config.model_dump())
        changed = [key for key in sorted(mine | other) if mine.get(key) != other.get(key)]
        if changed:
            key = changed[0]
            raise UserError(
                f"{self.path} holds a run of another configuration ({key} is {mine.get(key)!r} there, "
                f"{other.get(key)!r} here): choose another --out, or delete that folder"
            )

    # -------------------------------------------------------------------------------------------------- the manifest

    def seal(self, finished: bool) -> None:
        """Write the manifest: the checksum of every file that `load` reads. Weights change until a run is finished."""
        inner = self.inner  # each of these answers for its own files
        files = [self.config_file, *sorted(file for file in self.assets.glob("*") if file.is_file())]
        if finished:
            files += [self.weights_file, *sorted(self.path.glob(f"*/{WEIGHTS}")), *(run.manifest_file for run in inner)]
        checksums = {str(file.relative_to(self.path)): sha256(file) for file in files}
        write_json(self.manifest_file, {"seqloom": __version__, "finished": finished, "sha256": checksums})

    def check(self, goes_on: bool = False) -> None:
        """Refuse a run of which a file is not what was written; one that goes on can make weights anew."""
        for name, expected in self.manifest["sha256"].items():
            file = self.path / name
            if goes_on and file.name == WEIGHTS and not file.is_file():
                continue
            if not file.is_file() or sha256(file) != expected:
                what = "is not what was written (its checksum differs)" if file.is_file() else "is missing"
                raise CheckpointError(f"{file} {what}: bring it back from a copy, or train again")

    @property
    def finished(self) -> bool:
        """Whether training came to its end."""
        return bool(self.manifest["finished"])

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest; that of a run which is only beginning lists nothing."""
        try:
            manifest = json.loads(self.manifest_file.read_text(encoding="utf-8"))
            return {"finished": manifest["finished"], "sha256": dict(manifest["sha256"])}
        except FileNotFoundError:
            return {"finished": False, "sha256": {}}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.manifest_file} is damaged ({error}); train again") from None


def copy_run(source: RunFolder, target: Path) -> None:
    """What loading a run needs, so that the copy stands on its own."""
    with atomic_folder(target) as temporary:
        for name in (source.config_file.name, *source.manifest["sha256"]):
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.path / name, temporary / name)
        for run in source.inner:
            copy_run(run, temporary / run.path.relative_to(source.path))
        if not source.finished and source.weights_file.is_file():
            shutil.copyfile(source.weights_file, temporary / WEIGHTS)
        RunFolder(temporary).seal(source.finished)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time writes into a folder; the lock of one that died is open to the next.

    A folder that was made for the lock and stayed empty is gone afterwards.
    """
    file = path / LOCK
    with disk_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        lock = open(file, "a+", encoding="utf-8")  # noqa: SIM115 - open as long as it is held
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            raise UserError(f"{path} is being written by {holder}: wait for it, or choose another --out") from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()}")
        lock.flush()
        try:
            yield
        finally:
            file.unlink(missing_ok=True)
            with suppress(OSError):  # not empty
                path.rmdir()


def _leaves(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested configuration by dotted keys."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        leaves |= _leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return leaves
