"""Manifests that agree with the files of a run, whatever was done to them: what a stranger can write too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from seqloom.files import checksum, write_sealed
from seqloom.runs.folder import Manifest, RunFolder


def reseal(path: Path) -> None:
    """Make the manifest of a run, and of those inside it, list the checksums that files have now; of those that are
    gone, none."""
    for file in sorted(path.rglob("run.json"), key=lambda file: -len(file.parts)):  # inner runs first
        document = json.loads(file.read_text(encoding="utf-8"))
        files = {name: file.parent / name for name in document["sha256"]}
        document["sha256"] = {name: checksum(listed) for name, listed in files.items() if listed.is_file()}
        del document["seal"]
        write_sealed(file, document)


def unfinish(path: Path) -> None:
    """Make a run one that is still training: its manifest does not list weights yet, nor says how many they are."""
    manifest = RunFolder(path).manifest
    listed = {name: known for name, known in manifest.sha256.items() if name.startswith(("assets/", "config.yaml"))}
    write(path, replace(manifest, state="training", sha256=listed, parameters=None))


def write(path: Path, manifest: Manifest) -> None:
    """Put a manifest into a run folder."""
    write_sealed(path / "run.json", vars(manifest))
