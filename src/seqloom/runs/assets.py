"""Assets: what a run keeps beside its weights. By name; saved, loaded and copied in this one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, get_args, get_origin, get_type_hints

from seqloom.data.image_format import ImageFormat
from seqloom.errors import CheckpointError, DataError
from seqloom.files import atomic_file, read_json, write_json
from seqloom.runs.folder import RunFolder, copy_run
from seqloom.text.kinds import load_tokenizer
from seqloom.text.tokenizer import Tokenizer

if TYPE_CHECKING:  # n-gram models have no tensors, and do not wait for torch
    from torch import Tensor


@dataclass(frozen=True)
class Assets:
    """What a kind of run keeps. A kind derives a dataclass from this one: each of its fields is a file or a folder of
    `assets/` with the field's name, in the format of the field's type. A field that is None is not written.
    """

    def save(self, folder: RunFolder) -> None:
        """Write all of them."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                format = _format(_hints(type(self))[field.name])
                format.save(value, folder.assets / (field.name + format.suffix))

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """What `save` wrote; an asset that may be None is None where there is no file."""
        loaded = {}
        for name, hint in _hints(cls).items():
            format = _format(hint)
            path = folder.assets / (name + format.suffix)
            if path.exists() or type(None) not in get_args(hint):
                loaded[name] = _checked(format.load(path), hint, path)
        return cls(**loaded)


class Format(NamedTuple):
    """How a type of assets is kept."""

    suffix: str
    save: Callable[[Any, Path], None]
    load: Callable[[Path], Any]


def save_named(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors by name."""
    from seqloom.training.checkpoints import save_tensors

    with atomic_file(path) as temporary:
        save_tensors(dict(tensors), temporary)


def _load_named(path: Path) -> Mapping[str, Tensor]:
    from seqloom.training import load_weights

    return load_weights(path)


def _read_labels(path: Path) -> tuple[str, ...]:
    labels = read_json(path)
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise CheckpointError(f"{path} is no list of labels")
    return tuple(labels)


def _read_images(path: Path) -> ImageFormat:
    try:
        return ImageFormat.from_json(read_json(path))
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} says no shape and classes of images ({error})") from None


def _read_tokenizer(path: Path) -> Tokenizer:
    try:
        return load_tokenizer(path)
    except DataError as error:
        raise CheckpointError(str(error)) from error


def _copy_runs(runs: list[Path], path: Path) -> None:
    for number, run in enumerate(runs):
        copy_run(RunFolder.open(run), path / str(number))


def _copied_runs(path: Path) -> list[Path]:
    copies = {run.name: run for run in path.iterdir()} if path.is_dir() else {}
    names = [str(number) for number in range(len(copies))]
    if not copies or copies.keys() != set(names):
        raise CheckpointError(f"{path} should hold copies of runs, 0, 1, ...: bring them back, or train again")
    return [copies[name] for name in names]


FORMATS: dict[type, Format] = {
    Tokenizer: Format(".json", lambda value, path: value.save(path), _read_tokenizer),
    ImageFormat: Format(".json", lambda value, path: write_json(path, value.to_json()), _read_images),
    tuple: Format(".json", lambda value, path: write_json(path, list(value)), _read_labels),
    Mapping: Format(".safetensors", save_named, _load_named),
    list: Format("", _copy_runs, _copied_runs),
    Path: Format("", lambda value, path: copy_run(RunFolder.open(value), path), Path),
}
"""Tokenisers, what images are like, labels, tensors by name, and copies of other runs by the paths of their folders. A
kind with assets of a type of its own adds the format of that."""


def _hints(assets: type[Assets]) -> dict[str, Any]:
    return get_type_hints(assets)


def _plain(hint: Any) -> type:
    """The class behind `Mapping[str, Tensor]`, `tuple[str, ...]` or `Tokenizer | None`."""
    if isinstance(hint, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    return get_origin(hint) or hint


def _format(hint: Any) -> Format:
    plain = _plain(hint)
    return next(format for kept, format in FORMATS.items() if issubclass(plain, kept))


def _checked(value: Any, hint: Any, path: Path) -> Any:
    plain = _plain(hint)
    if not isinstance(value, plain):
        raise CheckpointError(f"{path} holds a {type(value).__name__}, and a {plain.__name__} is needed")
    return value
