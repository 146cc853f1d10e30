"""python -m benchmarks.prepare NAME DIR OUT

Files as they are published (in DIR, gzipped or not), made into those that the benchmarks read (in OUT).

dialogsum: dialogsum_train.csv, _validation and _test become train.jsonl, ..., with a source and its targets: each
    dialogue of the test file stands there three times, with a summary each.
dailydialog: dialogues_train.txt, _validation and _test become train.txt, valid.txt and test.txt, one turn a line.
wikitext2: wiki.train.tokens, ... become train.txt, valid.txt and test.txt, words between spaces.

Dialogues of a training file that also stand in the other two, or stood in it before, are left out.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from seqloom.errors import UserError
from seqloom.files import write_text
from seqloom.text.reading import read_lines

Dialogue = tuple[str, list[str]]
"""What was said, and what belongs to it: summaries or turns."""
TURN_END = "__eou__"


def main() -> None:
    """Write the files of one data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=SETS)
    parser.add_argument("source", type=Path, metavar="DIR")
    parser.add_argument("target", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    arguments.target.mkdir(parents=True, exist_ok=True)
    try:
        SETS[arguments.name](arguments.source, arguments.target)
    except UserError as error:
        sys.exit(f"error: {error}")


def dialogsum(source: Path, target: Path) -> None:
    """Dialogues with their summaries."""
    parts = ("train", "validation", "test")
    tables = [list(_summaries(lines(source, f"dialogsum_{part}.csv"))) for part in parts]
    for part, dialogues in zip(parts, _apart(tables), strict=True):
        records = (
            {"source": said, "target": summaries if part == "test" else summaries[0]} for said, summaries in dialogues
        )
        write_text(target / f"{part}.jsonl", "".join(f"{json.dumps(record)}\n" for record in records))


def _summaries(rows: Iterator[str]) -> Iterator[Dialogue]:
    """The dialogues of a table, each once, on one line."""
    found: dict[str, list[str]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(rows))):
        found.setdefault(_folded(row["dialogue"]), []).append(_folded(row["summary"]))
    yield from found.items()


def dailydialog(source: Path, target: Path) -> None:
    """Turns of dialogues."""
    parts = {"train": "train", "validation": "valid", "test": "test"}
    tables = [
        [(line, [_folded(turn) for turn in line.split(TURN_END)]) for line in lines(source, f"dialogues_{part}.txt")]
        for part in parts
    ]
    for part, dialogues in zip(parts.values(), _apart(tables), strict=True):
        turns = (f"{turn}\n" for _, several in dialogues for turn in several if turn)
        write_text(target / f"{part}.txt", "".join(turns))


def wikitext2(source: Path, target: Path) -> None:
    """Nothing is left out."""
    for part in ("train", "valid", "test"):
        write_text(target / f"{part}.txt", "".join(f"{line}\n" for line in lines(source, f"wiki.{part}.tokens")))


def _apart(tables: Sequence[list[Dialogue]]) -> list[list[Dialogue]]:
    """Training dialogues that are new, and all of the others."""
    train, *others = tables
    seen = {_folded(said) for dialogues in others for said, _ in dialogues}
    new = []
    for said, belonging in train:
        if (words := _folded(said)) not in seen:
            seen.add(words)
            new.append((said, belonging))
    print(f"{len(new):,} of {len(train):,} dialogues to learn from", file=sys.stderr)
    return [new, *others]


def _folded(text: str) -> str:
    return " ".join(text.split())


def lines(folder: Path, name: str) -> Iterator[str]:
    """The lines of a file that may be gzipped."""
    for file in (folder / name, folder / f"{name}.gz"):
        if file.is_file():
            return read_lines(file)
    raise UserError(f"{folder} has no {name}, gzipped or not")


SETS: dict[str, Callable[[Path, Path], None]] = {
    "dialogsum": dialogsum,
    "dailydialog": dailydialog,
    "wikitext2": wikitext2,
}


if __name__ == "__main__":
    main()
