"""Ways to damage a file: as disks and careless hands do, and as a stranger does who keeps it readable."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import yaml
from safetensors.numpy import load_file, save_file

Way = Callable[[Path, Random], None]

# ------------------------------------------------------------------------------------------------------- by accident


def flip_a_bit(path: Path, choose: Random) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[choose.randrange(len(content))] ^= 1 << choose.randrange(8)
    path.write_bytes(content)


def cut_off(path: Path, choose: Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: choose.randrange(len(content) or 1)])


def make_a_folder(path: Path, choose: Random) -> None:
    path.unlink()
    path.mkdir()


def fill_with_garbage(path: Path, choose: Random) -> None:
    path.write_bytes(choose.randbytes(path.stat().st_size or 100))


def grow(path: Path, choose: Random) -> None:
    path.write_bytes(path.read_bytes() + choose.randbytes(choose.randint(1, 100)))


def written(content: str) -> Way:
    """Put another document in its place."""

    def write(path: Path, choose: Random) -> None:
        path.write_text(content, encoding="utf-8")

    return write


ACCIDENTS: dict[str, Way] = {
    "a bit flipped": flip_a_bit,
    "another bit flipped": flip_a_bit,
    "a third bit flipped": flip_a_bit,
    "cut off": cut_off,
    "emptied": written(""),
    "deleted": lambda path, choose: path.unlink(),
    "a folder": make_a_folder,
    "garbage": fill_with_garbage,
    "grown": grow,
    "[]": written("[]"),
    "{}": written("{}"),
    "null": written("null"),
    "deep": written("[" * 100_000 + "]" * 100_000),
}


def accidents(folder: Path, choose: Random, most: int) -> list[tuple[Path, str]]:
    """So many pairs of a file of a folder and a way to damage it: each file once, before any comes again."""
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    every = [(file, choose.choice(list(ACCIDENTS))) for file in choose.sample(files, len(files))]
    more = [(file, way) for file in files for way in ACCIDENTS if (file, way) not in every]
    return [*every, *choose.sample(more, len(more))][:most]


# --------------------------------------------------------------------------------------------------- by a stranger


def change_an_array(path: Path, choose: Random) -> str:
    """Other numbers, another shape, or nothing under one name of a safetensors file; what was done."""
    arrays = load_file(path)
    name = choose.choice(sorted(arrays))
    array = arrays[name]
    ways = _ARRAYS if array.size else {"nothing": _ARRAYS["nothing"]}
    way = choose.choice(sorted(ways))
    arrays[name] = np.ascontiguousarray(ways[way](array.copy(), choose))
    if way == "nothing":
        del arrays[name]
    save_file(arrays, path)
    return f"{way} in {name}"


def _one(value: float) -> Callable[[Any, Random], Any]:
    """One number, or all of them, replaced."""

    def replace(array: Any, choose: Random) -> Any:
        number: float = value
        if array.dtype.kind in "iu":
            limits = np.iinfo(array.dtype)
            number = max(int(limits.min), min(int(np.nan_to_num(value)), int(limits.max)))
        if choose.random() < 0.5:
            array.flat[choose.randrange(array.size)] = number
        else:
            array[...] = number
        return array

    return replace


_ARRAYS: dict[str, Callable[[Any, Random], Any]] = {
    "NaN": _one(np.nan),
    "infinity": _one(np.inf),
    "a huge number": _one(2.0**30),
    "a larger number": _one(2.0**62),
    "-1": _one(-1),
    "zero": _one(0),
    "no rows": lambda array, choose: array.reshape(-1)[:0],
    "a row less": lambda array, choose: array[:-1] if array.ndim else array.reshape(1, 1),
    "a row more": lambda array, choose: np.concatenate([np.atleast_1d(array), np.atleast_1d(array)[:1]]),
    "a line": lambda array, choose: array.reshape(-1),
    "a dimension more": lambda array, choose: array[None],
    "another order": lambda array, choose: array.reshape(-1)[::-1].reshape(array.shape),
    "other types": lambda array, choose: array.astype(np.float64 if array.dtype != np.float64 else np.int64),
    "nothing": lambda array, choose: array,
}

_ODD = (None, True, "", "x", -1, 0, 3, 10**6, 10**30, 1e308, float("nan"), [], {}, [[]], ["x"], {"x": 1})


def change_a_document(path: Path, choose: Random) -> str:
    """Another value, or none, at one place of a JSON or YAML document; what was done."""
    readable = json if path.suffix == ".json" else yaml
    document = (json.loads if readable is json else yaml.safe_load)(path.read_text(encoding="utf-8"))
    parent, key = choose.choice(list(_places(document)))
    if choose.random() < 0.2:
        done, _ = f"no {key}", parent.pop(key)
    else:
        parent[key] = choose.choice(_ODD)
        done = f"{key}: {parent[key]!r}"
    path.write_text(json.dumps(document) if readable is json else yaml.safe_dump(document), encoding="utf-8")
    return done


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """All values of a nested document, each by what holds it and its key there."""
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


STRANGERS: dict[str, Callable[[Path, Random], str]] = {
    ".safetensors": change_an_array,
    ".json": change_a_document,
    ".yaml": change_a_document,
}


def of_a_stranger(folder: Path) -> list[Path]:
    """The files of a run that are read when it is loaded, but for the manifest: that is written anew."""
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.suffix in STRANGERS]
    return [file for file in files if "checkpoints" not in file.parts and file.name != "run.json"]


def remove(path: Path) -> None:
    """Whatever it has become."""
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
