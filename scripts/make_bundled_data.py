"""Cut the bundled corpora out of their sources and write them into the package, the same bytes every time.

    python scripts/make_bundled_data.py SOURCE [TARGET]

SOURCE is a folder with one subfolder per corpus, as the originals name their files:

    time_machine/timemachine.txt              tang_poems/tang.jsonl.gz       digits8x8/digits.csv.gz
    tiny_shakespeare/input.txt.gz             tatoeba_cmn_eng/cmn.txt.gz     fashion_mnist/*-ubyte.gz
    english_novels/*.txt.gz                   cmudict/cmudict.gz             sentence_polarity/rt-polarity.*.gz
    documentation/*.whl                       chitchat/*.whl                 names/*.txt

The words of the novels are counted, to know which are usual, and two novels are taken. The wheels are those of the
Python packages that NOTICES.md lists, as pip downloads them; they are read, never run. Only the standard library is
used, so that the script outlives the package's dependencies.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import hashlib
import json
import re
import struct
import textwrap
import warnings
import zipfile
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from itertools import groupby, pairwise
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src/seqloom/data/bundled"
EVERY_NTH_POEM = 10
LONGEST_TURN = 24
FEWEST_TURNS = 3
USUAL_IN_BOOKS = 40
USUAL_IN_CHATS = 60
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
DESCRIBED = (12, 80)  # words of a description
SUMMARISED = (3, 16)  # words of a summary
NOT_THEIR_OWN = r"(^|/)(_?tests?|testing|_?vendor\w*|_?extern\w*|libs|_lib)(/|\.py)"
ALIKE = 6  # words in a row by which texts are compared
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
    for part, records in documentation(source / "documentation").items():
        write(target / f"docstrings.{part}.jsonl.gz", records)
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
    pictures = {"digits.train": digits(source / "digits8x8/digits.csv.gz")}
    for part, prefix, per_class in (("train", "train", 600), ("test", "t10k", 100)):
        pictures[f"fashion.{part}"] = balanced(source / "fashion_mnist", prefix, per_class)
    for name, (images, labels) in pictures.items():
        write(target / f"{name}-images.idx3.gz", images)
        write(target / f"{name}-labels.idx1.gz", labels)


# ---------------------------------------------------------------------------------------------------------- summaries


def documentation(folder: Path) -> dict[str, bytes]:
    """Descriptions and one-line summaries of what Python packages hold, parted by a hash of the file they stand in.

    A summary or a description that was there before, but for case and punctuation, is left out, and so is what stands
    in `valid` and `test` and shares half of its rows of six words with `train`: packages copy from each other.
    """
    parts: dict[str, list[dict[str, str]]] = {"train": [], "valid": [], "test": []}
    seen: set[str] = set()
    for wheel in sorted(folder.glob("*.whl")):
        for file, name, text in docstrings(wheel):
            summary, description = described(text)
            marks = {letters(summary), letters(description)}
            if summary and not marks & seen:
                seen |= marks
                source = f"{spelled_out(name)}: {description}"
                parts[part_of(file, 5)].append({"source": source, "target": summary, "file": file})
    known = {row for record in parts["train"] for row in rows_of_words(record)}
    for part in ("valid", "test"):
        parts[part] = [record for record in parts[part] if is_new(rows_of_words(record), known)]
    return {part: json_lines(in_order_of_a_hash(records)) for part, records in parts.items()}


def docstrings(wheel: Path) -> Iterator[tuple[str, str, str]]:
    """(file, name, docstring) of every class and function in a wheel, except for tests and what is of others."""
    with zipfile.ZipFile(wheel) as archive:
        for file in sorted(archive.namelist()):
            if not file.endswith(".py") or re.search(NOT_THEIR_OWN, file):
                continue
            with warnings.catch_warnings(action="ignore"):  # old escapes in strings
                tree = ast.parse(archive.read(file))
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    text = ast.get_docstring(node)
                    if text:
                        yield file, node.name, text


def described(text: str) -> tuple[str, str]:
    """The first line of a docstring and the sentences of prose after it; both empty where one of them is missing."""
    first, *rest = re.split(r"\n\s*\n", text)
    summary = plain(first)
    summary += "" if summary.endswith((".", "!", "?")) else "."
    sentences: list[str] = []
    for paragraph in rest:
        lines = paragraph.splitlines()
        headed = len(lines) > 1 and re.fullmatch(r"\s*[-=~^]{3,}\s*", lines[1])
        if headed or re.match(r"\s*(\.\.|:|>>>|[-*] |\w+:?$)", paragraph) or textwrap.dedent(paragraph) != paragraph:
            break
        sentences += re.split(r"(?<=[.!?])\s+(?=[A-Z])", plain(paragraph))
    words: list[str] = []
    for sentence in sentences:
        if not is_prose(sentence) or len(words) + len(sentence.split()) > DESCRIBED[1]:
            break
        words += sentence.split()
    fits = SUMMARISED[0] <= len(summary.split()) <= SUMMARISED[1] and len(words) >= DESCRIBED[0]
    one = is_prose(summary) and not re.search(r"[.!?]\s", summary)
    return (summary, " ".join(words)) if fits and one else ("", "")


def plain(text: str) -> str:
    """Text without the marks of reStructuredText."""
    text = re.sub(r"\[\w+\]_", "", text)
    text = re.sub(r":(?!math)[\w:]+:`~?(?:[^`<]*<)?([^`>]*)>?`", lambda role: role[1].split(".")[-1], text)
    text = re.sub(r"`([^`<]+?)\s*<[^`]*>`_+", r"\1", text)
    text = re.sub(r"``?([^`]*)``?_*", r"\1", text)
    text = re.sub(r"(?<!\w)\*{1,2}([^*\s][^*]*)\*{1,2}(?!\w)", r"\1", text)
    return re.sub(r"(\s*,)*\s+(?=[.,;])", "", " ".join(text.split()))


def is_prose(sentence: str) -> bool:
    """Whether a sentence can be read aloud: it ends as one, and has no formulas, addresses or marks in it."""
    return sentence.endswith((".", "!", "?")) and not re.search(r"[\\|<>={}^$`@#~]|:math|::|://|__|\*\*", sentence)


def spelled_out(name: str) -> str:
    """`pairwise_distances` and `PairwiseDistances` as words."""
    return " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)).lower() or name


def rows_of_words(record: dict[str, str]) -> set[tuple[str, ...]]:
    words = letters(f"{record['target']} {record['source'].partition(':')[2]}").split()
    return {tuple(words[first : first + ALIKE]) for first in range(len(words) - ALIKE + 1)}


def is_new(rows: set[tuple[str, ...]], known: set[tuple[str, ...]]) -> bool:
    return 2 * len(rows & known) < len(rows)


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
