"""What `lines` does, compiled: `Speller` writes lines as `lines.spell` does, `Parser` reads them as `lines.parse` does.

Words are bytes: all of them stand one after the other in one array, `text`, and word w is text[starts[w]:starts[w+1]].
The compiled loops take no strings apart, and know bytes by their numbers.

Importing this module waits for numba: import it for large files only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from seqloom.compiling import compiled
from seqloom.interop.arpa import lines as plain
from seqloom.interop.arpa.lines import DECIMALS, FixedPoint, Ngrams, Parsed

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]

LONGEST_NUMBER = 24  # bytes; more than a 64-bit integer with sign and decimal point takes
POWERS = 10.0 ** np.arange(23)  # the powers of ten that a float holds exactly
EXACT = 1 << 53  # below it, a float holds every integer
TAB, NEWLINE, RETURN, SPACE, PLUS, MINUS, POINT, ZERO, NINE, UPPER_E, LOWER_E = b"\t\n\r +-.09Ee"


class Speller:
    """`lines.spell` with its words."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self._text, self._starts = _joined(words)

    def __call__(self, ngrams: Ngrams, log_probs: FixedPoint, backoffs: FixedPoint) -> memoryview:
        order = ngrams.shape[1]
        letters = int((self._starts[ngrams + 1] - self._starts[ngrams]).sum())
        out = np.empty(letters + len(ngrams) * (2 * LONGEST_NUMBER + order + 2), np.uint8)
        return out[: _spell(ngrams, log_probs, backoffs, self._text, self._starts, out)].data


class Parser:
    """`lines.parse` with its words. A block that holds a line which is in any way unusual is left to it as a whole: so
    it alone decides what is an error, and how odd numbers are read.

    Words are found in a hash table with open addressing, of which at most half the slots are taken. A slot holds the
    place of a word among all, -1 if it is free.
    """

    def __init__(self, ids: Mapping[bytes, int]) -> None:
        self._ids = ids
        self._text, self._starts = _joined(list(ids))
        self._numbers = np.array(list(ids.values()), np.int32)
        self._slots = np.full(1 << (2 * len(ids)).bit_length(), -1, np.int32)
        _fill(self._text, self._starts, self._slots)

    def __call__(self, lines: Sequence[bytes], order: int) -> Parsed:
        ngrams, logs = np.empty((len(lines), order), np.int32), np.zeros((2, len(lines)))
        data = np.frombuffer(b"".join(lines) + b"\n", np.uint8)
        rows = _parse(data, self._text, self._starts, self._numbers, self._slots, ngrams, logs)
        if rows < 0:
            return plain.parse(self._ids, lines, order)
        return ngrams[:rows], logs[0, :rows], logs[1, :rows]


def _joined(words: Sequence[bytes]) -> tuple[Bytes, Numbers]:
    """All words in one array, and where each begins; and, last, where all end."""
    starts = np.zeros(len(words) + 1, np.int64)
    np.cumsum([len(word) for word in words], out=starts[1:])
    return np.frombuffer(b"".join(words), np.uint8), starts


# ------------------------------------------------------------------------------------------------------- to text


@compiled
def _spell(
    ngrams: Ngrams, log_probs: FixedPoint, backoffs: FixedPoint, text: Bytes, starts: Numbers, out: Bytes
) -> int:
    """Write all lines into `out`, which has room for them; return where they end."""
    end = 0
    for row in range(len(ngrams)):
        end = _put_number(log_probs[row], out, end)
        separator = TAB
        for word in ngrams[row]:
            out[end] = separator
            end += 1
            separator = SPACE
            for at in range(starts[word], starts[word + 1]):
                out[end] = text[at]
                end += 1
        if len(backoffs):
            out[end] = TAB
            end = _put_number(backoffs[row], out, end + 1)
        out[end] = NEWLINE
        end += 1
    return end


@compiled
def _put_number(units: int, out: Bytes, end: int) -> int:
    """Write a number given in units of 10^-DECIMALS, without zeros at its end; return where it ends."""
    if units < 0:
        out[end] = MINUS
        end += 1
        units = -units
    decimals = DECIMALS
    while decimals and units % 10 == 0:
        units //= 10
        decimals -= 1
    digits = decimals + 1  # one before the point, at least
    while units >= 10**digits:
        digits += 1
    last = end + digits + (decimals > 0)
    for at in range(last - 1, end - 1, -1):
        if decimals and at == last - decimals - 1:
            out[at] = POINT
        else:
            out[at] = ZERO + units % 10
            units //= 10
    return last


