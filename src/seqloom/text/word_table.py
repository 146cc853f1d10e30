"""A compiled table from words to ids, over the UTF-8 bytes of text.

Text is cut exactly where `str.split` cuts it. A newline, white space like the rest, also gives `<eos>`: whoever has
many texts joins them with newlines, and finds where each one ends.

The table is a hash table with open addressing: one array of slots, a power of two of them, each free or one word's.

    slot     | head | tail | entry | seen |        four 64-bit numbers, side by side in memory
    head     bytes 1 to 8 of the word, as one number
    tail     bytes 9 to 16; in a longer word, a hash of all bytes after the 8th
    entry    id · 2^32 + length in bytes; 0 says that the slot is free (no word has id 0: that is a special symbol's)
    seen     how often the word was seen

A word of up to 16 bytes stands in its slot as a whole: head, tail and length decide whether it is the same. That is
nearly every word of a text, and it takes one access to memory. Of a longer word they only say that it may be the same;
then its bytes are compared with those in the pool, where all words stand one after the other.

The search begins at a slot that a hash of head and tail gives, and goes on to the next slot, around the end, until it
meets the word or a free slot: there the word belongs. At most half of the slots are ever taken, so that searches are
short: when half are, the words are put into a table of twice the size.

Its numbers have no sign: an index that could be below 0 is checked for that wherever it is used, which takes a quarter
of the time of looking words up.

Importing this module imports numba, which takes a while: import it where there is much text to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.compiling import compiled
from seqloom.text.special import EOS, SPECIALS, UNK

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.uint64]
Ids = NDArray[np.int32]

FIRST = len(SPECIALS)  # the id of the first word
END = ord("\n")

WORD, SPACE, NEWLINE, LEAD = range(4)
KINDS = np.full(256, WORD, np.uint8)
"""Of every byte: part of a word, white space, or perhaps the lead of white space that takes several bytes."""
KINDS[[*b"\t\v\f\r\x1c\x1d\x1e\x1f "]] = SPACE
KINDS[END] = NEWLINE
KINDS[[0xC2, 0xE1, 0xE2, 0xE3]] = LEAD

HEAD, TAIL, ENTRY, SEEN = range(4)  # the columns of a slot
SIZE = np.uint64(0xFFFFFFFF)  # the bits of an entry that are the word's length
WHOLE = 16  # bytes: words up to this length stand in their slot as a whole
MIX = np.uint64(0x1E3779B97F4A7C15)  # odd, of random bits: a product with it spreads every bit over the upper half
ONE = np.uint64(1)  # a plain 1 has a sign, and so would the sum with it


class WordTable:
    """Words and their ids, which begin after those of the special symbols.

    No two words are ever taken for the same, whatever their hashes.
    """

    def __init__(self) -> None:
        self.size = FIRST
        self._slots = np.zeros((1 << 12, 4), np.uint64)
        self._starts = np.zeros(1, np.uint64)  # where each word begins in the pool
        self._pool = np.empty(0, np.uint8)  # the bytes of all words, each followed by a newline

    @classmethod
    def of(cls, words: Sequence[str]) -> WordTable:
        """The table of some words, no two the same; the first has the first id."""
        table = cls()
        # What `str.split` would cut is a word of no text: it keeps its id, under a name that is not UTF-8.
        lines = [
            word.encode("utf-8", "surrogatepass") if word.split() == [word] else b"\xff%d" % place
            for place, word in enumerate(words)
        ]
        if lines:
            table.learn(b"\n".join([*lines, b""]))
        return table

    def learn(self, text: bytes) -> Ids:
        """The ids of the words of a text that ends in a newline; new words get the next ids."""
        words = self.size - FIRST
        used = int(self._starts[words])
        # Room for all that the text can bring. Memory that is not written to costs nothing.
        self._starts = _extended(self._starts, words + 1, len(text) // 2)
        self._pool = _extended(self._pool, used, len(text))
        return self._number(text, limit=np.iinfo(np.int32).max)

    def look_up(self, text: bytes) -> Ids:
        """The ids of the words of a text that ends in a newline; words that the table does not know are `<unk>`."""
        return self._number(text, limit=None).copy()  # the copy is as long as it has to be

    def _number(self, text: bytes, limit: int | None) -> Ids:
        if not text.endswith(b"\n"):
            raise ValueError("the text must end in a newline")
        letters = np.frombuffer(text, np.uint8)
        ids = np.empty(len(text), np.int32)
        at = written = 0
        while True:
            at, written, self.size = number_words(
                letters, at, ids, written, self._slots, self._starts, self._pool, self.size, limit
            )
            if at == len(text):
                return ids[:written]
            self._slots = _doubled(self._slots)  # it stopped because half of them are taken

    @property
    def arrays(self) -> tuple[Numbers, Numbers, Bytes, int]:
        """What `number_words` looks words up in: for compiled loops that do more with them than number them."""
        return self._slots, self._starts, self._pool, self.size

    def words(self) -> list[str]:
        """All words, by id. Raises UnicodeDecodeError when what was learnt is not UTF-8."""
        used = self._starts[self.size - FIRST]
        return self._pool[:used].tobytes().decode().split("\n")[:-1]

    def seen(self) -> NDArray[np.int64]:
        """How often each word was seen, by id."""
        slots = self._slots[self._slots[:, ENTRY] != 0]
        seen = np.empty(len(slots), np.int64)
        seen[(slots[:, ENTRY] >> 32) - FIRST] = slots[:, SEEN]
        return seen


def _extended(array: NDArray[Any], used: int, more: int) -> NDArray[Any]:
    """The used part of an array with room for more."""
    if used + more <= len(array):
        return array
    extended = np.empty(max(used + more, 2 * used), array.dtype)
    extended[:used] = array[:used]
    return extended


@compiled
def number_words(
    text: Bytes | bytes,
    at: int,
    ids: Ids,
    written: int,
    slots: Numbers,
    starts: Numbers,
    pool: Bytes,
    size: int,
    limit: int | None,
) -> tuple[int, int, int]:
    """Write the ids of a text, from a place in it to its end, or until half the slots are taken.

    New words are put into the table as long as it has fewer than `limit` ids, and are `<unk>` from then on. Without a
    limit they are only looked up: nothing but the ids is written, and the text may end in a word. Returns how far it
    came in the text and in the ids, and how many ids the table has. (One long function: handing arrays on for every
    word would cost as much as all the rest.)
    """
    place, end, mask = np.uint64(at), np.uint64(len(text)), np.uint64(len(slots) - 1)
    while place < end and 2 * size < len(slots):
        kind = KINDS[text[place]]
        if kind == NEWLINE:
            ids[written] = EOS
            written += 1
        if kind != WORD:
            width = _white(text, place) if kind == LEAD else 1
            if width:
                place += np.uint64(width)
                continue

        # Read the word to its end, and fill head and tail.
        begin = place
        head = tail = np.uint64(0)
        while place < end:
            byte = text[place]
            kind = KINDS[byte]
            if kind != WORD and (kind != LEAD or _white(text, place)):
                break
            if place - begin < 8:
                head = head << 8 | byte
            elif place - begin < WHOLE:
                tail = tail << 8 | byte
            else:
                tail = (tail ^ tail >> 32) * MIX + byte
            place += ONE
        length = place - begin

        # Find its slot, or the free one where it belongs. There is one, for half of them are free.
        slot = _place(head, tail, mask)
        while True:
            entry = slots[slot, ENTRY]
            if entry == 0:
                break
            if slots[slot, HEAD] == head and slots[slot, TAIL] == tail and entry & SIZE == length:
                same = length if length <= WHOLE else np.uint64(0)  # bytes known to be the same
                start = starts[(entry >> 32) - np.uint64(FIRST)]
                while same < length and pool[start + same] == text[begin + same]:
                    same += ONE
                if same == length:
                    break
            slot = (slot + ONE) & mask

        id = entry >> 32  # 0 of a free slot, which is <unk>: so it stays unless the word is now put there
        if limit is not None:
            if entry == 0 and size < limit:
                id = np.uint64(size)
                start = starts[id - np.uint64(FIRST)]
                for offset in range(length):
                    pool[start + offset] = text[begin + offset]
                pool[start + length] = END
                starts[id - np.uint64(FIRST) + ONE] = start + length + ONE
                slots[slot, HEAD] = head
                slots[slot, TAIL] = tail
                slots[slot, ENTRY] = id << 32 | length
                size += 1
            if id != UNK:
                slots[slot, SEEN] += ONE
        ids[written] = id
        written += 1
    return int(place), written, size


@compiled
def _white(text: Bytes | bytes, at: np.uint64) -> int:
    """How many bytes the white space beyond ASCII takes that stands at a place; 0 where there is none."""
    first, second, next = text[at], text[at + ONE], at + ONE + ONE
    if first == 0xC2:
        return 2 if second == 0x85 or second == 0xA0 else 0
    if first == 0xE1:  # U+1680
        return 3 if second == 0x9A and text[next] == 0x80 else 0
    if first == 0xE3:  # U+3000
        return 3 if second == 0x80 and text[next] == 0x80 else 0
    if second == 0x81:  # U+205F
        return 3 if text[next] == 0x9F else 0
    if second != 0x80:
        return 0
    third = text[next]  # U+2000 to U+200A, U+2028, U+2029, U+202F
    return 3 if 0x80 <= third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF else 0


@compiled
def _place(head: np.uint64, tail: np.uint64, mask: np.uint64) -> np.uint64:
    """The slot where the search for a word begins: the lower bits of the upper half, which depend on all bits."""
    return ((head * MIX ^ tail) * MIX >> 32) & mask


@compiled
def _doubled(slots: Numbers) -> Numbers:
    """The same words in a table of twice the size."""
    doubled = np.zeros((2 * len(slots), 4), np.uint64)
    mask = np.uint64(len(doubled) - 1)
    for old in range(len(slots)):
        if slots[old, ENTRY]:
            slot = _place(slots[old, HEAD], slots[old, TAIL], mask)
            while doubled[slot, ENTRY]:
                slot = (slot + ONE) & mask
            for column in range(4):
                doubled[slot, column] = slots[old, column]
    return doubled
