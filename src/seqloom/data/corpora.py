"""The corpora that come with the package: small, real, free to pass on, and there without a network.

Sources, licences and what was done to each: `bundled/NOTICES.md`. `scripts/make_bundled_data.py` makes the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from seqloom.errors import DataError, did_you_mean


@dataclass(frozen=True)
class BundledCorpus:
    """One corpus and where its parts are."""

    name: str
    files: Mapping[str, str]
    """Part ("train", "valid", "test") -> name of its file; the first part is the one meant by the bare name."""
    kind: Literal["text", "pairs", "tagged", "labelled", "images"]
    unit: Literal["line", "paragraph", "file"]
    """What ends with `<eos>`, as `data.unit` of a configuration says it."""
    language: str
    """"en", "zh", "en-zh", or "" for images."""
    description: str
    licence: str
    classes: tuple[str, ...] = ()
    """What the labels 0, 1, ... of images mean."""

    def path(self, part: str = "") -> Path:
        """The file of one part; of the first when none is named."""
        file = self.files.get(part or next(iter(self.files)))
        if file is None:
            raise DataError(f"bundled corpus {self.name!r} has no part {part!r}{did_you_mean(part, self.files)}")
        return _folder() / file


_CORPORA = (
    BundledCorpus(
        name="time-machine",
        files={"train": "time-machine.txt.gz"},
        kind="text",
        unit="paragraph",
        language="en",
        description="H. G. Wells, The Time Machine: a novel of 32,000 words",
        licence="public domain",
    ),
    BundledCorpus(
        name="shakespeare",
        files={"train": "shakespeare.txt.gz"},
        kind="text",
        unit="paragraph",
        language="en",
        description="plays by Shakespeare, 1.1 million characters (Tiny Shakespeare)",
        licence="public domain",
    ),
    BundledCorpus(
        name="shakespeare-dialogue",
        files={part: f"shakespeare-dialogue.{part}.tsv.gz" for part in ("train", "valid", "test")},
        kind="pairs",
        unit="line",
        language="en",
        description="4,428 turns of Shakespeare's plays, each with the reply to it, up to 40 words a side",
        licence="public domain",
    ),
    BundledCorpus(
        name="tang-poems",
        files={"train": "tang-poems.jsonl.gz"},
        kind="text",
        unit="line",
        language="zh",
        description="5,761 Chinese poems of the Tang dynasty with their titles, traditional characters",
        licence="public domain (compilation: MIT)",
    ),
    BundledCorpus(
        name="tatoeba-en-zh",
        files={part: f"tatoeba-en-zh.{part}.tsv.gz" for part in ("train", "valid", "test")},
        kind="pairs",
        unit="line",
        language="en-zh",
        description="29,155 English sentences with a Chinese translation; third column: whom to credit",
        licence="CC BY 2.0 FR",
    ),
    BundledCorpus(
        name="tatoeba-en",
        files={part: f"tatoeba-en.{part}.jsonl.gz" for part in ("train", "valid", "test")},
        kind="text",
        unit="line",
        language="en",
        description="27,661 everyday English sentences, each with whom to credit",
        licence="CC BY 2.0 FR",
    ),
    BundledCorpus(
        name="cmudict",
        files={part: f"cmudict.{part}.tsv.gz" for part in ("train", "valid", "test")},
        kind="pairs",
        unit="line",
        language="en",
        description="30,000 usual English words, letter by letter, with their American pronunciations",
        licence="BSD (2 clauses)",
    ),
    BundledCorpus(
        name="punctuation",
        files={part: f"punctuation.{part}.txt.gz" for part in ("train", "valid", "test")},
        kind="tagged",
        unit="paragraph",
        language="en",
        description="111,000 words of two novels in lower case, each with the mark that follows it",
        licence="public domain",
    ),
    BundledCorpus(
        name="sentence-polarity",
        files={part: f"sentence-polarity.{part}.tsv.gz" for part in ("train", "valid", "test")},
        kind="labelled",
        unit="line",
        language="en",
        description="10,662 sentences of film reviews, positive or negative (Pang & Lee 2005)",
        licence="CC BY 4.0",
    ),
    BundledCorpus(
        name="digits",
        files={"train": "digits.csv.gz"},
        kind="images",
        unit="file",
        language="",
        description="1,797 handwritten digits, 8×8 grey levels",
        licence="CC BY 4.0",
        classes=tuple("0123456789"),
    ),
    BundledCorpus(
        name="fashion",
        files={part: f"fashion.{part}-images.idx3.gz" for part in ("train", "test")},
        kind="images",
        unit="file",
        language="",
        description="7,000 pictures of clothes from Fashion-MNIST, 28×28 grey levels, ten classes alike in number",
        licence="MIT",
        classes=(
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ),
    ),
)


def bundled() -> list[BundledCorpus]:
    """All corpora of the package."""
    return list(_CORPORA)


def find(name: str) -> BundledCorpus:
    """The corpus of this name."""
    for corpus in _CORPORA:
        if corpus.name == name:
            return corpus
    raise DataError(f"no bundled corpus is named {name!r}{did_you_mean(name, _names())}")


def natural_unit(paths: Sequence[Path]) -> Literal["line", "paragraph", "file"]:
    """The unit that suits the files: that of a bundled corpus, or lines."""
    for corpus in _CORPORA:
        if all(path in [corpus.path(part) for part in corpus.files] for path in paths):
            return corpus.unit
    return "line"


def resolve(spec: str) -> Path:
    """A file from what a user wrote: a path, or the name of a bundled corpus, with a part if not its first.

    `mine.txt`, `shakespeare`, `tatoeba-en-zh:valid`. A file of the user's wins over a corpus of the same name.
    """
    path = Path(spec)
    if path.is_file():
        return path
    name, _, part = spec.partition(":")
    if name in _names():
        return find(name).path(part)
    if path.is_dir():
        raise DataError(f"{spec} is a folder; name a file in it")
    raise DataError(f"{spec}: no such file, and no bundled corpus of that name{did_you_mean(name, _names())}")


def _names() -> list[str]:
    return [corpus.name for corpus in _CORPORA]


def _folder() -> Path:
    # Always a real folder: installers unpack wheels, and seqloom does not support being run from a zip archive.
    return Path(str(resources.files("seqloom") / "data" / "bundled"))
