"""Examples with labels: sentences with a tag for each word, and texts with one label each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from seqloom.data.corpora import resolve
from seqloom.errors import DataError
from seqloom.text.reading import is_jsonl, read_columns, read_lines, read_records
from seqloom.text.words import WordTokenizer

COMMENT = "-DOCSTART-"  # a line of the CoNLL formats that is no word
FORMATS = "label, tab, text in a .tsv file, records in a .jsonl file, or a folder with a file of texts for each label"


class TaggedSentence(NamedTuple):
    """Words, and the tag of each."""

    words: list[str]
    tags: list[str]

    @property
    def text(self) -> str:
        """The sentence, its words apart by spaces."""
        return " ".join(self.words)

    @property
    def labels(self) -> list[str]:
        """What is to be predicted."""
        return self.tags

    def split(self, tokenizer: WordTokenizer) -> list[str]:
        """The words that a model reads: they are split already."""
        return self.words


class LabelledText(NamedTuple):
    """A text and its label."""

    text: str
    label: str

    @property
    def labels(self) -> list[str]:
        """What is to be predicted."""
        return [self.label]

    def split(self, tokenizer: WordTokenizer) -> list[str]:
        """The words that a model reads; of a text without words, one that no vocabulary has."""
        return tokenizer.pieces(self.text) or [""]


Example = TypeVar("Example", TaggedSentence, LabelledText)


def read_tagged(names: str | Sequence[str], word_column: int = 0, tag_column: int = -1) -> list[TaggedSentence]:
    """Sentences from files of columns, as those of the CoNLL tasks: a line for each word, blank ones between sentences.

    Columns stand apart by spaces or tabs; where there are tabs, by tabs alone.
    """
    sentences = []
    for path in map(resolve, [names] if isinstance(names, str) else names):
        found = [sentence for sentence in _sentences(path, word_column, tag_column) if sentence.words]
        if not found:
            raise DataError(f"{path}: there are no words with tags; a line is a word, spaces or a tab, its tag")
        sentences += found
    return sentences


def _sentences(path: Path, word_column: int, tag_column: int) -> Iterator[TaggedSentence]:
    sentence = TaggedSentence([], [])
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith(COMMENT):
            yield sentence
            sentence = TaggedSentence([], [])
            continue
        columns = line.strip("\r\n").split("\t") if "\t" in line else line.split()
        for name, column in (("data.word_column", word_column), ("data.tag_column", tag_column)):
            if not -len(columns) <= column < len(columns):
                raise DataError(f"{path}, line {number}: there is no column {column} among {len(columns)}; set {name}")
        if len(columns) < 2:
            raise DataError(f"{path}, line {number}: one column only; a line is a word and, in another column, its tag")
        word, tag = columns[word_column].strip(), columns[tag_column].strip()
        if not word or not tag:
            raise DataError(f"{path}, line {number}: the {'tag' if word else 'word'} is empty")
        sentence.words.append(word)
        sentence.tags.append(tag)
    yield sentence


def read_labelled(
    names: str | Sequence[str], label_field: str = "label", text_field: str = "text"
) -> list[LabelledText]:
    """Texts with labels from tables, records, or folders in which each file holds the texts of one label."""
    texts: list[LabelledText] = []
    for name in [names] if isinstance(names, str) else names:
        folder = Path(name)
        if folder.is_dir():
            found = [text for file in sorted(folder.iterdir()) if file.is_file() for text in _of_class(file)]
            if len({text.label for text in found}) < 2:
                raise DataError(f"{folder}: a folder of texts needs a file for each of two labels or more")
        elif is_jsonl(resolve(name)):
            found = list(_records(resolve(name), label_field, text_field))
        else:
            found = [LabelledText(text, label) for _, label, text in read_columns(resolve(name), "label", "text")]
        if not found:
            raise DataError(f"{name}: there are no texts with labels: {FORMATS}")
        texts += found
    return texts


def _of_class(path: Path) -> Iterator[LabelledText]:
    label = path.name.removesuffix(".gz").removesuffix(".txt")
    return (LabelledText(line.strip(), label) for line in read_lines(path) if line.strip())


def _records(path: Path, label_field: str, text_field: str) -> Iterator[LabelledText]:
    for record in read_records(path, label_field, text_field):
        text = record.joined(text_field, "data.text_field").strip()
        if not text:
            raise DataError(f"{record.where}: the value of {text_field!r} is blank; set data.text_field to another key")
        label = record.value(label_field, "data.label_field")
        if isinstance(label, str) and label:
            label = record.text(label_field)
        elif not isinstance(label, int | bool):
            raise DataError(
                f"{record.where}: the value of {label_field!r} is no label; set data.label_field to the right key"
            )
        yield LabelledText(text, str(label))


def hold_out(examples: list[Example], fraction: float) -> tuple[list[Example], list[Example]]:
    """(training part, validation part): about `fraction` of the examples, chosen by a hash of their words.

    So examples that are the same stand on one side, and files that are sorted by label lose some of each.
    """
    sides: tuple[list[Example], list[Example]] = ([], [])
    for example in examples:
        number = int.from_bytes(hashlib.blake2b(example.text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        sides[number < fraction * 2**64].append(example)
    if not all(sides):
        raise DataError(
            f"{len(examples):,} examples are too few to hold {fraction:.0%} of them out: name validation examples with "
            "data.valid, or give more"
        )
    return sides
