"""What `lines` does, compiled. Importing this module waits for numba: import it for large files only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from seqloom.compiling import compiled
from seqloom.interop.arpa import lines as plain
from seqloom.interop.arpa.lines import DECIMALS, Ngrams, Parsed, Units

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]

LONGEST_NUMBER = 24  # bytes; more than a 64-bit integer with sign and decimal point takes
UNIT = 10**DECIMALS
POWERS = 10.0 ** np.arange(23)  # the powers of ten that a float holds exactly
EXACT = 1 << 53  # below it, a float holds every integer


class Speller:
    """`lines.spell` with its words."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self._text, self._starts = _joined(words)

    def __call__(self, ngrams: Ngrams, log_probs: Units, backoffs: Units) -> memoryview:
        order = ngrams.shape[1]
        letters = int((self._starts[ngrams + 1] - self._starts[ngrams]).sum())
        out = np.empty(letters + len(ngrams) * (2 * LONGEST_NUMBER + order + 2), np.uint8)
        return out[: _spell(ngrams, log_probs, backoffs, self._text, self._starts, out)].data


class Parser:
    """`lines.parse` with its words. Lines that are in any way unusual are left to it."""

    def __init__(self, ids: Mapping[bytes, int]) -> None:
        self._ids = ids
        self._text, self._starts = _joined(list(ids))
        self._numbers = np.array(list(ids.values()), np.int32)
        self._slots = np.full(1 << (2 * len(ids)).bit_length(), -1, np.int32)
        _fill(self._text, self._starts, self._slots)

    def __call__(self, lines: Sequence[bytes], order: int) -> Parsed:
        ngrams = np.empty((len(lines), order), np.int32)
        log_probs, backoffs = np.empty(len(lines)), np.zeros(len(lines))
        data = np.frombuffer(b"".join(lines) + b"\n", np.uint8)
        rows = _parse(data, self._text, self._starts, self._numbers, self._slots, ngrams, log_probs, backoffs)
        if rows < 0:
            return plain.parse(self._ids, lines, order)
        return ngrams[:rows], log_probs[:rows], backoffs[:rows]


def _joined(words: Sequence[bytes]) -> tuple[Bytes, Numbers]:
    """All words in one array, and where each begins; and, last, where all end."""
    starts = np.zeros(len(words) + 1, np.int64)
    np.cumsum([len(word) for word in words], out=starts[1:])
    return np.frombuffer(b"".join(words), np.uint8), starts


# ------------------------------------------------------------------------------------------------------- to text


@compiled
def _spell(ngrams: Ngrams, log_probs: Units, backoffs: Units, text: Bytes, starts: Numbers, out: Bytes) -> int:
    end = 0
    for row in range(len(ngrams)):
        end = _put_number(log_probs[row], out, end)
        separator = 9
        for word in ngrams[row]:
            out[end] = separator
            end += 1
            separator = 32
            for at in range(starts[word], starts[word + 1]):
                out[end] = text[at]
                end += 1
        if len(backoffs):
            out[end] = 9
            end = _put_number(backoffs[row], out, end + 1)
        out[end] = 10
        end += 1
    return end


@compiled
def _put_number(units: int, out: Bytes, end: int) -> int:
    """Write a number given in units of 10^-DECIMALS, without zeros at its end; return where it ends."""
    if units < 0:
        out[end] = 45
        end += 1
        units = -units
    end = _put_digits(units // UNIT, 0, out, end)
    units %= UNIT
    if units:
        out[end] = 46
        digits = DECIMALS
        while units % 10 == 0:
            units //= 10
            digits -= 1
        end = _put_digits(units, digits, out, end + 1)
    return end


@compiled
def _put_digits(number: int, digits: int, out: Bytes, end: int) -> int:
    """Write an integer in so many digits, or, for 0, in as many as it has."""
    if digits == 0:
        digits = 1
        rest = number // 10
        while rest:
            digits += 1
            rest //= 10
    for at in range(end + digits - 1, end - 1, -1):
        out[at] = 48 + number % 10
        number //= 10
    return end + digits


# ----------------------------------------------------------------------------------------------------- from text


@compiled
def _parse(
    data: Bytes,
    text: Bytes,
    starts: Numbers,
    numbers: NDArray[np.int32],
    slots: NDArray[np.int32],
    ngrams: Ngrams,
    log_probs: NDArray[np.float64],
    backoffs: NDArray[np.float64],
) -> int:
    """Fill the last three arrays from lines of text; return how many rows there are, or -1 for an unusual line."""
    order = ngrams.shape[1]
    row = 0
    at = 0
    while at < len(data):
        field = 0
        while True:  # one line
            while data[at] != 10 and _is_space(data[at]):
                at += 1
            if data[at] == 10:
                break
            begin = at
            while not _is_space(data[at]):
                at += 1
            if field == 0 or field == order + 1:
                number = _number(data[begin:at])
                if np.isnan(number):
                    return -1
                if field == 0:
                    log_probs[row] = number
                else:
                    backoffs[row] = number
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
    return byte == 32 or 9 <= byte <= 13


@compiled
def _number(field: Bytes) -> float:
    """[+-]digits[.digits][e[+-]digits], correctly rounded; NaN for what is not of this form or has too many digits."""
    length = len(field)
    at = 0
    negative = field[0] == 45
    if negative or field[0] == 43:
        at = 1
    mantissa = 0
    power = 0
    digits = 0
    point = False
    while at < length and (48 <= field[at] <= 57 or (field[at] == 46 and not point)):
        if field[at] == 46:
            point = True
        else:
            mantissa = 10 * mantissa + (field[at] - 48)
            if point:
                power -= 1
            digits += 1
            if mantissa >= EXACT:
                return np.nan
        at += 1
    if digits == 0:
        return np.nan
    if at < length:
        if field[at] != 101 and field[at] != 69:
            return np.nan
        at += 1
        sign = 1
        if at < length and (field[at] == 45 or field[at] == 43):
            sign = 44 - field[at]
            at += 1
        if at == length or length - at > 3:
            return np.nan
        exponent = 0
        while at < length:
            if not 48 <= field[at] <= 57:
                return np.nan
            exponent = 10 * exponent + (field[at] - 48)
            at += 1
        power += sign * exponent
    if abs(power) >= len(POWERS):
        return np.nan
    # One division or product of numbers that are exact is rounded once, as it should be.
    value = mantissa / POWERS[-power] if power < 0 else mantissa * POWERS[power]
    return -value if negative else value


@compiled
def _slot(word: Bytes, text: Bytes, starts: Numbers, slots: NDArray[np.int32]) -> int:
    """Where a word is in a table of open addressing, or the free place where it belongs (FNV-1a)."""
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
    for word in range(len(starts) - 1):
        slots[_slot(text[starts[word] : starts[word + 1]], text, starts, slots)] = word
