"""The n-grams of an ARPA file, line by line: numbers to text, and text to numbers.

`kernels` does what `spell` and `parse` do in compiled code, for large files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from seqloom.text.special import BOS, EOS, UNK

NAMES = {UNK: "<unk>", BOS: "<s>", EOS: "</s>"}
DECIMALS = 7
LOG_ZERO = -99.0  # SRILM's convention
LOG_10 = math.log(10.0)

Ngrams = NDArray[np.int32]
"""Ids of words: [n-grams, order]."""
FixedPoint = NDArray[np.int64]
"""log10 in units of the last decimal written: -3010300 is -0.30103."""
Parsed = tuple[Ngrams, NDArray[np.float64], NDArray[np.float64]]
"""N-grams, log10 of their probabilities, log10 of their back-off weights."""


def spell(words: Sequence[bytes], ngrams: Ngrams, log_probs: FixedPoint, backoffs: FixedPoint) -> bytes:
    """One line per n-gram: log-probability, words, back-off. The highest order has no back-offs: their array is empty.

    `words` are by id.
    """
    spelled = zip(*(map(words.__getitem__, column) for column in ngrams.T.tolist()), strict=True)
    columns = [map(_decimal, log_probs.tolist()), map(b" ".join, spelled)]
    if len(backoffs):
        columns.append(map(_decimal, backoffs.tolist()))
    return b"".join(b"%b\n" % b"\t".join(line) for line in zip(*columns, strict=True))


def _decimal(units: int) -> bytes:
    return f"{units / 10**DECIMALS:.{DECIMALS}f}".rstrip("0").rstrip(".").encode()


def parse(ids: Mapping[bytes, int], lines: Sequence[bytes], order: int) -> Parsed:
    """The n-grams of all lines that are not blank; a back-off that is not given is 0.

    Lines that hold anything else are a `ValueError` or a `KeyError`.
    """
    rows = [fields for line in lines if (fields := line.split())]
    for fields in rows:
        if len(fields) == order + 1:
            fields.append(b"0")
        elif len(fields) != order + 2:
            raise ValueError
    if not rows:
        return np.empty((0, order), np.int32), np.empty(0), np.empty(0)
    log_probs, *words, backoffs = zip(*rows, strict=True)
    ngrams = np.array([list(map(ids.__getitem__, column)) for column in words], np.int32).T
    return ngrams, np.array(list(map(float, log_probs))), np.array(list(map(float, backoffs)))


def fixed_point(log: NDArray[np.float32]) -> FixedPoint:
    """Natural logarithms as log10 in units of the last decimal."""
    log10 = np.maximum(log.astype(np.float64) / LOG_10, LOG_ZERO)
    return np.rint(log10 * 10**DECIMALS).astype(np.int64)


def natural(log10: NDArray[np.float64]) -> NDArray[np.float32]:
    """log10 as natural logarithms."""
    return np.where(log10 <= LOG_ZERO, -np.inf, log10 * LOG_10).astype(np.float32)
