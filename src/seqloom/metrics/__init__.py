"""From sequences to numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import importing
from seqloom.metrics.bleu import Bleu, bleu, sentence_bleu, sentence_bleus
from seqloom.metrics.bootstrap import PairedBootstrap, paired_bootstrap, paired_bootstrap_bleu
from seqloom.metrics.corpus_scores import Scored, corpus_scores, scoring_tokenizer, scoring_tokens
from seqloom.metrics.ngram_counts import repeated_ngrams
from seqloom.metrics.rouge import Rouge, RougeScore, RougeScores, rouge, rouge_l, rouge_n, rouge_words

if TYPE_CHECKING:
    from seqloom.metrics.likelihood import (
        Likelihood,
        entropy,
        pair_cross_entropy,
        store_likelihood,
        stream_likelihood,
        unit_likelihood,
    )
    from seqloom.metrics.normaliser import log_normalisers

_OF_LIKELIHOOD = {  # imported on first use: they need torch, which takes over a second
    "Likelihood",
    "entropy",
    "pair_cross_entropy",
    "store_likelihood",
    "stream_likelihood",
    "unit_likelihood",
}
__all__ = [
    "Bleu",
    "Likelihood",
    "PairedBootstrap",
    "Rouge",
    "RougeScore",
    "RougeScores",
    "Scored",
    "bleu",
    "corpus_scores",
    "entropy",
    "log_normalisers",
    "pair_cross_entropy",
    "paired_bootstrap",
    "paired_bootstrap_bleu",
    "repeated_ngrams",
    "rouge",
    "rouge_l",
    "rouge_n",
    "rouge_words",
    "scoring_tokenizer",
    "scoring_tokens",
    "sentence_bleu",
    "sentence_bleus",
    "store_likelihood",
    "stream_likelihood",
    "unit_likelihood",
]


_HOMES = dict.fromkeys(_OF_LIKELIHOOD, "seqloom.metrics.likelihood") | {"log_normalisers": "seqloom.metrics.normaliser"}
__getattr__ = importing(__name__, _HOMES)
