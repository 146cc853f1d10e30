"""Manifests that agree with the files of a run, whatever was done to them: what a stranger can write too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from seqloom.files import checksum, write_sealed
from seqloom.runs.folder import Manifest, RunFolder


def reseal(path: Path) -> None:
    """Make the manifest of a run, and of those inside it, list the checksums that files have now; of those that are
    gone, none."""
    for inner in RunFolder(path).inner:
        if inner.manifest_file.is_file():
            reseal(inner.path)
    manifest = RunFolder(path).manifest
    present = {name: checksum(path / name) for name in manifest.sha256 if (path / name).is_file()}
    write(path, replace(manifest, sha256=present))


def unfinish(path: Path) -> None:
    """Make a run one that is still training."""
    write(path, replace(RunFolder(path).manifest, state="training"))
    reseal(path)


def write(path: Path, manifest: Manifest) -> None:
    """Put a manifest into a run folder."""
    write_sealed(path / "run.json", vars(manifest))
