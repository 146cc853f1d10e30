"""Scores of a captioner: what it writes about images against what people wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seqloom.data.captions import CaptionedImages
from seqloom.metrics import Likelihood, Scored
from seqloom.runs.caption_materials import held_out_captions
from seqloom.runs.captions import Caption, TrainedCaptioner
from seqloom.runs.evaluation import text_scores
from seqloom.runs.generation import Decoding
from seqloom.version import __version__


@dataclass(frozen=True)
class CaptionEvaluation:
    """What a model wrote about some images, and how that compares with their own captions."""

    captioned: CaptionedImages
    outputs: list[Caption]
    scores: dict[str, Scored]


def evaluate_captions(
    model: TrainedCaptioner,
    source: str | None = None,
    tokenize: str | None = None,
    limit: int | None = None,
    decoding: Decoding | None = None,
    **options: Any,
) -> CaptionEvaluation:
    """Caption images and score what comes out: exact matches, BLEU, chrF and ROUGE with all captions of an image as
    references, and the perplexity of these.

    source: as `data.train`; else the run's test images, or its validation images.
    tokenize: sacreBLEU's tokeniser; chosen by the language of the captions when not given.
    limit: so many images from the beginning; all when not given.
    Options are those of `Decoding`.
    """
    found = held_out_captions(model.config, source)
    captioned = CaptionedImages(found.images[:limit], found.captions[:limit])
    outputs = [several[0] for several in model.generate(captioned.images, decoding, **options)]
    scores = text_scores([output.text for output in outputs], captioned.captions, tokenize)
    said = f"tokenizer {model.tokenizer.kind}; vocabulary {model.tokenizer.size}; all captions"
    scores["perplexity"] = Scored(_likelihood(model, captioned).perplexity, f"{said}; seqloom {__version__}")
    return CaptionEvaluation(captioned, outputs, scores)


def _likelihood(model: TrainedCaptioner, captioned: CaptionedImages) -> Likelihood:
    scores = model.caption_scores(captioned)
    tokens = sum(score.tokens for score in scores)
    unknown = sum(score.unknown for score in scores)
    log_prob = sum(score.log_prob for score in scores)
    return Likelihood(log_prob, tokens, tokens, tokens, unknown, sum(score.known_log_prob for score in scores))
