"""A folder of Hugging Face: its JSON documents and its weights, read so that nothing in it is believed before it is
checked, and never anything that is pickled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from seqloom.errors import DataError, quoted, shown

CONFIG, GENERATION = "config.json", "generation_config.json"
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED = (".bin", ".pt", ".pth", ".ckpt")
LARGEST_DOCUMENT = 1 << 30  # bytes
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}

CONVERT = (
    "convert it once, where you trust it: model = transformers.AutoModelForCausalLM.from_pretrained(FOLDER) (or the "
    "class of the model); model.save_pretrained(FOLDER)"
)
MAKE_FAST = (
    "make one of the tokeniser's own files: tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER); "
    "tokenizer.save_pretrained(FOLDER)"
)


class Folder:
    """The files of a model. Whatever is wrong with one of them is a `DataError` that names it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise DataError(f"{path} is no folder: name the one that holds a model's {CONFIG} and {WEIGHTS}")

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return (self.path / name).exists()

    def text(self, name: str, advice: str = "") -> str:
        """A file of text; `advice` says what to do where it is missing."""
        path = self.path / name
        try:
            if path.stat().st_size > LARGEST_DOCUMENT:
                raise DataError(f"{path} has more than {LARGEST_DOCUMENT:,} bytes: it cannot be what its name says")
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise DataError(f"{path} is missing" + (f": {advice}" if advice else "")) from None
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from None
        except ValueError:
            raise DataError(f"{path} is damaged: it is not UTF-8") from None

    def document(self, name: str, advice: str = "") -> dict[str, Any]:
        """A JSON object."""
        path = self.path / name
        try:
            document = json.loads(self.text(name, advice), object_pairs_hook=_distinct)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is damaged: it is not JSON ({quoted(str(error))})") from None
        if not isinstance(document, dict):
            raise DataError(f"{path} holds no JSON object, but {shown(document)}")
        return document

    def weights(self, renamed: Iterable[tuple[str, str]] = ()) -> Weights:
        """The tensors of the folder, in one file or in several; `renamed`: as for `Weights`."""
        if self.has(WEIGHTS):
            return Weights([self.path / WEIGHTS], None, renamed)
        if not self.has(INDEX):
            pickled = sorted(path.name for path in self.path.iterdir() if path.suffix in PICKLED)
            if pickled:
                raise DataError(
                    f"{self.path} has its weights only in {pickled[0]}, which is pickled: reading it could run any "
                    f"program that is hidden in it. {CONVERT}"
                )
            raise DataError(f"{self.path / WEIGHTS} is missing, and so is {INDEX}: there are no weights to read")
        index = self.path / INDEX
        places = self.document(INDEX).get("weight_map")
        if not isinstance(places, dict) or not places:
            raise DataError(f"{index}: weight_map says of no tensor which file it is in")
        for name, file in places.items():
            if not isinstance(file, str) or Path(file).name != file or not file.endswith(".safetensors"):
                raise DataError(f"{index}: {quoted(name)} cannot be in {shown(file)}: name a .safetensors file beside")
        return Weights([self.path / file for file in sorted(set(places.values()))], places, renamed)


class Weights:
    """The tensors of some files by name. Headers are read at once, tensors when they are asked for."""

    def __init__(
        self,
        files: Iterable[Path],
        places: Mapping[str, str] | None = None,
        renamed: Iterable[tuple[str, str]] = (),
    ) -> None:
        """places: the name of the file that each tensor is in, where there are several; they must be as it says.
        renamed: patterns of names that older files have, and what stands for them."""
        self._entries: dict[str, _Entry] = {}
        for path in files:
            opened = _opened(path)
            held = set(opened.keys())
            listed = held if places is None else {name for name, file in places.items() if file == path.name}
            for tensor in sorted(held ^ listed):
                found = "holds" if tensor in held else "lacks"
                raise DataError(f"{path} {found} the tensor {quoted(tensor)}, and {INDEX} says otherwise")
            for original in sorted(held):
                name = original
                for pattern, replacement in renamed:
                    name = re.sub(pattern, replacement, name)
                if name in self._entries:
                    raise DataError(f"{path} holds the tensor {quoted(name)} for the second time")
                self._entries[name] = _Entry(opened, original, path)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        """All of them."""
        return list(self._entries)

    def where(self, name: str) -> str:
        """The file of a tensor, and its name there."""
        entry = self._entries[name]
        return f"{entry.path}: {quoted(entry.name)}"

    def check(self, name: str, shape: Sequence[int]) -> None:
        """Refuse a tensor that is not of this shape, or not of numbers that are weights."""
        entry = self._entries[name]
        header = entry.file.get_slice(entry.name)
        found, numbers = list(header.get_shape()), str(header.get_dtype())
        if found != list(shape):
            raise DataError(f"{self.where(name)} has the shape {found}, and by {CONFIG} it should be {list(shape)}")
        if numbers not in TYPES:
            raise DataError(f"{self.where(name)} is of type {numbers}; weights are read of {', '.join(TYPES)}")

    def tensor(self, name: str) -> Tensor:
        """A tensor in float32, which holds all numbers of the shorter types exactly; all of them finite."""
        entry = self._entries[name]
        try:
            tensor: Tensor = entry.file.get_tensor(entry.name)
        except SafetensorError as error:
            raise DataError(f"{self.where(name)} cannot be read ({error})") from None
        if not torch.isfinite(tensor).all():
            raise DataError(f"{self.where(name)} holds numbers that are not finite")
        return tensor.float()


class _Entry(NamedTuple):
    """Where a tensor is: in which file, and under which name."""

    file: Any
    name: str
    path: Path


def _opened(path: Path) -> Any:
    try:
        with open(path, "rb"):  # whose errors say what is wrong
            return safe_open(path, framework="pt")
    except FileNotFoundError:
        raise DataError(f"{path} is missing: bring it back, or the folder is not whole") from None
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} is damaged: {quoted(str(getattr(error, 'strerror', None) or error))}") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object none of whose keys stands there twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {quoted(twice)} stands there twice")
    return found
