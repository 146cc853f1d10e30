"""Cut the bundled corpora out of their sources and write them into the package, the same bytes every time.

    python scripts/make_bundled_data.py SOURCE [TARGET]

SOURCE is a folder with one subfolder per corpus, as the originals name their files:

    time_machine/timemachine.txt              tang_poems/tang.jsonl.gz       digits8x8/digits.csv.gz
    tiny_shakespeare/input.txt.gz             tatoeba_cmn_eng/cmn.txt.gz     fashion_mnist/*-ubyte.gz
    english_novels/*.txt.gz                   cmudict/cmudict.gz             sentence_polarity/rt-polarity.*.gz

The words of the novels are counted, to know which are usual, and two novels are taken. Only the standard library is
used, so that the script outlives the package's dependencies.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import struct
from collections import Counter
from collections.abc import Iterable
from itertools import groupby, pairwise
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src/seqloom/data/bundled"
EVERY_NTH_POEM = 10
SPEAKERS = 4
EVERY_NTH_SCENE = 16
LONGEST_TURN = 40
USUAL_WORDS = 30_000
CLASSES = 10
SIDE = 28
DIGIT_SIDE = 8
INK = 16  # the darkest grey level of the digits
PUNCTUATED = ("Doyle_Hound_1902", "Stevenson_Treasure_1883")
MARKS = {",": "COMMA", ".": "PERIOD", ";": "SEMICOLON", ":": "COLON", "?": "QUESTION", "!": "EXCLAMATION"}
LONGEST_PARAGRAPH = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path, nargs="?", default=TARGET)
    arguments = parser.parse_args()
    source, target = arguments.source, arguments.target
    target.mkdir(parents=True, exist_ok=True)

    novel = (source / "time_machine/timemachine.txt").read_bytes()
    plays = unpacked(source / "tiny_shakespeare/input.txt.gz")
    write(target / "time-machine.txt.gz", novel)
    write(target / "shakespeare.txt.gz", plays)
    for part, pairs in dialogue(plays.decode()).items():
        write(target / f"shakespeare-dialogue.{part}.tsv.gz", pairs)
    write(target / "tang-poems.jsonl.gz", poems(source / "tang_poems/tang.jsonl.gz"))
    translations = split_pairs(source / "tatoeba_cmn_eng/cmn.txt.gz")
    for part, pairs in translations.items():
        write(target / f"tatoeba-en-zh.{part}.tsv.gz", pairs)
        write(target / f"tatoeba-en.{part}.jsonl.gz", english_sentences(pairs))
    sentences = [line.split(b"\t")[0] for part in translations.values() for line in part.splitlines()]
    novels = (unpacked(path) for path in sorted((source / "english_novels").glob("*.txt.gz")))
    english = (text.decode() for texts in ([novel, plays], sentences, novels) for text in texts)
    for part, pairs in pronunciations(source / "cmudict/cmudict.gz", english).items():
        write(target / f"cmudict.{part}.tsv.gz", pairs)
    for part, texts in polarity(source / "sentence_polarity").items():
        write(target / f"sentence-polarity.{part}.tsv.gz", texts)
    for part, tagged in punctuation(source / "english_novels").items():
        write(target / f"punctuation.{part}.txt.gz", tagged)
    pictures = {"digits.train": digits(source / "digits8x8/digits.csv.gz")}
    for part, prefix, per_class in (("train", "train", 600), ("test", "t10k", 100)):
        pictures[f"fashion.{part}"] = balanced(source / "fashion_mnist", prefix, per_class)
    for name, (images, labels) in pictures.items():
        write(target / f"{name}-images.idx3.gz", images)
        write(target / f"{name}-labels.idx1.gz", labels)


def dialogue(plays: str) -> dict[str, bytes]:
    """Each turn with the reply to it; every so many scenes are `valid` and as many `test`.

    A pair with an overlong side is left out, and of `valid` and `test` a pair of which a side, but for case and
    punctuation, is a source of `train` ("Ay, my lord.").
    """
    parts: dict[str, list[tuple[str, str]]] = {"train": [], "valid": [], "test": []}
    for number, scene in enumerate(scenes(turns(plays))):
        place = number % EVERY_NTH_SCENE
        part = {EVERY_NTH_SCENE // 2 - 1: "valid", EVERY_NTH_SCENE - 1: "test"}.get(place, "train")
        parts[part] += [pair for pair in pairwise(scene) if all(0 < len(side.split()) <= LONGEST_TURN for side in pair)]
    seen = {letters(source) for source, _ in parts["train"]}
    for part in ("valid", "test"):
        parts[part] = [pair for pair in parts[part] if not seen & set(map(letters, pair))]
    return {part: "".join(f"{source}\t{reply}\n" for source, reply in pairs).encode() for part, pairs in parts.items()}


def turns(plays: str) -> list[tuple[str, str]]:
    """(speaker, words) of every turn, its lines joined; some turns of the original have lost their words."""
    blocks = [re.split(r":\s*", block, maxsplit=1) for block in re.split(r"\n\n+", plays.strip())]
    by_speaker = groupby(blocks, key=lambda block: block[0])
    return [(speaker, " ".join(" ".join(words for _, words in said).split())) for speaker, said in by_speaker]


def scenes(said: list[tuple[str, str]]) -> list[list[str]]:
    """The words of each scene. The original marks none: one begins where no recent speaker is among the next few."""
    speakers = [speaker for speaker, _ in said]
    found: list[list[str]] = []
    for number, (_, words) in enumerate(said):
        recent, coming = speakers[max(0, number - SPEAKERS) : number], speakers[number : number + SPEAKERS]
        if not set(recent) & set(coming):
            found.append([])
        found[-1].append(words)
    return found


def letters(text: str) -> str:
    return " ".join(re.findall("[a-z]+", text.lower()))


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
        parts[part_of(line.split("\t")[0])].append(line + "\n")
    return {part: "".join(lines).encode() for part, lines in parts.items()}


def english_sentences(pairs: bytes) -> bytes:
    """The English sentences of pairs, each once and with whom to credit, in the order of a hash.

    The pairs come sorted by length; here a sentence tells nothing of the one after it.
    """
    credits: dict[str, str] = {}
    for line in pairs.decode().splitlines():
        sentence, _, credit = line.split("\t")
        credits.setdefault(sentence, credit.removeprefix("CC-BY 2.0 (France) Attribution: ").split(" & ")[0])
    shuffled = sorted(credits, key=lambda sentence: hashlib.sha256(sentence.encode()).digest())
    records = [{"text": sentence, "credit": credits[sentence]} for sentence in shuffled]
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def pronunciations(path: Path, english: Iterable[str]) -> dict[str, bytes]:
    """The usual words, the most usual first: letters and phonemes with spaces between, a column per pronunciation.

    The more often a word stands in the `english` texts, the more usual it is. Parted by a hash of the word.
    """
    known: dict[str, list[str]] = {}
    for line in unpacked(path).decode().splitlines():
        word, _, phonemes = line.split(maxsplit=2)
        if re.fullmatch("[A-Z]+", word):  # with an apostrophe mostly possessives, which follow from the word without
            known.setdefault(word.lower(), []).append(phonemes)
    counts: Counter[str] = Counter()
    for text in english:
        counts.update(re.findall("[a-z]+(?:'[a-z]+)*", text.lower().replace("’", "'")))
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for word in sorted(known, key=lambda word: (-counts[word], word))[:USUAL_WORDS]:
        parts[part_of(word)].append("\t".join((" ".join(word), *known[word])) + "\n")
    return {part: "".join(lines).encode() for part, lines in parts.items()}


def polarity(folder: Path) -> dict[str, bytes]:
    """All sentences with their labels, by turns of either, parted by a hash of the sentence."""
    sides = {"positive": "rt-polarity.pos.gz", "negative": "rt-polarity.neg.gz"}
    lines = [[(label, line) for line in unpacked(folder / file).decode().splitlines()] for label, file in sides.items()]
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for label, line in (labelled for both in zip(*lines, strict=True) for labelled in both):
        parts[part_of(line.strip(), 10)].append(f"{label}\t{line.strip()}\n")
    return {part: "".join(texts).encode() for part, texts in parts.items()}


def punctuation(folder: Path) -> dict[str, bytes]:
    """The words of two novels in lower case, each with the mark that follows it; paragraphs parted by a hash."""
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for name in PUNCTUATED:
        for paragraph in unpacked(folder / f"{name}.txt.gz").decode().splitlines():
            found = re.findall(r"([A-Za-z]+(?:['’-][A-Za-z]+)*)([^A-Za-z]*)", paragraph)
            tagged = [
                (word.lower(), next((MARKS[sign] for sign in rest if sign in MARKS), "O")) for word, rest in found
            ]
            ends = tagged and tagged[-1][1] in ("PERIOD", "QUESTION", "EXCLAMATION")  # headings do not
            if ends and len(tagged) <= LONGEST_PARAGRAPH:
                parts[part_of(paragraph, 8)].append("".join(f"{word} {tag}\n" for word, tag in tagged) + "\n")
    return {part: "".join(paragraphs).encode() for part, paragraphs in parts.items()}


def part_of(text: str, percent: int = 4) -> str:
    """The part where a text belongs, wherever and however often it occurs; `valid` and `test` have so many in 100."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % 100
    return "valid" if number < percent else "test" if number < 2 * percent else "train"


