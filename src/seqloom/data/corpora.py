"""The corpora that come with the package: small, real, free to pass on, and there without a network.

They are listed in `bundled/corpora.yaml`. Sources, licences and what was done to each: `bundled/NOTICES.md`.
`scripts/make_bundled_data.py` makes the files.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Literal

import yaml

from seqloom.errors import DataError, did_you_mean
from seqloom.text.lines import LOOKED_AT, Wrapping
from seqloom.text.reading import is_jsonl, read_lines, read_records

# Always a real folder: installers unpack wheels, and seqloom does not support being run from a zip archive.
FOLDER = Path(__file__).parent / "bundled"
SCENES = "scenes"  # images with captions that are put together of other corpora

wanted: dict[str, str] = {}
"""Names of data that a run which was opened asks for and that is nowhere, each with what an error says of it."""


@dataclass(frozen=True)
class BundledCorpus:
    """One corpus and where its parts are."""

    name: str
    description: str
    licence: str
    kind: Literal["text", "pairs", "tagged", "labelled", "choices", "images"]
    unit: Literal["line", "paragraph", "file"]
    """What ends with `<eos>`, as `data.unit` of a configuration says it."""
    files: Mapping[str, str]
    """Part ("train", "valid", "test") -> name of its file; the first part is the one meant by the bare name."""
    classes: Sequence[str] = ()
    """What the labels 0, 1, ... of images mean."""

    def path(self, part: str = "") -> Path:
        """The file of one part; of the first when none is named."""
        file = self.files.get(part or next(iter(self.files)))
        if file is None:
            raise DataError(f"bundled corpus {self.name!r} has no part {part!r}{did_you_mean(part, self.files)}")
        return FOLDER / file


@cache
def _by_name() -> dict[str, BundledCorpus]:
    listed = yaml.safe_load((FOLDER / "corpora.yaml").read_text(encoding="utf-8"))
    return {name: BundledCorpus(name, **described) for name, described in listed.items()}


def bundled() -> list[BundledCorpus]:
    """All corpora of the package."""
    return list(_by_name().values())


def find(name: str) -> BundledCorpus:
    """The corpus of this name."""
    if name not in _by_name():
        raise DataError(f"no bundled corpus is named {name!r}{did_you_mean(name, _by_name())}")
    return _by_name()[name]


def natural_unit(paths: Sequence[Path]) -> Literal["line", "paragraph", "file"]:
    """The unit that suits the files: that of a bundled corpus; paragraphs where all were wrapped; else lines."""
    for corpus in bundled():
        if all(path in [corpus.path(part) for part in corpus.files] for path in paths):
            return corpus.unit
    return "paragraph" if all(found and found.in_paragraphs for found in map(wrapping, paths)) else "line"


def wrapping(path: Path) -> Wrapping | None:
    """How a text file was wrapped to fit a page, by its first lines; None where it was not."""
    return None if is_jsonl(path) else Wrapping.of(list(islice(read_lines(path), LOOKED_AT)))


def data_kind(name: str) -> Literal["text", "pairs", "images"]:
    """What data is by its name: images in a folder, an idx file or a bundled set; pairs in aligned files, a .tsv file,
    a .jsonl file with sources and targets, or a bundled corpus; everything else, and a folder of texts, is text."""
    path, ending = Path(name), name.lower().removesuffix(".gz")
    kinds = [] if path.is_file() else [corpus.kind for corpus in bundled() if corpus.name == name.partition(":")[0]]
    if "images" in kinds or ending.endswith((".idx", ".idx3", "-idx3-ubyte")) or (path.is_dir() and not _texts(path)):
        return "images"
    if "pairs" in kinds or ending.endswith(".tsv") or ("," in name and not path.is_file()):
        return "pairs"
    first = next(read_records(path), None) if is_jsonl(path) and path.is_file() else None
    return "pairs" if first and {"source", "target"} <= first.values.keys() else "text"


def _texts(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.name.lower().removesuffix(".gz").endswith(".txt"))


def check_lasting(path: Path) -> None:
    """Refuse a pipe, a socket or a device: data is read more than once, and these give it once, or for ever."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"{path} is a pipe or a device, and data is read more than once: write it to a file first")


def resolve(spec: str, kind: str = "") -> Path:
    """A file from what a user wrote: a path, or the name of a bundled corpus, with a part if not its first.

    `mine.txt`, `shakespeare`, `tatoeba-en-zh:valid`. A file of the user's wins over a corpus of the same name. An error
    names the corpora of the kind that is wanted, if only one is.
    """
    path = Path(spec)
    if path.is_file():
        return path
    name, _, part = spec.partition(":")
    if name in _by_name():
        return find(name).path(part)
    if path.is_dir():
        texts = _texts(path)
        several = f", or several: --set 'data.train=[{texts[0]}, {texts[1]}]'" if len(texts) > 1 else ""
        raise DataError(f"{spec} is a folder; name a file in it{several}")
    check_lasting(path)
    files = [file.strip() for file in spec.split(",")]
    if kind == "text" and len(files) > 1 and all(Path(file).is_file() for file in files):
        both = shlex.quote(f"[{', '.join(files)}]")
        raise DataError(f"{spec} are pairs, for models such as translate; to learn from both as texts: --data {both}")
    beside = {each.name: str(each) for each in path.parent.glob("*")}
    known = [corpus.name for corpus in bundled() if kind in ("", corpus.kind)]
    close = get_close_matches(Path(name).name, [*beside, *known], n=1, cutoff=0.75)
    meant = f" (did you mean {beside.get(close[0], close[0])!r}?)" if close else did_you_mean(name, known)
    raise missing(spec, f"no such file, and no bundled corpus of that name{meant}")


def missing(spec: str, otherwise: str) -> DataError:
    """The error that data is not there: which run asks for it, or what else there is to say."""
    if spec in wanted:
        return DataError(f"{spec}: no such file or folder; {wanted[spec]}: bring it back, or name other data")
    return DataError(f"{spec}: {otherwise}")


def data_settings(data: str) -> list[str]:
    """The settings that put `data` in the place of what presets name: a bundled corpus with its validation and test
    parts, or anything else with its end held out for validation."""
    from seqloom.config.parsing import as_yaml  # imports every schema, which most users of this module need not

    files = {SCENES: ("valid", "test"), **{corpus.name: tuple(corpus.files) for corpus in bundled()}}
    parts = {part: f"{data}:{part}" for part in files.get(data, ()) if not Path(data).exists()}
    return [f"data.train={as_yaml(data)}", *(f"data.{part}={parts.get(part, 'null')}" for part in ("valid", "test"))]
