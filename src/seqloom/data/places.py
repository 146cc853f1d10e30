"""Where the data of a run is, for those who stand elsewhere than whoever named it.

Names of files are relative to the folder in which the training was started. A run remembers that folder: its data is
found from anywhere, and where both were moved together, from the run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom.config import RunConfig
from seqloom.data.corpora import SCENES, bundled, wanted
from seqloom.data.fingerprints import KEYS, fingerprint

Names = str | list[str]
"""What a key of the configuration says: a file, `F.src,F.tgt`, a folder, a part of it, a bundled corpus; or a list."""


def named(config: RunConfig) -> dict[str, Names]:
    """What names data that is read again when a run goes on or is evaluated, by the keys of the configuration."""
    return {
        key: value
        for key, value in config.leaves().items()
        if key.startswith(("data.", "model.")) and key.rpartition(".")[2] in (*KEYS, "test") and value
    }


def renamed(config: RunConfig, names: Mapping[str, Names]) -> RunConfig:
    """The configuration with these names for its data."""
    if names == named(config):
        return config
    tree = config.model_dump(mode="json")
    for key, value in names.items():
        *parents, last = key.split(".")
        part: Any = tree
        for parent in parents:
            part = part[int(parent)] if isinstance(part, list) else part[parent]
        part[last] = value
    return RunConfig.model_validate(tree)


def found(config: RunConfig, places: Sequence[Path], learned: Mapping[str, str], run: Path) -> RunConfig:
    """The configuration of a run with its data named as one finds it from here.

    places: what names are relative to, the likeliest first; none for runs that do not say. learned: the fingerprints of
        what was learned from. Where a name means something in several places, they decide; and nothing else is taken
        for it that lies where one stands by chance.
    """
    names = named(config)
    for key, value in names.items():
        candidates: list[Names] = []
        for place in places:
            there = located(value, place)
            each = value if is_here(place) else _seen(there)
            if there and each not in candidates:
                candidates.append(each)
        if len(candidates) > 1:
            candidates.sort(key=lambda each: fingerprint(each) != learned.get(key))
        if candidates:
            names[key] = candidates[0]
        elif key.startswith("data.") and not _is_here_too(value, learned.get(key) if places else None):
            names[key] = _missing(value, places, f"the run in {run} asks for it ({key})")
    return renamed(config, names)


def _is_here_too(names: Names, learned: str | None) -> bool:
    """Whether data is where one stands, and what was learned from, as far as that is known."""
    return bool(located(names)) and learned in (None, fingerprint(names))


def _missing(names: Names, places: Sequence[Path], who: str) -> Names:
    """Names of what is nowhere, as they would be where it was; whoever looks for it is told who asks."""
    if not isinstance(names, str):
        return [str(_missing(name, places, who)) for name in names]
    if _is_bundled(names) or "://" in names:
        return names
    pieces = [str(Path(*places[-1:], piece.strip())) for piece in names.split(",")]
    wanted.update(dict.fromkeys([*pieces, ",".join(pieces)], who))
    return ",".join(pieces)


def located(names: Names, place: Path = Path()) -> Names:
    """Names as absolute ones, where all of them are in a place or bundled; else nothing."""
    if isinstance(names, str):
        return _located(names, place)
    several = [_located(name, place) for name in names]
    return several if all(several) else []


def depends_on_place(config: RunConfig) -> bool:
    """Whether any of the data has a name that is relative to the folder where one stands."""
    paths = [Path(piece.partition(":")[0]) for value in named(config).values() for piece in _pieces(value)]
    return any(_exists(path) and not path.is_absolute() for path in paths)


def is_here(place: Path) -> bool:
    """Whether a folder is the one where one stands."""
    return os.path.realpath(place) == os.path.realpath(".")


def _located(name: str, place: Path) -> str:
    whole, _, part = name.partition(":")
    if _exists(place / name):
        return os.path.normpath(Path(os.path.realpath(place), name))
    if "," in name:
        pieces = [_located(piece.strip(), place) for piece in name.split(",")]
        return ",".join(pieces) if all(pieces) else ""
    if part and _exists(place / whole):
        return f"{_located(whole, place)}:{part}"
    return name if _is_bundled(name) else ""


def _is_bundled(name: str) -> bool:
    return name.partition(":")[0] in (SCENES, *(corpus.name for corpus in bundled()))


def _seen(names: Names) -> Names:
    """Absolute names as one would type them here: below the folder where one stands, without the name of that."""
    here = os.path.realpath(".") + os.sep
    if isinstance(names, str):
        return ",".join(piece.removeprefix(here) for piece in names.split(","))
    return [str(_seen(name)) for name in names]


def _pieces(names: Names) -> list[str]:
    """All that may be the name of a file."""
    several = [names] if isinstance(names, str) else names
    return [piece.strip() for name in several for piece in (name, *name.split(","))]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # nobody may look there, or the name is none that a file can have
        return False
