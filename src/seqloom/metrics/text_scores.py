"""All scores of texts against references: BLEU, chrF, ROUGE, exact matches, repetition."""

from __future__ import annotations

from collections.abc import Sequence

from seqloom.metrics.bleu import bleu
from seqloom.metrics.corpus_scores import Scored, corpus_scores, scoring_tokenizer, scoring_tokens
from seqloom.metrics.ngram_counts import repeated_ngrams
from seqloom.metrics.rouge import rouge, rouge_words
from seqloom.version import __version__


def text_scores(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: str | None = None,
    bleu_weights: Sequence[float] | None = None,
) -> dict[str, Scored]:
    """The scores of texts alone: BLEU, chrF, exact matches, ROUGE-1, -2 and -L (F), repeated trigrams; in percent.

    bleu_weights: how much each order of n-grams counts, for a BLEU of one's own beside sacreBLEU's.
    """
    lines = [reference for several in references for reference in several]
    tokenize = tokenize or scoring_tokenizer(lines=lines)
    scores = corpus_scores(outputs, references, tokenize)
    if bleu_weights is not None:
        scores["weighted BLEU"] = weighted_bleu(outputs, references, bleu_weights, tokenize)
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


def weighted_bleu(
    outputs: Sequence[str], references: Sequence[Sequence[str]], weights: Sequence[float], tokenize: str
) -> Scored:
    """BLEU with weights of one's own for the orders, all else as in sacreBLEU's: equal to it for four equal weights."""
    tokens = scoring_tokens(outputs, tokenize)
    several = [scoring_tokens(each, tokenize) for each in references]
    found = bleu(tokens, several, weights=weights, smoothing="exp")
    shown = ", ".join(f"{weight:g}" for weight in weights)
    signature = f"BLEU, orders 1 to {len(weights)} weighted {shown}; smooth exp; sacreBLEU's {tokenize} tokens"
    return Scored(100 * found.score, f"{signature}; seqloom {__version__}")
