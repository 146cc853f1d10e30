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
Numbers = NDArray[np.int64]
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
WHOLE = 16  # bytes: words up to this length stand in their slot as a whole
MIX = 0x1E3779B97F4A7C15  # an odd number of random bits: a product with it spreads every bit over the upper half


class WordTable:
    """Words and their ids, which begin after those of the special symbols.

    No two words are ever taken for the same, whatever their hashes.
    """

    def __init__(self) -> None:
        self.size = FIRST
        self._slots = np.zeros((1 << 12, 4), np.int64)
        self._starts = np.zeros(1, np.int64)  # where each word begins in the pool
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
        return self._number(text, limit=self.size).copy()  # the copy is as long as it has to be

    def _number(self, text: bytes, limit: int) -> Ids:
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

    def seen(self) -> Numbers:
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
    text: Bytes,
    at: int,
    ids: Ids,
    written: int,
    slots: Numbers,
    starts: Numbers,
    pool: Bytes,
    size: int,
    limit: int,
) -> tuple[int, int, int]:
    """Write the ids of a text, from a place in it to its end, or until half the slots are taken.

    New words are put into the table as long as it has fewer than `limit` ids, and are `<unk>` from then on. Returns how
    far it came in the text and in the ids, and how many ids the table has. (One long function: handing arrays on for
    every word would cost as much as all the rest.)
    """
    while at < len(text) and 2 * size < len(slots):
        kind = KINDS[text[at]]
        if kind == NEWLINE:
            ids[written] = EOS
            written += 1
        if kind != WORD:
            width = _white(text, at) if kind == LEAD else 1
            if width:
                at += width
                continue

        # Read the word to its end, which the newline at the end of the text makes sure of, and fill head and tail.
        begin = at
        head = tail = 0
        while True:
            byte = text[at]
            kind = KINDS[byte]
            if kind != WORD and (kind != LEAD or _white(text, at)):
                break
            if at - begin < 8:
                head = head << 8 | byte
            elif at - begin < WHOLE:
                tail = tail << 8 | byte
            else:
                tail = (tail ^ tail >> 32) * MIX + byte
            at += 1
        length = at - begin

        # Find its slot, or the free one where it belongs. There is one, for half of them are free.
        slot = _place(head, tail, len(slots) - 1)
        while True:
            entry = slots[slot, ENTRY]
            if entry == 0:
                break
            if slots[slot, HEAD] == head and slots[slot, TAIL] == tail and entry & 0xFFFFFFFF == length:
                same = length if length <= WHOLE else 0  # bytes known to be the same
                start = starts[(entry >> 32) - FIRST]
                while same < length and pool[start + same] == text[begin + same]:
                    same += 1
                if same == length:
                    break
            slot = (slot + 1) & (len(slots) - 1)

        id = entry >> 32  # 0 of a free slot, which is <unk>: so it stays unless the word is now put there
        if entry == 0 and size < limit:
            id = size
            start = starts[id - FIRST]
            for offset in range(length):
                pool[start + offset] = text[begin + offset]
            pool[start + length] = END
            starts[id - FIRST + 1] = start + length + 1
            slots[slot, HEAD] = head
            slots[slot, TAIL] = tail
            slots[slot, ENTRY] = id << 32 | length
            size += 1
        if id != UNK:
            slots[slot, SEEN] += 1
        ids[written] = id
        written += 1
    return at, written, size


@compiled
def _white(text: Bytes, at: int) -> int:
    """How many bytes the white space beyond ASCII takes that stands at a place; 0 where there is none."""
    first, second = text[at], text[at + 1]
    if first == 0xC2:
        return 2 if second == 0x85 or second == 0xA0 else 0
    if first == 0xE1:  # U+1680
        return 3 if second == 0x9A and text[at + 2] == 0x80 else 0
    if first == 0xE3:  # U+3000
        return 3 if second == 0x80 and text[at + 2] == 0x80 else 0
    if second == 0x81:  # U+205F
        return 3 if text[at + 2] == 0x9F else 0
    if second != 0x80:
        return 0
    third = text[at + 2]  # U+2000 to U+200A, U+2028, U+2029, U+202F
    return 3 if 0x80 <= third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF else 0


@compiled
def _place(head: int, tail: int, mask: int) -> int:
    """The slot where the search for a word begins: the lower bits of the upper half, which depend on all bits."""
    return ((head * MIX ^ tail) * MIX >> 32) & mask


@compiled
def _doubled(slots: Numbers) -> Numbers:
    """The same words in a table of twice the size."""
    doubled = np.zeros((2 * len(slots), 4), np.int64)
    for old in range(len(slots)):
        if slots[old, ENTRY]:
            slot = _place(slots[old, HEAD], slots[old, TAIL], len(doubled) - 1)
            while doubled[slot, ENTRY]:
                slot = (slot + 1) & (len(doubled) - 1)
            for column in range(4):
                doubled[slot, column] = slots[old, column]
    return doubled
