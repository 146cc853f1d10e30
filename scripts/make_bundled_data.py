"""Cut the bundled corpora out of their sources and write them into the package, the same bytes every time.

    python scripts/make_bundled_data.py SOURCE [TARGET]

SOURCE is a folder with one subfolder per corpus, as the originals name their files:

    time_machine/timemachine.txt              tang_poems/tang.jsonl.gz       digits8x8/digits.csv.gz
    tiny_shakespeare/input.txt.gz             tatoeba_cmn_eng/cmn.txt.gz     fashion_mnist/*-ubyte.gz

Only the standard library is used, so that the script outlives the package's dependencies.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import struct
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src/seqloom/data/bundled"
EVERY_NTH_POEM = 10
CLASSES = 10
SIDE = 28


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path, nargs="?", default=TARGET)
    arguments = parser.parse_args()
    source, target = arguments.source, arguments.target
    target.mkdir(parents=True, exist_ok=True)

    write(target / "time-machine.txt.gz", (source / "time_machine/timemachine.txt").read_bytes())
    write(target / "shakespeare.txt.gz", unpacked(source / "tiny_shakespeare/input.txt.gz"))
    write(target / "tang-poems.jsonl.gz", poems(source / "tang_poems/tang.jsonl.gz"))
    for part, pairs in split_pairs(source / "tatoeba_cmn_eng/cmn.txt.gz").items():
        write(target / f"tatoeba-en-zh.{part}.tsv.gz", pairs)
    write(target / "digits.csv.gz", unpacked(source / "digits8x8/digits.csv.gz"))
    for part, prefix, per_class in (("train", "train", 600), ("test", "t10k", 100)):
        images, labels = balanced(source / "fashion_mnist", prefix, per_class)
        write(target / f"fashion.{part}-images.idx3.gz", images)
        write(target / f"fashion.{part}-labels.idx1.gz", labels)


def poems(path: Path) -> bytes:
    """Every nth poem that has any text, its lines joined into one `text`."""
    records = []
    for line in unpacked(path).decode().splitlines():
        poem = json.loads(line)
        text = "".join(poem["paragraphs"])
        if text:
            records.append({"text": text, "title": poem["title"], "author": poem["author"]})
    kept = records[::EVERY_NTH_POEM]
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in kept).encode()


def split_pairs(path: Path) -> dict[str, bytes]:
    """All pairs, in their order, parted by a hash of the English sentence: no sentence stands in two parts.

    Of every hundred sentences about four go to `valid` and four to `test`.
    """
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for line in unpacked(path).decode().splitlines():
        english = line.split("\t")[0]
        number = int.from_bytes(hashlib.sha256(english.encode()).digest()[:8]) % 100
        part = "valid" if number < 4 else "test" if number < 8 else "train"
        parts[part].append(line + "\n")
    return {part: "".join(lines).encode() for part, lines in parts.items()}


def balanced(folder: Path, prefix: str, per_class: int) -> tuple[bytes, bytes]:
    """The first `per_class` images of each class, in the order of the original, as two idx files."""
    labels = unpacked(folder / f"{prefix}-labels-idx1-ubyte.gz")[8:]
    images = unpacked(folder / f"{prefix}-images-idx3-ubyte.gz")[16:]
    taken = [0] * CLASSES
    kept = []
    for index, label in enumerate(labels):
        if taken[label] < per_class:
            taken[label] += 1
            kept.append(index)
    size = SIDE * SIDE
    pixels = b"".join(images[index * size : (index + 1) * size] for index in kept)
    image_header = struct.pack(">4B3I", 0, 0, 8, 3, len(kept), SIDE, SIDE)
    label_header = struct.pack(">4BI", 0, 0, 8, 1, len(kept))
    return image_header + pixels, label_header + bytes(labels[index] for index in kept)


def unpacked(path: Path) -> bytes:
    with gzip.open(path) as file:
        return file.read()


def write(path: Path, content: bytes) -> None:
    """Gzip without a name or a time in the header: the same content gives the same file."""
    path.write_bytes(gzip.compress(content, compresslevel=9, mtime=0))
    print(f"{path.name:36} {path.stat().st_size:>9,} bytes, {len(content):>10,} unpacked")


if __name__ == "__main__":
    main()
