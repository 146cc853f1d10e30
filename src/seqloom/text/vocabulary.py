"""A vocabulary: which tokens have an id of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from seqloom.errors import DataError
from seqloom.text.special import SPECIALS, UNK


class Vocabulary:
    """Tokens in order of frequency, after the four special symbols, and their ids.

    Special symbols that stand in a text have no id of their own there: a typed `<bos>` is an unknown word like any
    other, and so is the `<unk>` that PTB and WikiText write for their rare words. Only a program can say
    `<pad>`, `<bos>` or `<eos>`.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        """`tokens`: the ordinary tokens, most frequent first; their ids begin after the special symbols'."""
        self._tokens = [*SPECIALS, *tokens]
        self._ids = _Ids(zip(tokens, range(len(SPECIALS), len(self._tokens)), strict=True))
        if len(self._ids) != len(tokens) or not self._ids.keys().isdisjoint(SPECIALS):
            raise DataError("a vocabulary must not hold a token twice, nor a special symbol as an ordinary token")

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], min_count: int = 1, max_size: int | None = None) -> Vocabulary:
        """Keep the `max_size` most frequent tokens among those seen `min_count` times; ties go by the alphabet."""
        frequent = sorted([token for token, count in counts.items() if count >= min_count])
        for special in counts.keys() & set(SPECIALS):
            if counts[special] >= min_count:
                frequent.remove(special)
        frequent.sort(key=counts.__getitem__, reverse=True)  # keeps the alphabet among equals
        return cls(frequent[:max_size])

    @property
    def ordinary(self) -> list[str]:
        """The tokens without the special symbols: what the constructor takes."""
        return self._tokens[len(SPECIALS) :]

    def __len__(self) -> int:
        return len(self._tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._ids

    def ids(self, tokens: Iterable[str]) -> list[int]:
        return list(map(self._ids.__getitem__, tokens))

    def token(self, id: int) -> str:
        if not 0 <= id < len(self._tokens):
            raise IndexError(f"no token has id {id}: the vocabulary has {len(self._tokens)}")
        return self._tokens[id]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self.token(id) for id in ids]


class _Ids(dict[str, int]):
    """From token to id; a token without one is unknown. (A missing key costs nothing while all are known.)"""

    def __missing__(self, token: str) -> int:
        return UNK
