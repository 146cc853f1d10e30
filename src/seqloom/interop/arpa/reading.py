"""A model from an ARPA file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from seqloom.interop.arpa import lines
from seqloom.interop.arpa.lines import NAMES
from seqloom.interop.arpa.reader import ArpaReader, Block, Parse
from seqloom.interop.arpa.tree import build_model
from seqloom.models.ngram.model import NgramModel
from seqloom.models.ngram.trie import LARGE
from seqloom.text.reading import conversion
from seqloom.text.special import BOS, SPECIALS, UNK
from seqloom.text.vocabulary import Vocabulary
from seqloom.text.words import WhitespaceTokenizer


def read_arpa(path: Path) -> tuple[NgramModel, WhitespaceTokenizer]:
    """The model in an ARPA file, gzipped or not, and the tokeniser of its words.

    N-grams may come in any order, and back-offs be left out where they are 0. Where the file has no `<unk>`, `<UNK>`
    is taken for it; where it has neither, unknown words have probability 0. An n-gram that is not listed, while longer
    ones begin with it, is added with the probability that backing off gives it, so that no probability changes.
    """
    reader = ArpaReader(Path(path))
    unigrams = list(reader.section(1, partial(lines.parse, reader.words)))
    ids = _ids(reader, unigrams)
    tokenizer = WhitespaceTokenizer(Vocabulary([word.decode() for word, id in ids.items() if id >= len(SPECIALS)]))
    log_probs = np.full(tokenizer.size, -np.inf, np.float32)
    backoffs = np.zeros(tokenizer.size, np.float32)
    places = np.array(list(ids.values()))
    for block in unigrams:
        rows = places[block.ngrams[:, 0]]
        log_probs[rows], backoffs[rows] = block.log_probs, block.backoffs
    log_probs[BOS] = -np.inf  # whatever the file says: nothing predicts a beginning
    return build_model(reader, _parser(ids, sum(reader.counts)), log_probs, backoffs), tokenizer


def _ids(reader: ArpaReader, unigrams: list[Block]) -> dict[bytes, int]:
    """The id of each word, in the order of the file."""
    numbers: list[int] = []
    for block in unigrams:
        for place, number in zip(block.ngrams[:, 0].tolist(), block.numbers, strict=True):
            if place < len(numbers):
                raise reader.error("this word stands in an earlier line too", number)
            numbers.append(number)
    named = {name.encode(): id for id, name in NAMES.items()}
    if b"<unk>" not in reader.words:
        named[b"<UNK>"] = UNK
    reserved = {name.encode() for name in SPECIALS} - named.keys()
    ids = {}
    ordinary = len(SPECIALS)
    for word, number in zip(reader.words, numbers, strict=True):
        if word in reserved:
            message = f"the word {word.decode()} is a special symbol of seqloom; give it another name in the whole file"
            raise reader.error(message, number)
        try:
            word.decode()
        except UnicodeDecodeError:
            raise reader.error(f"the word is not UTF-8; {conversion(reader.path)}", number) from None
        if word in named:
            ids[word] = named[word]
        else:
            ids[word] = ordinary
            ordinary += 1
    return ids


def _parser(ids: dict[bytes, int], size: int) -> Parse:
    if size < LARGE:
        return partial(lines.parse, ids)
    from seqloom.interop.arpa.kernels import Parser

    return Parser(ids)
