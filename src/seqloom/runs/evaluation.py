"""Scores of a sequence-to-sequence model on pairs: what it writes against references."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from seqloom.data.pairs import Pair, PairCorpus
from seqloom.errors import DataError
from seqloom.metrics import (
    Likelihood,
    Scored,
    corpus_scores,
    repeated_ngrams,
    rouge,
    rouge_words,
    scoring_tokenizer,
    scoring_tokens,
)
from seqloom.runs.generation import Decoding
from seqloom.runs.pair_materials import open_pairs, pair_corpora
from seqloom.runs.seq2seq import TrainedSeq2Seq
from seqloom.version import __version__


@dataclass(frozen=True)
class PairEvaluation:
    """What a model wrote for some sources, and how that compares with the references."""

    sources: list[str]
    references: list[list[str]]
    outputs: list[str]
    scores: dict[str, Scored]


def evaluate_pairs(
    model: TrainedSeq2Seq,
    files: str | list[str] | None = None,
    tokenize: str | None = None,
    limit: int | None = None,
    decoding: Decoding | None = None,
    **options: Any,
) -> PairEvaluation:
    """Decode pairs and score what comes out: BLEU and chrF (sacreBLEU's), ROUGE, perplexity of the references.

    files: as `data.train`; else the run's test pairs, or its validation pairs.
    tokenize: sacreBLEU's tokeniser; chosen by the language of the references when not given.
    limit: so many pairs from the beginning; all when not given.
    Options are those of `Decoding`.

    Pairs with the same source count as one, with all their targets as references.
    """
    pairs = grouped(_corpus(model, files))[:limit]
    if not pairs:
        raise DataError("there are no pairs to evaluate on")
    decoding = decoding or Decoding(**options)
    sources = [pair.source for pair in pairs]
    references = [list(pair.targets) for pair in pairs]
    outputs = [several[0].text for several in model.generate(sources, decoding)]
    scores = text_scores(outputs, references, tokenize)
    likelihood = _likelihood(model, pairs)
    said = f"tokenizer {model.target_tokenizer.kind}; vocabulary {model.target_tokenizer.size}; first references"
    scores["perplexity"] = Scored(likelihood.perplexity, f"{said}; seqloom {__version__}")
    return PairEvaluation(sources, references, outputs, scores)


def text_scores(
    outputs: Sequence[str], references: Sequence[Sequence[str]], tokenize: str | None = None
) -> dict[str, Scored]:
    """The scores of texts alone: BLEU, chrF, exact matches, ROUGE-1, -2 and -L (F), repeated trigrams; in percent."""
    lines = [reference for several in references for reference in several]
    tokenize = tokenize or scoring_tokenizer(lines=lines)
    scores = corpus_scores(outputs, references, tokenize)
    exact = sum(output.split() in map(str.split, each) for output, each in zip(outputs, references, strict=True))
    signature = f"share of outputs that are a reference, spaces aside; seqloom {__version__}"
    scores["exact match"] = Scored(100 * exact / len(outputs), signature)
    spaced = tokenize == "13a"  # ROUGE's own words are Latin letters and digits; other scripts need their tokeniser
    split = rouge_words if spaced else lambda text: scoring_tokens([text], tokenize)[0]
    words = [split(output) for output in outputs]
    several = [[split(reference) for reference in each] for each in references]
    found = rouge(words, several)
    how = "rouge-score's words, no stemming" if spaced else f"sacreBLEU's {tokenize} tokens"
    signature = f"F; best reference; {how}; seqloom {__version__}"
    for name, score in {"ROUGE-1": found.rouge1, "ROUGE-2": found.rouge2, "ROUGE-L": found.rougeL}.items():
        scores[name] = Scored(100 * score.f, signature)
    repeated = float(repeated_ngrams(words, 3).mean())
    scores["repeated trigrams"] = Scored(100 * repeated, f"share of a text's trigrams seen before in it, mean; {how}")
    return scores


def grouped(pairs: Iterable[Pair]) -> list[Pair]:
    """Pairs with the same source as one, in order of first appearance; references that repeat count once."""
    targets: dict[str, dict[str, None]] = {}
    for pair in pairs:
        targets.setdefault(pair.source, {}).update(dict.fromkeys(pair.targets))
    return [Pair(source, tuple(several)) for source, several in targets.items()]


def _corpus(model: TrainedSeq2Seq, files: str | list[str] | None) -> PairCorpus:
    if files is not None:
        return open_pairs(model.config, files)
    test = model.config.pair_data.test
    return open_pairs(model.config, test) if test is not None else pair_corpora(model.config)[1]


def _likelihood(model: TrainedSeq2Seq, pairs: Sequence[Pair]) -> Likelihood:
    scores = model.pair_scores(model.pair_encoder.encode(list(pairs)))
    tokens = sum(score.tokens for score in scores)
    unknown = sum(score.unknown for score in scores)
    log_prob = sum(score.log_prob for score in scores)
    return Likelihood(log_prob, tokens, tokens, tokens, unknown, sum(score.known_log_prob for score in scores))
