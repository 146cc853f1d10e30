"""What all endpoints share: requests without unknown fields, limits of length, waiting for an answer, events."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import suppress
from typing import Annotated, Any, TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from seqloom.runs.capabilities import WritesStepwise
from seqloom.runs.generation import Beginning, Decoding
from seqloom.serving.engine import Writing
from seqloom.serving.errors import ApiError, told
from seqloom.serving.models import Models, Served
from seqloom.serving.settings import Settings
from seqloom.serving.written import Piece, Said, Wish

Result = TypeVar("Result")
Name = Annotated[str | None, Field(description="Which model; the only one, if there is one.")]
Seed = Annotated[int, Field(ge=0, le=10**15, description="Another seed, another result.")]


class Asked(BaseModel):
    """A request. A field that it does not know is refused by its name."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _is_text(cls, data: Any) -> Any:
        """JSON can spell halves of characters, which no text has."""
        try:
            json.dumps(data, ensure_ascii=False, default=str).encode()
        except (UnicodeEncodeError, RecursionError):
            raise ValueError("there is text that is not Unicode: half of a surrogate pair") from None
        return data


class House:
    """What endpoints work with."""

    def __init__(self, models: Models, settings: Settings) -> None:
        self.models, self.settings = models, settings

    def check_texts(self, count: int, field: str) -> None:
        """Refuse too many texts in one request."""
        if count > self.settings.texts:
            raise ApiError(422, f"{field}: {count:,} texts, and {self.settings.texts:,} are the most at once", field)

    def check_input(self, served: Served, texts: Sequence[str | Sequence[int]], field: str) -> list[int]:
        """Refuse texts that are too long; gives their tokens."""
        self.check_texts(len(texts), field)
        most, tokenizer = self.settings.input_tokens, served.tokenizer
        counts = [
            len(tokenizer.encode(text) if isinstance(text, str) and tokenizer is not None else text) for text in texts
        ]
        if max(counts, default=0) > most:
            raise ApiError(422, f"{field}: {max(counts):,} tokens, and {most:,} are the most", field)
        return counts

    def check_output(self, served: Served, wanted: int | None, before: int, field: str) -> int | None:
        """Refuse to write more than is allowed, or than there are places for; what may be written if nothing was
        said."""
        most, context = self.settings.output_tokens, served.context
        if wanted is not None and wanted > most:
            raise ApiError(422, f"{field}: {wanted:,} tokens, and {most:,} are the most", field)
        if context is None:
            return wanted
        room = context - before - 1
        if room < (wanted or 1):
            raise ApiError(
                422, f"{field}: {before:,} tokens and {wanted or 1:,} new ones: the model has {context:,} places", field
            )
        return wanted if wanted is not None else min(room, 100)

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
        """A job that writes `count` texts, put into the queue."""

        def begin() -> Sequence[Beginning]:
            first = run.beginning(text, decoding, 0, prefix)
            if not first.varies:
                return [first]
            return [first, *(run.beginning(text, decoding, number, prefix) for number in range(1, count))]

        job = Writing(begin, count, wish or Wish(), self.settings.seconds)
        served.engine.ask(job)
        return job


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
    try:
        async for piece in job.pieces():
            texts[piece.number].append(piece)
    finally:
        job.left = True
    return [
        Collected(
            text="".join(piece.text for piece in pieces),
            said=[said for piece in pieces for said in piece.said],
            ending=pieces[-1].ending or "stop",
        )
        for pieces in texts
    ]


async def together(*work: Coroutine[Any, Any, Result]) -> list[Result]:
    """Several things at the same time; if one fails, the others are given up."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_kept(each)) for each in work]
    results = [task.result() for task in tasks]
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results  # type: ignore[return-value]


async def _kept(work: Coroutine[Any, Any, Result]) -> Result | Exception:
    """A result, or the error instead: a group of tasks would wrap it."""
    try:
        return await work
    except Exception as error:
        return error


async def unless_left(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """What is worked on, unless the client leaves: then the work is given up."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ApiError(499, "the client has left")
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def events(source: AsyncIterator[dict[str, Any] | str], names: bool = False) -> StreamingResponse:
    """Objects as server-sent events; an error on the way is the last of them. With `names`, each says its type."""

    async def lines() -> AsyncIterator[str]:
        try:
            async for event in source:
                if isinstance(event, str):
                    yield f"data: {event}\n\n"
                else:
                    named = f"event: {event['type']}\n" if names else ""
                    yield f"{named}data: {to_json(event)}\n\n"
        except Exception as error:
            yield f"data: {to_json(told(error).document)}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


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
