"""Which tokens a masked language model has to find, and what it reads in their place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import regex
from numpy.typing import NDArray

from seqloom.config.schema.objectives import MaskedObjective
from seqloom.text.marks import MarkedTokenizer
from seqloom.text.special import PAD, SPECIALS
from seqloom.text.words import LETTER, WordTokenizer

MASK = "[MASK]"
CONTINUES = regex.compile(LETTER, regex.VERSION1)

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Masking:
    """BERT's masking (Devlin et al. 2019, section 3.1): of the n ordinary tokens of a sequence, `rate` · n are chosen,
    each as likely as the others. Of the chosen ones a share of `masked` is read as [MASK], a share of `random` as a
    token drawn from all ordinary ones, and the rest as they are.

    `rate` · n is rounded up or down at random, so that a token is chosen with a probability of just `rate`; but one is
    chosen in every sequence. Special symbols are neither chosen nor drawn. With whole words, so many words are chosen
    in place of tokens, and all pieces of each; what is read is drawn for each piece by itself, as in the paper's code.
    """

    rate: float
    masked: float
    random: float
    mask: int
    """The id of [MASK]; those between the special symbols and it are of ordinary tokens."""
    begins: NDArray[np.bool_] | None = None
    """[ids]: which tokens begin a word, where whole words are chosen."""

    @classmethod
    def of(cls, config: MaskedObjective, tokenizer: MarkedTokenizer) -> Masking:
        """The masking that a configuration describes."""
        begins = word_beginnings(tokenizer) if config.whole_words else None
        return cls(config.rate, config.masked, config.random, tokenizer.inner.size, begins)

    def ordinary(self, ids: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which ids are of ordinary tokens."""
        return (ids >= len(SPECIALS)) & (ids < self.mask)

    def draw(self, ids: Ids, random: np.random.Generator) -> tuple[Ids, Ids]:
        """What is read of ids [rows, time], and what is to be found: the chosen tokens, `<pad>` everywhere else."""
        chosen = self._chosen(ids, random)
        fate = random.random(ids.shape)
        drawn = random.integers(len(SPECIALS), self.mask, ids.shape)
        read = np.where(fate < self.masked, self.mask, np.where(fate < self.masked + self.random, drawn, ids))
        return np.where(chosen, read, ids), np.where(chosen, ids, PAD)

    def _chosen(self, ids: Ids, random: np.random.Generator) -> NDArray[np.bool_]:
        """Some tokens, or all pieces of some words, of each row."""
        ordinary = self.ordinary(ids)
        starts = ordinary
        if self.begins is not None:
            before = np.pad(ordinary[:, :-1], ((0, 0), (1, 0)))
            starts = ordinary & (self.begins[ids] | ~before)
        word = np.maximum(np.cumsum(starts, axis=1) - 1, 0)  # its number in the row, of each ordinary place
        count = starts.sum(1, keepdims=True)
        wanted = np.maximum(1, np.floor(self.rate * count + random.random(count.shape)).astype(np.int64))
        lots = random.random((len(ids), max(1, int(count.max(initial=0)))))
        lots[np.arange(lots.shape[1]) >= count] = 2.0  # there is no such word, and it comes last
        last = np.take_along_axis(np.sort(lots, axis=1), np.minimum(wanted, lots.shape[1]) - 1, axis=1)
        return ordinary & np.take_along_axis(lots <= last, word, axis=1)


def word_beginnings(tokenizer: MarkedTokenizer) -> NDArray[np.bool_]:
    """[ids]: which tokens begin a word. All but pieces that go on with the letters or digits of a word: those begin
    with neither a space nor a mark of their own. An ideograph is a word."""
    if isinstance(tokenizer.inner, WordTokenizer):
        return np.ones(tokenizer.size, bool)
    texts = tokenizer.tokens(range(tokenizer.size))
    return np.array([number < len(SPECIALS) or not CONTINUES.match(text) for number, text in enumerate(texts)])
