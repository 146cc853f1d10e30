"""The fast way from text files to a vocabulary of words and a token store: one pass over the bytes in compiled code.

The pass numbers words in the order in which they first appear. Once all are counted the vocabulary is known, and the
numbers, which waited in a file, become ids.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np
from numpy.typing import NDArray

from seqloom.config.schema.text import WhitespaceText
from seqloom.data.cache import About, cache_folder
from seqloom.data.corpus import Corpus
from seqloom.data.store import FILE, TokenStore, Totals, about
from seqloom.errors import DataError
from seqloom.text.reading import LONGEST, is_jsonl, open_bytes
from seqloom.text.special import SPECIALS, UNK
from seqloom.text.vocabulary import Vocabulary
from seqloom.text.words import WhitespaceTokenizer, count_words

BLOCK = 1 << 22  # bytes read at a time, and on to the end of the line


def learn_words(corpus: Corpus, config: WhitespaceText) -> tuple[WhitespaceTokenizer, TokenStore]:
    """A tokeniser trained on a corpus, and the corpus under it, left in the cache where `TokenStore.of` finds it.

    They are what `WhitespaceTokenizer.train` and `TokenStore.of` give. Those two do the work themselves when there is
    more to it than the lines of text files, and when a text is at fault: they say where.
    """
    if _is_plain(corpus) and not config.lowercase:
        try:
            return _learn(corpus, config)
        except (UnicodeDecodeError, DataError):
            pass
    tokenizer = WhitespaceTokenizer.train(corpus, **config.model_dump(exclude={"kind"}))
    return tokenizer, TokenStore.of(corpus, tokenizer)


def _is_plain(corpus: Corpus) -> bool:
    """Whether the units are all the lines of text files."""
    records = any(map(is_jsonl, corpus.paths))
    return corpus.unit == "line" and not records and corpus.start == 0 and corpus.stop is None


def _learn(corpus: Corpus, config: WhitespaceText) -> tuple[WhitespaceTokenizer, TokenStore]:
    from seqloom.text.word_table import WordTable  # not before there is much to read: it loads a compiler

    table = WordTable()
    tokens = characters = 0
    with TemporaryFile(dir=cache_folder()) as numbers:
        for block in _blocks(corpus):
            end = b"" if block.endswith(b"\n") else b"\n"  # the last line of a file may lack its own
            some = table.learn(block + end)
            some.tofile(numbers)
            tokens += len(some)
            characters += _characters(block) + len(end)

        words, seen = table.words(), table.seen()
        counts = dict(zip(words, seen.tolist(), strict=True))
        vocabulary = Vocabulary.from_counts(counts, config.min_count, config.max_size)
        if not vocabulary.ordinary:
            raise DataError("no words to learn")
        tokenizer = WhitespaceTokenizer(vocabulary)
        final = np.fromiter(chain(range(len(SPECIALS)), vocabulary.ids(words)), np.int64, len(SPECIALS) + len(words))
        totals = Totals(
            units=tokens - int(seen.sum()),
            tokens=tokens,
            words=tokens + sum(counts[word] * (count_words(word) - 1) for word in words if not word.isascii()),
            characters=characters,
            unknown=int(seen[final[len(SPECIALS) :] == UNK].sum()),
        )
        ids = final.astype(TokenStore.dtype(tokenizer))
        store = TokenStore.cached(corpus, tokenizer, lambda folder: _write(folder, numbers, ids, totals))
    return tokenizer, store


def _write(folder: Path, numbers: IO[bytes], final: NDArray[np.unsignedinteger], totals: Totals) -> About:
    """The store of all numbers in a file, each replaced by its final id."""
    numbers.seek(0)
    with open(folder / FILE, "wb") as file:
        while len(some := np.fromfile(numbers, np.int32, BLOCK)):
            final[some].tofile(file)
    return about(final.dtype, totals)


def _blocks(corpus: Corpus) -> Iterator[bytes]:
    """The bytes of all files, some whole lines at a time, without byte order marks."""
    for path in corpus.paths:
        with open_bytes(path) as file:
            mark = codecs.BOM_UTF8
            while block := file.read(BLOCK):
                begun = len(block) - block.rfind(b"\n") - 1  # bytes of a line that goes on
                rest = file.readline(LONGEST + 1 - begun)
                if begun + len(rest) > LONGEST:
                    raise DataError("a line is too long")
                yield (block + rest).removeprefix(mark)
                mark = b""


def _characters(block: bytes) -> int:
    """How many characters UTF-8 bytes are, the end of a line counted as one."""
    continuing = np.count_nonzero(np.frombuffer(block, np.int8) < -64)  # 10xxxxxx: not the first byte of a character
    returns = block.count(b"\r\n") if b"\r" in block else 0
    return len(block) - int(continuing) - returns