def digits(path: Path) -> tuple[bytes, bytes]:
    """All digits as two idx files; grey levels from 0 (paper) to 16 (ink) become those from 0 to 255."""
    rows = [list(map(int, line.split(b","))) for line in unpacked(path).splitlines()]
    pixels = bytes(round(level * 255 / INK) for row in rows for level in row[:-1])
    return idx_files(pixels, bytes(row[-1] for row in rows), DIGIT_SIDE)


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
    return idx_files(pixels, bytes(labels[index] for index in kept), SIDE)


def idx_files(pixels: bytes, labels: bytes, side: int) -> tuple[bytes, bytes]:
    """Images and their labels in the format of MNIST."""
    image_header = struct.pack(">4B3I", 0, 0, 8, 3, len(labels), side, side)
    label_header = struct.pack(">4BI", 0, 0, 8, 1, len(labels))
    return image_header + pixels, label_header + labels


def unpacked(path: Path) -> bytes:
    with gzip.open(path) as file:
        return file.read()


def write(path: Path, content: bytes) -> None:
    """Gzip without a name or a time in the header: the same content gives the same file."""
    path.write_bytes(gzip.compress(content, compresslevel=9, mtime=0))
    print(f"{path.name:36} {path.stat().st_size:>9,} bytes, {len(content):>10,} unpacked")


if __name__ == "__main__":
    main()
