"""What a text is worth: the measures that texts are judged by, as rewards to be trained on."""

from __future__ import annotations

import operator
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import ConfigError, UserError, did_you_mean
from seqloom.metrics.bleu import OF_SENTENCES, BleuFormula
from seqloom.metrics.chrf import sentence_chrfs
from seqloom.metrics.cider import TextCider
from seqloom.metrics.corpus_scores import scoring_tokenizer, scoring_tokens
from seqloom.metrics.ngram_counts import NumberedRows, NumberedTexts, repeated_ngrams
from seqloom.metrics.rouge import rouge_l, rouge_n, rouge_words
from seqloom.training.objectives import Judge
from seqloom.training.written import WordNumbers

Numbers = NDArray[np.float64]
Lines = Sequence[str]
Several = Sequence[Sequence[str]]
"""The references of each text."""
REMEMBERED = 1 << 17  # texts whose words are kept: references come back with every epoch


class Words:
    """How texts are split into words, by the script of the references that are learned from."""

    def __init__(self, corpus: Callable[[], Several]) -> None:
        self.corpus = corpus

    @cached_property
    def tokenize(self) -> str:
        """The name of sacreBLEU's tokeniser."""
        return scoring_tokenizer(lines=(each for row in self.corpus()[:1000] for each in row))

    def of(self, text: str) -> list[str]:
        """As sacreBLEU splits it."""
        return _tokens(text, self.tokenize)

    @cached_property
    def numbers(self) -> WordNumbers:
        """The same as numbers, which are faster to count."""
        return WordNumbers(self.tokenize)

    def for_rouge(self, text: str) -> list[str]:
        """As rouge-score splits it, where words have spaces between them."""
        return _rouge_words(text) if self.tokenize == "13a" else self.of(text)


@lru_cache(REMEMBERED)
def _tokens(text: str, tokenize: str) -> list[str]:
    return scoring_tokens([text], tokenize)[0]


@lru_cache(REMEMBERED)
def _rouge_words(text: str) -> list[str]:
    return rouge_words(text)


class Reward(ABC):
    """One number for each text, the higher the better."""

    @abstractmethod
    def __call__(self, texts: Lines, references: Several, sources: Lines) -> Numbers:
        """The rewards of texts, each with its references and with what it was given."""


class BleuReward(Reward):
    """Sentence BLEU, smoothed, on sacreBLEU's tokens: 0 to 1."""

    def __init__(self, words: Words) -> None:
        self.words = words

    def __call__(self, texts: Lines, references: Several, sources: Lines) -> Numbers:
        numbers = self.words.numbers
        each = _samples(references)
        theirs = NumberedTexts.of([numbers.numbers.remembered(one) for row in references[::each] for one in row])
        several = np.array([len(row) for row in references[::each]])
        formula = BleuFormula(**OF_SENTENCES)
        return formula.scores(formula.count_rows(NumberedRows(numbers.of(texts), theirs, several, each)))


def _samples(references: Several) -> int:
    """How many texts in a row have the very same references; 1 where they are not equally many everywhere."""
    each = next((place for place, row in enumerate(references) if row is not references[0]), len(references))
    firsts = (row for row in references[::each] for _ in range(each))
    alike = len(references) % each == 0 and all(map(operator.is_, references, firsts))
    return each if alike else 1


class RougeReward(Reward):
    """F of ROUGE-1, -2 or -L: 0 to 1."""

    def __init__(self, words: Words, order: str) -> None:
        self.words, self.order = words, order

    def __call__(self, texts: Lines, references: Several, sources: Lines) -> Numbers:
        split = self.words.for_rouge
        ours, theirs = [split(text) for text in texts], [[split(each) for each in row] for row in references]
        return (rouge_l(ours, theirs) if self.order == "l" else rouge_n(ours, theirs, int(self.order))).f


class ChrfReward(Reward):
    """chrF of single sentences: 0 to 1."""

    def __call__(self, texts: Lines, references: Several, sources: Lines) -> Numbers:
        return sentence_chrfs(texts, references)


class CiderReward(Reward):
    """CIDEr-D, with the document frequencies of all references that are learned from: 0 to 10."""

    def __init__(self, corpus: Callable[[], Several]) -> None:
        self.corpus = corpus

    @cached_property
    def cider(self) -> TextCider:
        """The measure, once all references were read."""
        return TextCider(self.corpus())

    def __call__(self, texts: Lines, references: Several, sources: Lines) -> Numbers:
        return self.cider.scores(texts, references)


