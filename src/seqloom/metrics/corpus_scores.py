"""The scores of a translated corpus that are comparable with those of others: sacreBLEU's, with its signature."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, count
from typing import Any

from seqloom.errors import ConfigError, DataError, did_you_mean
from seqloom.metrics.ngram_counts import check_counts

WORDS = 1 << 18  # that are remembered with their tokens
REMEMBERED = 1 << 17  # texts that are

_PUNCTUATION = ".,:;!?"
_CHINESE = ("zh", "yue", "wuu", "lzh")
_UNSPACED = ("ja", "th", "lo", "my", "km")  # no spaces between words
_LETTER = re.compile(r"[^\W\d_]")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA_AND_THE_LIKE = re.compile(r"[\u3041-\u30ff\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff]")  # Thai, Lao, Burmese, Khmer


@dataclass(frozen=True)
class Scored:
    """A score, and how it was computed."""

    value: float
    """0 to 100, as sacreBLEU gives it."""
    signature: str


def corpus_scores(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], tokenize: str = "13a"
) -> dict[str, Scored]:
    """BLEU and chrF of plain lines, not split into tokens, by sacreBLEU (Post 2018).

    `references[i]` holds the references of `hypotheses[i]`: one or more, not the same number for all.
    """
    from sacrebleu.metrics.chrf import CHRF  # an import of a tenth of a second

    _check_lines(hypotheses, references)
    most = max(map(len, references))
    # sacreBLEU has it the other way round: all first references, all second ones, with None where there is none.
    streams = [[several[place] if place < len(several) else None for several in references] for place in range(most)]
    scores = {}
    for name, metric in {"BLEU": _sacrebleu(tokenize), "chrF": CHRF()}.items():
        value = metric.corpus_score(list(hypotheses), streams).score
        scores[name] = Scored(float(value), f"{name}|{metric.get_signature()}")
    return scores


def scoring_tokens(lines: Iterable[str], tokenize: str = "13a") -> list[list[str]]:
    """Lines split into tokens as sacreBLEU splits them."""
    if tokenize == "13a":
        return [[token for word in line.split() for token in _word_tokens(word)] for line in lines]
    split = _sacrebleu(tokenize).tokenizer
    return [split(line.rstrip()).split() for line in lines]


class ScoringNumbers:
    """`scoring_tokens` as numbers, equal ones for equal tokens: a word that was met before is looked up."""

    def __init__(self, tokenize: str = "13a") -> None:
        self.tokenize = tokenize
        self._numbers = defaultdict[str, int](count().__next__)
        self._words = _NumberedWords(self._numbers)
        self.remembered = lru_cache(REMEMBERED)(self.of)
        """`of` a text that will come back, as references do."""

    def of(self, line: str) -> list[int]:
        """The numbers of a line's tokens."""
        if self.tokenize == "13a":
            return list(chain.from_iterable(map(self._words.__getitem__, line.split())))
        return list(map(self._numbers.__getitem__, scoring_tokens([line], self.tokenize)[0]))


class _NumberedWords(dict[str, list[int]]):
    """From what stands between two spaces to the numbers of its tokens."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        super().__init__()
        self.numbers = numbers

    def __missing__(self, word: str) -> list[int]:
        if len(self) >= WORDS:
            self.clear()  # models write words without end
        found = self[word] = [self.numbers[token] for token in _word_tokens(word)]
        return found


@lru_cache(WORDS)
def _word_tokens(word: str) -> list[str]:
    """The tokens of what stands between two spaces: no rule of 13a looks further, and words come again and again.

    No rule divides letters either, of whatever script, and a mark of punctuation behind them is a token of its own.
    """
    if word.isalpha():
        return [word]
    if word[:-1].isalpha() and word[-1] in _PUNCTUATION:
        return [word[:-1], word[-1]]
    return list(_sacrebleu("13a").tokenizer(word).split())


def scoring_tokenizer(language: str = "", lines: Iterable[str] = ()) -> str:
    """The name of sacreBLEU's tokeniser for a language (`zh`, `de`, `pt-BR`) or, where none is given, for a text.

    `zh` for Chinese, `char` for others without spaces between words, `13a` for the rest.
    """
    if language:
        code = re.split("[-_]", language.lower())[0]
        return "zh" if code in _CHINESE else "char" if code in _UNSPACED else "13a"
    text = "".join(lines)
    letters, han, others = (len(pattern.findall(text)) for pattern in (_LETTER, _HAN, _KANA_AND_THE_LIKE))
    if 2 * (han + others) <= letters:
        return "13a"
    return "char" if 10 * others > han else "zh"  # a Japanese text is half kana; a Chinese one has hardly any


@cache
def _sacrebleu(tokenize: str) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    if tokenize not in BLEU.TOKENIZERS:
        raise ConfigError(f"sacreBLEU has no tokeniser {tokenize!r}{did_you_mean(tokenize, BLEU.TOKENIZERS)}")
    try:
        return BLEU(tokenize=tokenize)
    except (ImportError, RuntimeError, OSError) as error:  # a package that is not installed, a file to download
        raise ConfigError(f"sacreBLEU's tokeniser {tokenize!r} cannot be used here: {error}") from None


def _check_lines(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    check_counts(hypotheses, references)
    for row, (hypothesis, several) in enumerate(zip(hypotheses, references, strict=True)):
        if not isinstance(hypothesis, str):
            raise DataError(f"hypothesis {row} is no string: sacreBLEU splits lines itself; for token lists use bleu()")
        if isinstance(several, str) or not several or not all(isinstance(line, str) for line in several):
            raise DataError(f"references[{row}] is {several!r:.60}: it must be a list of one or more strings")
