"""What all endpoints share: requests without unknown fields, limits of length, waiting for an answer, events."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Any, TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.types import Receive, Scope, Send

from seqloom.runs.capabilities import WritesStepwise
from seqloom.runs.generation import Beginning, Decoding
from seqloom.serving.engine import Job, Writing
from seqloom.serving.errors import ApiError, told
from seqloom.serving.models import Models, Served, Side
from seqloom.serving.settings import Settings
from seqloom.serving.written import Piece, Said, Wish

Result = TypeVar("Result")
Name = Annotated[str | None, Field(description="Which model; the only one, if there is one.")]
Seed = Annotated[int, Field(ge=0, le=10**15, description="Another seed, another result.")]


class Asked(BaseModel):
    """A request. A field that it does not know is refused by its name; one that is `null` is as if left out, as
    OpenAI's clients mean it."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _is_text(cls, data: Any) -> Any:
        """JSON can spell halves of characters, which no text has."""
        try:
            json.dumps(data, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise ValueError("there is text that is not Unicode: half of a surrogate pair") from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        return data

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else data


class House:
    """What endpoints work with."""

    def __init__(self, models: Models, settings: Settings) -> None:
        self.models, self.settings = models, settings

    def check_texts(self, count: int, field: str, what: str = "texts") -> None:
        """Refuse too many texts, or whatever it is, in one request."""
        if count > self.settings.texts:
            said = f"{field}: {count:,} {what} are more than the {self.settings.texts:,} that are allowed at once"
            raise ApiError(422, said, field)

    def check_input(
        self, served: Served, texts: Sequence[str | Sequence[int]], field: str, side: Side = "source"
    ) -> list[int]:
        """Refuse texts that are too long; gives their tokens, of a model of pairs as one side counts them."""
        self.check_texts(len(texts), field)
        tokenizer = served.tokenizer_of(side)
        counts = [
            len(tokenizer.encode(text) if isinstance(text, str) and tokenizer is not None else text) for text in texts
        ]
        self._check_tokens(max(counts, default=0), self.settings.input_tokens, field)
        return counts

    def check_output(self, served: Served, wanted: int | None, before: int, field: str) -> int:
        """Refuse to write more than is allowed, or than there are places for behind what is there before; gives how
        many tokens may be written at most."""
        most, context = self.settings.output_tokens, served.context
        self._check_tokens(wanted or 0, most, field)
        if context is None:
            return most
        least = 1 if wanted is None else wanted
        if before + least > context:
            new = "1 new one do" if least == 1 else f"{least:,} new ones do"
            said = f"{field}: {before:,} tokens and {new} not fit into the model's {context:,} places"
            raise ApiError(422, said, field)
        return min(most, context - before)

    @staticmethod
    def _check_tokens(count: int, most: int, field: str) -> None:
        if count > most:
            raise ApiError(422, f"{field}: {count:,} tokens are more than the {most:,} that are allowed", field)

    def writing(
        self,
        served: Served,
        run: WritesStepwise,
        text: str | Sequence[int],
        decoding: Decoding,
        count: int = 1,
        wish: Wish | None = None,
        prefix: str = "",
    ) -> Writing:
        """A job that writes `count` texts."""

        def begin() -> Sequence[Beginning]:
            first = run.beginning(text, decoding, 0, prefix)
            if not first.varies:
                return [first]
            return [first, *(run.beginning(text, decoding, number, prefix) for number in range(1, count))]

        return Writing(begin, count, wish or Wish(), self.settings.seconds)


class Collected(BaseModel):
    """A whole text."""

    text: str
    said: list[Said]
    ending: str

    @property
    def log_prob(self) -> float:
        """log p of all its tokens."""
        return sum(said.log_prob for said in self.said)


async def collected(job: Writing) -> list[Collected]:
    """All texts of a job, once they are there."""
    texts: list[list[Piece]] = [[] for _ in range(job.count)]
    async for piece in job.pieces():
        texts[piece.number].append(piece)
    return [
        Collected(
            text="".join(piece.text for piece in pieces),
            said=[said for piece in pieces for said in piece.said],
            ending=pieces[-1].ending or "stop",
        )
        for pieces in texts
    ]


async def unless_left(request: Request, work: Coroutine[Any, Any, Result], *jobs: Job) -> Result:
    """What is worked on, by these jobs among others, unless the client leaves: then the work is given up."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ApiError(499, "the client has left")
        return working.result()
    finally:
        let_go(jobs)
        for task in (working, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def let_go(jobs: Iterable[Job]) -> None:
    """Nobody waits for these any more."""
    for job in jobs:
        job.left = True


class Events(StreamingResponse):
    """Objects as server-sent events; an error on the way is the last of them. When the client has left or has all, its
    jobs are let go."""

    def __init__(self, source: AsyncIterator[dict[str, Any] | str], *jobs: Job, names: bool = False) -> None:
        """With `names`, each event says its type."""
        self.jobs = jobs
        super().__init__(_lines(source, names), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            let_go(self.jobs)


async def _lines(source: AsyncIterator[dict[str, Any] | str], names: bool) -> AsyncIterator[str]:
    try:
        async for event in source:
            if isinstance(event, str):
                yield f"data: {event}\n\n"
            else:
                named = f"event: {event['type']}\n" if names else ""
                yield f"{named}data: {to_json(event)}\n\n"
    except Exception as error:
        yield f"data: {to_json(told(error).document)}\n\n"


class Answer(JSONResponse):
    """JSON without infinities: the log-probability of what is impossible is null."""

    def render(self, content: Any) -> bytes:
        return to_json(content).encode()


def to_json(value: Any) -> str:
    """One line of JSON."""
    return json.dumps(finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def finite(value: Any) -> Any:
    """The same with null for numbers that JSON has not."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    return [finite(inner) for inner in value] if isinstance(value, list | tuple) else value
