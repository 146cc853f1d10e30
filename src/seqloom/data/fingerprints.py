"""What a run learns from, by its content: data that changed between two parts of a training would go unnoticed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from seqloom.config import RunConfig
from seqloom.data.corpora import FOLDER, bundled
from seqloom.data.corpus import digest

KEYS = ("train", "valid", "vectors", "start")
"""The keys of a configuration that name what is learned from, wherever they stand below `data` and `model`."""


def fingerprints(config: RunConfig) -> dict[str, str]:
    """A checksum of all files behind each key that names some; what is on no disk of ours has none."""
    named = {
        key: fingerprint(value)
        for key, value in config.leaves().items()
        if key.startswith(("data.", "model.")) and key.rpartition(".")[2] in KEYS and value is not None
    }
    return {key: checksum for key, checksum in named.items() if checksum is not None}


def fingerprint(names: str | list[str]) -> str | None:
    """A checksum of all files behind names; None where there are none."""
    files = [file for name in ([names] if isinstance(names, str) else names) for file in _files(name)]
    content = "\n".join(f"{name} {digest(file)}" for name, file in files)
    return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest() if files else None


def _files(name: str) -> list[tuple[str, Path]]:
    """The files that a name stands for: one, those of a folder, several with commas between, a bundled corpus; each
    with its place in the folder, which is part of what is learned (a class may be named by it)."""
    path = Path(name)
    if path.is_file():
        return [("", path)]
    if (path / "run.json").is_file():  # a run: the checksums of its files
        return [("", path / "run.json")]
    if path.is_dir():
        return [(str(file.relative_to(path)), file) for file in sorted(path.rglob("*")) if file.is_file()]
    if "," in name:
        return [file for part in name.split(",") for file in _files(part)]
    whole, _, part = name.partition(":")
    corpora = {corpus.name: corpus for corpus in bundled()}
    if whole in corpora:
        files = corpora[whole].files
        return [(part, FOLDER / file) for own, file in files.items() if own == part or not part]
    return _files(whole) if part else []
