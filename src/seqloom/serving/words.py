"""`/v1/words`: what word vectors say: what is near, a is to b as c is to what, a map."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field, model_validator

from seqloom.models.word_vectors import Near, WordVectors
from seqloom.reports.word_places import FEWEST, WordPlaces, frequent
from seqloom.runs.capabilities import HasWordVectors
from seqloom.serving.asking import Answer, Asked, House, Name, unless_left
from seqloom.serving.errors import ApiError

MOST = 1000  # words of an answer

Word = Annotated[str, Field(min_length=1, max_length=1000)]


class WordsRequest(Asked):
    """What to ask word vectors: for the neighbours of words, an analogy, or a map."""

    model: Name = None
    do: Literal["neighbours", "analogy", "map"]
    words: Annotated[list[Word], Field(min_length=1, max_length=MOST)] | None = None
    """Those whose neighbours are asked for, or that stand on the map; without any, it has the most frequent ones."""
    a: Word | None = None
    """Analogy: a is to b as c is to what?"""
    b: Word | None = None
    c: Word | None = None
    n: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """How many words: 10 neighbours, 5 of an analogy, 300 on a map, unless it is given."""

    @model_validator(mode="after")
    def _fits(self) -> WordsRequest:
        asked = [self.a, self.b, self.c]
        if self.do == "analogy" and (None in asked or self.words is not None):
            raise ValueError("analogy takes a, b and c, and no words")
        if self.do != "analogy" and asked != [None] * 3:
            raise ValueError(f"a, b and c are for an analogy, not for {self.do}")
        if self.do == "neighbours" and self.words is None:
            raise ValueError("neighbours takes words")
        if self.do == "map" and self.words is not None and self.n is not None:
            raise ValueError("map takes words, or n of the most frequent ones, not both")
        return self


def router(house: House) -> APIRouter:
    """The endpoint."""
    routes = APIRouter(tags=["text"])

    @routes.post("/v1/words", response_class=Answer, summary="What word vectors say of words")
    async def words(asked: WordsRequest, request: Request) -> Response:
        served = house.models.named(asked.model)
        vectors = served.able(HasWordVectors, "/v1/words").vectors
        if asked.do == "neighbours":
            house.check_texts(len(asked.words or ()), "words")
        work = served.engine.call(lambda: ANSWERS[asked.do](vectors, asked), house.settings.seconds)
        return Answer({"model": served.name, **await unless_left(request, work)})

    return routes


def neighbours(vectors: WordVectors, asked: WordsRequest) -> dict[str, Any]:
    """The nearest words of each word."""
    found = [(word, vectors.neighbours(word, asked.n or 10)) for word in asked.words or ()]
    return {"neighbours": [{"word": word, "near": records(near)} for word, near in found]}


def analogy(vectors: WordVectors, asked: WordsRequest) -> dict[str, Any]:
    """a is to b as c is to these."""
    return {"words": records(vectors.analogy(asked.a or "", asked.b or "", asked.c or "", asked.n or 5))}


def on_a_map(vectors: WordVectors, asked: WordsRequest) -> dict[str, Any]:
    """Words where `seqloom words map` draws them, but for those whose names it leaves out."""
    words = list(dict.fromkeys(asked.words)) if asked.words is not None else frequent(vectors, asked.n or 300)
    if len(words) < FEWEST:
        raise ApiError(400, f"words: there are {len(words)}, and a map needs {FEWEST}", "words")
    found = WordPlaces.of(vectors, words)
    places = (found.places / (len(words) - 1)).tolist()
    rows = zip(words, places, found.shown.tolist(), strict=True)
    return {"points": [{"word": word, "x": x, "y": y} for word, (x, y), shown in rows if shown]}


ANSWERS = {"neighbours": neighbours, "analogy": analogy, "map": on_a_map}


def records(found: Near) -> list[dict[str, Any]]:
    """Words with their cosines."""
    return [{"word": word, "similarity": cosine} for word, cosine in found]
