"""A model as an ARPA file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from seqloom.errors import DataError
from seqloom.files import atomic_bytes
from seqloom.interop.arpa import lines
from seqloom.interop.arpa.lines import NAMES, fixed_point
from seqloom.models.ngram.model import NgramModel
from seqloom.models.ngram.trie import LARGE, Nodes, Trie
from seqloom.text.special import BOS, PAD

BLOCK = 1 << 15  # n-grams written at a time
STAND_INS = {ord(" "): "▁"} | {control: chr(0x2400 + control) for control in range(32)}


def write_arpa(model: NgramModel, tokens: Sequence[str], path: Path) -> None:
    """Write a model as an ARPA file, gzipped where the name ends in .gz. `tokens`: the readable tokens of all ids.

    Words in an ARPA file hold no white space. Inside tokens, a space is written ▁ (U+2581) and a control character as
    its picture: a newline is ␊, a tab ␉. A token that would then look like another one is a `DataError`, and so is an
    ordinary token that is spelled `<s>`, `</s>` or `<unk>`.
    """
    if model.missing:
        raise DataError(
            "an ARPA file cannot hold stupid back-off, which weighs contexts that were never seen; "
            "train with another model.smoothing, e.g. modified-kneser-ney"
        )
    if len(tokens) != model.vocabulary_size:
        raise DataError(f"the model has {model.vocabulary_size:,} tokens, and {len(tokens):,} were given")
    spell = _speller(_written(tokens), len(model.log_probs))
    sizes = _sizes(model)
    with atomic_bytes(path) as file:
        counts = "".join(f"ngram {order}={size}\n" for order, size in enumerate(sizes, start=1))
        file.write(f"\\data\\\n{counts}".encode())
        for order in range(1, len(sizes) + 1):
            file.write(f"\n\\{order}-grams:\n".encode())
            for nodes in _blocks(model.trie, order):
                log_probs = np.minimum(model.log_probs[nodes], 0.0)  # 1e-8, by rounding, is not for KenLM
                if order == 1:
                    log_probs[nodes == BOS] = 0.0  # as KenLM writes it; nobody asks for it
                backoffs = model.backoffs[nodes if order < min(model.order, len(sizes)) else []]
                file.write(spell(model.trie.ngrams(order, nodes), fixed_point(log_probs), fixed_point(backoffs)))
        file.write(b"\n\\end\\\n")


def _written(tokens: Sequence[str]) -> list[bytes]:
    """How each token is written; `<pad>` is not."""
    written = []
    ids: dict[str, int] = {}
    for id, token in enumerate(tokens):
        word = "" if id == PAD else NAMES.get(id, token.translate(STAND_INS))
        if not word and id != PAD:
            raise DataError(f"token {id} is empty, and an ARPA file cannot hold such a word")
        other = ids.setdefault(word, id)
        if other != id:
            raise DataError(
                f"an ARPA file cannot tell the tokens {tokens[other]!r} and {token!r} apart, for both are written "
                f"{word}; replace one of them in the training text and train again"
            )
        written.append(word.encode("utf-8", "backslashreplace"))
    return written


def _speller(words: list[bytes], size: int) -> Callable[..., bytes | memoryview]:
    if size < LARGE:
        return partial(lines.spell, words)
    from seqloom.interop.arpa.kernels import Speller

    return Speller(words)


def _sizes(model: NgramModel) -> list[int]:
    """How many n-grams of each order are written.

    Highest orders that say nothing are left out, for KenLM takes no more than 6 as it is usually built; but it wants 2.
    """
    sizes = model.trie.sizes()
    while len(sizes) > 1 and not sizes[-1] and not model.backoffs[model.trie.level(len(sizes) - 1)].any():
        sizes.pop()
    return [sizes[0] - 1, *(sizes[1:] or [0])]  # without <pad>


def _blocks(trie: Trie, order: int) -> Iterator[Nodes]:
    """The n-grams of an order, some at a time."""
    level = trie.level(order) if order <= trie.order else slice(0, 0)
    for start in range(level.start, level.stop, BLOCK):
        nodes = np.arange(start, min(start + BLOCK, level.stop))
        yield nodes[nodes != PAD] if order == 1 else nodes