class LogProbReward(Reward):
    """log p of a text under another model, per token."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    def __call__(self, texts: Lines, references: Several, sources: Lines) -> Numbers:
        return np.array([log_prob / max(1, tokens) for log_prob, tokens in self.judge(texts)])


class LengthReward(Reward):
    """The number of words; of what has no spaces, that of characters."""

    def __init__(self, words: Words) -> None:
        self.words = words

    def __call__(self, texts: Lines, references: Several, sources: Lines) -> Numbers:
        return np.array([float(len(self.words.of(text))) for text in texts])


class RepetitionReward(Reward):
    """The share of a text's trigrams that stood in it before, with the sign of a loss: -1 to 0."""

    def __init__(self, words: Words) -> None:
        self.words = words

    def __call__(self, texts: Lines, references: Several, sources: Lines) -> Numbers:
        return -repeated_ngrams([self.words.of(text) for text in texts], 3)


class ConstantReward(Reward):
    """1 for every text: what training does when the reward says nothing (Choshen et al. 2020)."""

    def __call__(self, texts: Lines, references: Several, sources: Lines) -> Numbers:
        return np.ones(len(texts))


class FunctionReward(Reward):
    """The user's own function: (texts, references, sources) -> one number for each text."""

    def __init__(self, name: str) -> None:
        self.name = name
        module, _, attribute = name.rpartition(":")
        self.function: Any = getattr(_module(module, name), attribute, None)
        if not callable(self.function):
            raise ConfigError(f"objective.reward: {module} has no function {attribute!r}")

    def __call__(self, texts: Lines, references: Several, sources: Lines) -> Numbers:
        try:
            rewards = np.asarray(self.function(list(texts), [list(each) for each in references], list(sources)), float)
        except Exception as error:  # whatever it is, it is the function's, and the user's to mend
            raise UserError(f"objective.reward: {self.name} failed with {type(error).__name__}: {error}") from error
        if rewards.shape != (len(texts),) or not np.isfinite(rewards).all():
            raise UserError(
                f"objective.reward: {self.name} must return one finite number for each of {len(texts)} texts, "
                f"not an array of shape {rewards.shape}"
            )
        return rewards


class WeightedSum(Reward):
    """Σ_i w_i reward_i"""

    def __init__(self, terms: Sequence[tuple[float, Reward]]) -> None:
        self.terms = terms

    def __call__(self, texts: Lines, references: Several, sources: Lines) -> Numbers:
        return sum((weight * reward(texts, references, sources) for weight, reward in self.terms), np.zeros(len(texts)))


PLAIN: dict[str, Callable[[Words], Reward]] = {
    "bleu": BleuReward,
    "rouge-1": lambda words: RougeReward(words, "1"),
    "rouge-2": lambda words: RougeReward(words, "2"),
    "rouge-l": lambda words: RougeReward(words, "l"),
    "chrf": lambda _: ChrfReward(),
    "length": LengthReward,
    "repetition": RepetitionReward,
    "constant": lambda _: ConstantReward(),
}
_TERM = re.compile(r"(?:(?P<weight>[-+]?[\d.]+(?:e[-+]?\d+)?)\s*\*\s*)?(?P<name>\S+)", re.IGNORECASE)


def build_reward(formula: str, corpus: Callable[[], Several], judge: Callable[[str], Judge]) -> Reward:
    """The reward that a formula describes: terms, each perhaps with a weight, joined by ` + `.

    corpus: all references that are learned from; judge: what scores texts by the run of a folder.
    """
    terms = [_term(term.strip(), formula, corpus, judge) for term in re.split(r"\s\+\s", formula)]
    return terms[0][1] if len(terms) == 1 and terms[0][0] == 1 else WeightedSum(terms)


def _term(
    term: str, formula: str, corpus: Callable[[], Several], judge: Callable[[str], Judge]
) -> tuple[float, Reward]:
    found = _TERM.fullmatch(term)
    try:
        weight = float(found["weight"] or 1) if found else None
    except ValueError:
        weight = None
    if not found or weight is None:
        raise ConfigError(
            f"objective.reward: {term!r} in {formula!r} is no term: write NAME or WEIGHT * NAME, joined by ' + '"
        )
    name = found["name"]
    if name in PLAIN:
        return weight, PLAIN[name](Words(corpus))
    if name == "cider":
        return weight, CiderReward(corpus)
    if name.startswith("log-prob:"):
        return weight, LogProbReward(judge(name.removeprefix("log-prob:")))
    if ":" in name:
        return weight, FunctionReward(name)
    known = [*PLAIN, "cider", "log-prob:RUN", "module:function"]
    raise ConfigError(f"objective.reward: unknown reward {name!r}{did_you_mean(name, known)}")


def _module(name: str, whole: str) -> ModuleType:
    """A module by its name, looked for in the working directory too, or by its file."""
    try:
        if name.endswith(".py"):
            spec = spec_from_file_location(Path(name).stem, name)
            assert spec is not None
            assert spec.loader is not None
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
        if "" not in sys.path:
            sys.path.insert(0, "")
        return import_module(name)
    except Exception as error:  # a module of the user's may fail in any way
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"objective.reward: {whole} cannot be imported ({reason})") from error
