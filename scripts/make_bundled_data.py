"""Cut the bundled corpora out of their sources and write them into the package, the same bytes every time.

    python scripts/make_bundled_data.py SOURCE [TARGET]

SOURCE is a folder with one subfolder per corpus, as the originals name their files:

    time_machine/timemachine.txt              tang_poems/tang.jsonl.gz       digits8x8/digits.csv.gz
    tiny_shakespeare/input.txt.gz             tatoeba_cmn_eng/cmn.txt.gz     fashion_mnist/*-ubyte.gz
    english_novels/*.txt.gz                   cmudict/cmudict.gz             sentence_polarity/rt-polarity.*.gz
    botocore/*.whl                            chitchat/*.whl                 names/*.txt
    blimp/blimp.jsonl.gz

The words of the novels are counted, to know which are usual, and two novels are taken. The wheels are those of the
Python packages that NOTICES.md lists, as pip downloads them; they are read, never run. Only the standard library is
used, so that the script outlives the package's dependencies.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import html
import json
import re
import struct
import zipfile
from collections import Counter
from collections.abc import Container, Iterable
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "src/seqloom/data/bundled"
EVERY_NTH_POEM = 10
LONGEST_TURN = 24
FEWEST_TURNS = 3
USUAL_IN_BOOKS = 10
USUAL_IN_CHATS = 10
SHORTENED = (
    "don't didn't doesn't can't won't isn't wasn't haven't hasn't aren't couldn't wouldn't shouldn't that's what's "
    "you're they're how's he's she's you've there's let's I'm I've"
)
SPELLED = {  # as people type, and as they would write
    **{word.replace("'", "").lower(): word for word in SHORTENED.split()},
    **{"i": "I", "u": "you", "ur": "your", "r": "are", "ya": "you", "yea": "yeah", "ok": "okay", "cuz": "because"},
    **{"byu": "BYU", "wanna": "want to", "gonna": "going to", "gotta": "got to", "lol": "haha", "lmao": "haha"},
}
ASKS = r"(so |and |but )?(what|how|where|who|why|when|which|do|does|did|are|is|can|have|would)('s|'re)? (?!a |cool)"
DESCRIBED = 60  # words of a description, at most
SUMMARISED = (4, 24)  # words of a summary
NO_SUMMARY = "API works|[Dd]eprecat|i\\.e\\.|e\\.g\\."
USUAL_WORDS = 30_000
CLASSES = 10
SIDE = 28
DIGIT_SIDE = 8
INK = 16  # the darkest grey level of the digits
PUNCTUATED = ("Doyle_Hound_1902", "Stevenson_Treasure_1883")
MARKS = {",": "COMMA", ".": "PERIOD", ";": "SEMICOLON", ":": "COLON", "?": "QUESTION", "!": "EXCLAMATION"}
LONGEST_PARAGRAPH = 200
EVERY_NTH_PAIR = 50


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
    (wheel,) = (source / "botocore").glob("*.whl")
    for part, records in operations(wheel).items():
        write(target / f"operations.{part}.jsonl.gz", records)
    (wheel,) = (source / "chitchat").glob("*.whl")
    for part, records in conversations(wheel, source / "english_novels", source / "names").items():
        write(target / f"chitchat.{part}.jsonl.gz", records)
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
    write(target / "blimp.test.jsonl.gz", minimal_pairs(source / "blimp/blimp.jsonl.gz"))
    pictures = {"digits.train": digits(source / "digits8x8/digits.csv.gz")}
    for part, prefix, per_class in (("train", "train", 600), ("test", "t10k", 100)):
        pictures[f"fashion.{part}"] = balanced(source / "fashion_mnist", prefix, per_class)
    for name, (images, labels) in pictures.items():
        write(target / f"{name}-images.idx3.gz", images)
        write(target / f"{name}-labels.idx1.gz", labels)


# ---------------------------------------------------------------------------------------------------------- summaries


def operations(wheel: Path) -> dict[str, bytes]:
    """What the operations of web services take, give and are said to do, and the sentence that says it in short; parted
    by a hash of the service. A sentence that was there before, but for case and punctuation, is left out."""
    parts: dict[str, list[dict[str, object]]] = {"train": [], "valid": [], "test": []}
    seen: set[str] = set()
    with zipfile.ZipFile(wheel) as archive:
        for file in sorted(archive.namelist()):
            if not file.endswith("/service-2.json.gz"):
                continue
            service = json.loads(gzip.decompress(archive.read(file)))
            name = file.split("/")[2]
            for operation in service["operations"].values():
                source, target = in_short(operation, service["shapes"])
                if target and letters(target) not in seen:
                    seen.add(letters(target))
                    parts[part_of(name, 5)].append({"source": source, "target": target, "service": name})
    return {part: json_lines(in_order_of_a_hash(records)) for part, records in parts.items()}


def in_short(operation: dict[str, Any], shapes: dict[str, Any]) -> tuple[str, str]:
    """The description of an operation and its first sentence; both empty where that is no summary."""
    first, *rest = re.split(r"(?<=[.!?])\s+(?=[A-Z])", without_tags(operation.get("documentation", "")))
    fits = SUMMARISED[0] <= len(first.split()) <= SUMMARISED[1] and is_prose(first) and not re.search(NO_SUMMARY, first)
    if operation.get("deprecated") or not fits:
        return "", ""
    words: list[str] = []
    for sentence in rest:
        if not is_prose(sentence) or len(words) + len(sentence.split()) > DESCRIBED:
            break
        words += sentence.split()
    said = spelled_out(operation["name"])
    for key, verb, most in (("input", "takes", 8), ("output", "gives", 6)):
        members = list(shapes.get(operation.get(key, {}).get("shape"), {}).get("members", {}))[:most]
        if members:
            said += f"; {verb} {', '.join(map(spelled_out, members))}"
    return " ".join([f"{said}.", *words]), first


def without_tags(text: str) -> str:
    """The sentences of a page, without its lists, tables, notes and headings."""
    text = re.sub(r"<(note|important|ul|ol|table|dl|pre|h\d|fullname)\b.*?</\1>", " ", text, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]+>", " ", text))
    return re.sub(r"\s+(?=[.,;:)])", "", " ".join(text.split()))


def is_prose(sentence: str) -> bool:
    """Whether a sentence can be read aloud: it ends as one, and has no formulas or addresses in it."""
    return sentence.endswith(".") and not re.search(r"[<>{}=|@#]|://", sentence)


def spelled_out(name: str) -> str:
    """`ListTagsForResource` as words."""
    return " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)).lower() or name


# ------------------------------------------------------------------------------------------------------ conversations


def conversations(wheel: Path, novels: Path, names: Path) -> dict[str, bytes]:
    """Stretches of chats in which every turn is short and of usual words, parted by a hash of the chat.

    A word is usual that the novels have often in small letters, or the chats often and the list of given names not: so
    people, places and most slips are left out. No turn with the reply to it that stands in `train` stands in `valid` or
    `test` too.
    """
    with zipfile.ZipFile(wheel) as archive:
        chats = json.loads(archive.read("chitchat_dataset/dataset.json"))
    said = {name: [tidied(turn) for turn in chat["messages"]] for name, chat in chats.items()}
    in_books: Counter[str] = Counter()
    for path in sorted(novels.glob("*.txt.gz")):
        in_books.update(re.findall("[a-z]+(?:'[a-z]+)*", unpacked(path).decode().replace("’", "'")))
    in_chats = Counter(word for turns in said.values() for turn in turns for word in words_of(turn))
    given = {name.lower() for file in sorted(names.glob("*male.txt")) for name in file.read_text().split()}
    usual = {word for word, count in in_books.items() if count >= USUAL_IN_BOOKS}
    usual |= {word for word, count in in_chats.items() if count >= USUAL_IN_CHATS and word not in given}

    def fits(turn: str) -> bool:
        short = 0 < len(turn.split()) <= LONGEST_TURN
        return short and usual.issuperset(words_of(turn)) and not re.search(r"\d{3}|[@#/\\_*<>=|]", turn)

    parts: dict[str, list[list[str]]] = {"train": [], "valid": [], "test": []}
    for name, turns in said.items():
        parts[part_of(name, 5)] += [list(stretch) for usable, stretch in groupby(turns, fits) if usable]
    known = {pair for turns in parts["train"] for pair in pairwise(map(letters, turns))}
    for part in ("valid", "test"):
        parts[part] = [stretch for turns in parts[part] for stretch in stretches(turns, known)]
    records = {
        part: [{"turns": turns} for turns in several if len(turns) >= FEWEST_TURNS] for part, several in parts.items()
    }
    return {part: json_lines(in_order_of_a_hash(several)) for part, several in records.items()}


def stretches(turns: list[str], known: Container[tuple[str, ...]]) -> list[list[str]]:
    """The pieces of a conversation, cut between a turn and its reply where the two are known together."""
    pieces = [turns[:1]]
    for pair in pairwise(turns):
        if tuple(map(letters, pair)) in known:
            pieces.append([])
        pieces[-1].append(pair[1])
    return pieces


def tidied(messages: list[dict[str, str]]) -> str:
    """What one person wrote before the other did, as sentences."""
    sentences = (sentence(message["text"]) for message in messages)
    return " ".join(filter(None, sentences))


def sentence(text: str) -> str:
    """A message with a capital at its start, a mark at its end, usual spelling, and no faces."""
    text = re.sub(r"[:;]-?[()DPp]+|<3|\^_*\^", "", text.replace("’", "'")).encode("ascii", "ignore").decode()
    text = re.sub(r"([.!?])( ?[.!?])+", r"\1", " ".join(text.split()))
    text = re.sub(r"\b(?:ha){2,}h?\b", "haha", text, flags=re.IGNORECASE)
    text = re.sub(r"[A-Za-z]+(?:'[a-z]+)?", lambda word: SPELLED.get(word[0].lower(), word[0]), text)
    text = re.sub(r"\bi(?='(m|ve|d|ll)\b)", "I", text).strip(" ,:;-")
    if text and not re.search(r"[.!?][\"')]?$", text):
        text += "?" if re.match(ASKS, text, re.IGNORECASE) else "."
    return text[:1].upper() + text[1:]


def words_of(text: str) -> list[str]:
    return re.findall("[a-z]+(?:'[a-z]+)*", text.lower())


def json_lines(records: Iterable[dict[str, object]]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def in_order_of_a_hash(records: list[dict[str, object]]) -> list[dict[str, object]]:
    """The records in an order that tells nothing of where they come from."""
    return sorted(records, key=lambda record: hashlib.sha256(json.dumps(record).encode()).digest())


# ------------------------------------------------------------------------------------------------------------ the rest


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


def minimal_pairs(path: Path) -> bytes:
    """Every nth pair of a good and a bad sentence: as many of each of the 67 paradigms, which are of one size."""
    records = [json.loads(line) for line in unpacked(path).decode().splitlines()][::EVERY_NTH_PAIR]
    return json_lines({key: record[key] for key in ("phenomenon", "paradigm", "good", "bad")} for record in records)


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