# ----------------------------------------------------------------------------------------------------- from text


@compiled
def _parse(
    data: Bytes,
    text: Bytes,
    starts: Numbers,
    numbers: NDArray[np.int32],
    slots: NDArray[np.int32],
    ngrams: Ngrams,
    logs: NDArray[np.float64],
) -> int:
    """Fill the last two arrays from lines of text; return how many rows there are, or -1 for an unusual line.

    Fields are separated by any white space. Field 0 is the log-probability, then come the words, then perhaps the
    back-off: logs[0] and logs[1] take these two. A blank line is no row.
    """
    order = ngrams.shape[1]
    row = 0
    at = 0
    while at < len(data):
        field = 0  # of the line, the one to be read next
        while True:  # one line
            while data[at] != NEWLINE and _is_space(data[at]):
                at += 1
            if data[at] == NEWLINE:
                break
            begin = at
            while not _is_space(data[at]):
                at += 1
            if field == 0 or field == order + 1:
                number = _number(data[begin:at])
                if np.isnan(number):
                    return -1
                logs[int(field > 0), row] = number
            elif field <= order:
                word = slots[_slot(data[begin:at], text, starts, slots)]
                if word < 0:
                    return -1
                ngrams[row, field - 1] = numbers[word]
            field += 1
        at += 1
        if field == order + 1 or field == order + 2:
            row += 1
        elif field:
            return -1
    return row


@compiled
def _is_space(byte: int) -> bool:
    """As `bytes.split` sees it."""
    return byte == SPACE or TAB <= byte <= RETURN


@compiled
def _number(field: Bytes) -> float:
    """[+-]digits[.digits][e[+-]digits], correctly rounded; NaN for what is not of this form or has too many digits.

    The digits are read as one integer, the mantissa, and the point only moves the power of ten. As long as both are
    numbers that a float holds exactly, one product or quotient of them is rounded once, as it should be (Clinger 1990).
    """
    length = len(field)
    begin = _after_sign(field, 0)
    mantissa, at = _digits(field, begin, 0)
    digits = at - begin
    power = 0
    if at < length and field[at] == POINT:
        begin = at + 1
        mantissa, at = _digits(field, begin, mantissa)
        power = begin - at
        digits -= power
    if at < length and digits and (field[at] == LOWER_E or field[at] == UPPER_E):
        begin = _after_sign(field, at + 1)
        exponent, at = _digits(field, begin, 0)
        power += -exponent if field[begin - 1] == MINUS else exponent
        digits = at - begin
    if digits == 0 or at < length or mantissa >= EXACT or abs(power) >= len(POWERS):
        return np.nan
    value = mantissa / POWERS[-power] if power < 0 else mantissa * POWERS[power]
    return -value if field[0] == MINUS else value


@compiled
def _after_sign(field: Bytes, at: int) -> int:
    """Where a number goes on whose sign, if it has one, stands at a place."""
    return at + 1 if at < len(field) and (field[at] == MINUS or field[at] == PLUS) else at


@compiled
def _digits(field: Bytes, at: int, number: int) -> tuple[int, int]:
    """An integer with the digits that stand at a place put behind it, and where they end, or where it is too large."""
    while at < len(field) and ZERO <= field[at] <= NINE and number < EXACT:
        number = 10 * number + (field[at] - ZERO)
        at += 1
    return number, at


@compiled
def _slot(word: Bytes, text: Bytes, starts: Numbers, slots: NDArray[np.int32]) -> int:
    """The slot of a word, or the free one where it belongs: from the one that its hash (FNV-1a) gives, on and on to the
    next, around the end."""
    key = np.uint64(14695981039346656037)
    for byte in word:
        key = (key ^ np.uint64(byte)) * np.uint64(1099511628211)
    mask = len(slots) - 1
    slot = int(key >> np.uint64(32)) & mask
    while slots[slot] >= 0:
        start, end = starts[slots[slot]], starts[slots[slot] + 1]
        if end - start == len(word):
            same = True
            for at in range(len(word)):
                if text[start + at] != word[at]:
                    same = False
                    break
            if same:
                return slot
        slot = (slot + 1) & mask
    return slot


@compiled
def _fill(text: Bytes, starts: Numbers, slots: NDArray[np.int32]) -> None:
    """Put all words into the table."""
    for word in range(len(starts) - 1):
        slots[_slot(text[starts[word] : starts[word + 1]], text, starts, slots)] = word
