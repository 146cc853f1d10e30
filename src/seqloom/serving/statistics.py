"""`/v1/data`: what the text is made of that a run learned from, as `seqloom stats` counts it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from fastapi import APIRouter
from fastapi.responses import Response

from seqloom.config.schema.data import CaptionData, LabelledData, PairFiles, TaggedData, TextFiles
from seqloom.config.schema.tasks import TaskData
from seqloom.data.captions import caption_rows
from seqloom.data.materials import open_captions, open_pairs, open_text, read_examples
from seqloom.errors import DataError, UserError
from seqloom.serving.asking import Answer, House, Name
from seqloom.serving.errors import ApiError
from seqloom.serving.models import Served
from seqloom.text.statistics import CorpusStatistics

READ = 20_000_000  # characters that are counted at most
WORDS, BIGRAMS, POINTS = 30, 15, 60


def router(house: House) -> APIRouter:
    """The endpoint."""
    routes = APIRouter(tags=["runs"])
    counting: dict[str, asyncio.Task[dict[str, Any]]] = {}

    @routes.get("/v1/data", response_class=Answer, summary="What the text of a run is made of")
    async def data(model: Name = None) -> Response:
        served = house.models.named(model)
        served.check("/v1/data")
        task = counting.get(served.name)
        if task is None:  # once for all who ask, and for the others if one of them leaves
            task = counting[served.name] = asyncio.create_task(asyncio.to_thread(counted, served))
        try:
            return Answer({"model": served.name, **await asyncio.shield(task)})
        except UserError as error:
            counting.pop(served.name, None)  # the files may come back
            raise ApiError(404 if isinstance(error, DataError) else 400, str(error), "model") from None

    return routes


def counted(served: Served) -> dict[str, Any]:
    """Words, pairs of words, and Zipf's law."""
    config = served.trained.config
    if config.description.startswith("read from "):
        raise DataError(f"model {served.name!r} was {config.description}: there is no text that it learned from here")
    parts = config.data.tasks if isinstance(config.data, TaskData) else [config.data]
    texts = Beginning(text for part in parts for text in texts_of(part))
    found = CorpusStatistics.of(texts)
    fit, frequencies = found.zipf(), found.frequencies()
    ranks = np.unique(np.geomspace(1, len(frequencies), POINTS).round().astype(np.int64))
    names = [name for part in parts for name in ([part.train] if isinstance(part.train, str) else part.train)]
    return {
        "files": list(dict.fromkeys(names)),
        "side": "source" if any(isinstance(part, PairFiles) for part in parts) else None,
        "whole": texts.whole,
        "words": found.words,
        "distinct": found.distinct_words,
        "top": [{"word": word, "count": count} for word, count in found.top_words(WORDS)],
        "bigrams": [{"word": " ".join(gram), "count": count} for gram, count in found.top_ngrams(2, BIGRAMS)],
        "zipf": {
            "exponent": fit.exponent,
            "points": [[rank, int(frequencies[rank - 1])] for rank in ranks.tolist()],
            "fitted": [[rank, float(fit.frequency(rank))] for rank in ranks.tolist()],
        },
    }


class Beginning:
    """The first texts, so many that they have `READ` characters."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = texts
        self.whole = True
        """Whether these were all."""

    def __iter__(self) -> Iterator[str]:
        read = 0
        for text in self.texts:
            if read + len(text) > READ:
                self.whole = False
                yield text[: READ - read]
                return
            read += len(text)
            yield text


def texts_of(data: Any) -> Iterator[str]:
    """The texts of training data: of pairs the sources, of images the captions."""
    if isinstance(data, TextFiles):
        corpus = open_text(data, data.train)
        large = sum(path.stat().st_size for path in corpus.paths) > READ
        return iter(replace(corpus, unit="line") if large and corpus.unit == "file" else corpus)
    if isinstance(data, PairFiles):
        if data.history is not None:  # each turn once, and not as often as it stands in a history
            return open_pairs(data.model_copy(update={"history": 1}), data.train).sources()
        return open_pairs(data, data.train).sources()
    if isinstance(data, LabelledData | TaggedData):
        return (example.text for example in read_examples(data, data.train))
    assert isinstance(data, CaptionData)
    if data.train.partition(":")[0] == "scenes":
        return (caption for several in open_captions(data, data.train).captions for caption in several)
    return (caption for _, _, caption in caption_rows(data.train)[1])
