"""`/v1/chat/completions` and `/v1/responses`, as OpenAI has them, for models that answer: those with a source.

A model that learned from conversations (`data.history`) reads the turns so far; any other model of pairs reads one
message, and answers with its translation, its summary. Language models have no turns: they are for `/v1/completions`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field, model_validator

from seqloom.data.pairs import TURN
from seqloom.runs.capabilities import Translates, WritesStepwise
from seqloom.runs.generation import BEAM, Decoding
from seqloom.serving.asking import Answer, Asked, Collected, Events, House, Name, collected, unless_left
from seqloom.serving.completions import Choosing, usage
from seqloom.serving.engine import Call, Writing
from seqloom.serving.errors import ApiError
from seqloom.serving.generation import ending
from seqloom.serving.models import Served
from seqloom.serving.written import Likely, Said

RESPONSE_STATUS = {None: "in_progress", "stop": "completed", "length": "incomplete"}
"""What a response is, by why its text ended, if it has."""


class Part(Asked):
    """A part of a message."""

    type: Literal["text", "input_text", "output_text"] = "text"
    text: str


class Turn(Asked):
    """What one side said."""

    role: Literal["user", "assistant"]
    content: str | Annotated[list[Part], Field(min_length=1)]

    @property
    def text(self) -> str:
        """All parts together."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatRequest(Choosing):
    """A conversation to go on with."""

    messages: Annotated[list[Turn], Field(min_length=1)]
    max_tokens: Annotated[int | None, Field(ge=1)] = None
    max_completion_tokens: Annotated[int | None, Field(ge=1)] = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=100)] = 0

    @model_validator(mode="after")
    def _fits(self) -> ChatRequest:
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise ValueError("max_tokens and max_completion_tokens mean the same: give one")
        return self


class ResponsesRequest(Asked):
    """The same in OpenAI's newer form."""

    model: Name = None
    input: str | Annotated[list[Turn], Field(min_length=1)]
    max_output_tokens: Annotated[int | None, Field(ge=1)] = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    stream: bool = False

    def as_chat(self) -> ChatRequest:
        """The same as a chat."""
        turns = [Turn(role="user", content=self.input)] if isinstance(self.input, str) else self.input
        return ChatRequest(
            model=self.model,
            messages=turns,
            max_tokens=self.max_output_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            stream=self.stream,
        )


def router(house: House) -> APIRouter:
    """The endpoints."""
    routes = APIRouter(tags=["OpenAI"])

    @routes.post("/v1/chat/completions", response_class=Answer, summary="The next turn of a conversation")
    async def chat(asked: ChatRequest, request: Request) -> Response:
        answer = Reply(house, asked, "/v1/chat/completions")
        job = answer.begin()
        if asked.stream:
            return Events(answer.chunks(), job)
        return Answer(await unless_left(request, answer.completion(), job))

    @routes.post("/v1/responses", response_class=Answer, summary="The same in OpenAI's newer form")
    async def responses(asked: ResponsesRequest, request: Request) -> Response:
        answer = Reply(house, asked.as_chat(), "/v1/responses")
        job = answer.begin()
        if asked.stream:
            return Events(answer.response_events(), job, names=True)
        return Answer(await unless_left(request, answer.response(), job))

    return routes


class Reply:
    """The answer to one request."""

    def __init__(self, house: House, asked: ChatRequest, path: str) -> None:
        self.house, self.asked = house, asked
        self.number, self.message = f"resp_{uuid.uuid4().hex}", f"msg_{uuid.uuid4().hex}"
        self.served = house.models.named(asked.model)
        run: Any = self.served.able(Translates, path)
        assert isinstance(run, WritesStepwise)
        self.run: Any = run
        self.source = self._source(self.served)
        (self.read,) = house.check_input(self.served, [self.source], "messages")
        house.check_texts(asked.n, "n")
        wanted = asked.max_tokens or asked.max_completion_tokens
        most = house.check_output(self.served, wanted, 0, "max_tokens")
        self.decoding = replace(self._decoding(wanted), at_most=most)
        self.wish = asked.wish(self.served, asked.top_logprobs)
        if self.decoding.searches and (asked.logprobs or self.wish.changes or self.wish.stop):
            raise ApiError(
                400,
                "logprobs, stop, logit_bias and penalties are for texts that are written token by token: give a "
                "temperature (0 takes the likeliest token each time)",
                "temperature",
            )

    def _source(self, served: Served) -> str:
        turns = self.asked.messages
        if turns[-1].role != "user":
            raise ApiError(400, "messages: the last one must be the user's", "messages")
        if not served.turns:
            if len(turns) > 1:
                raise ApiError(
                    400, f"messages: {served.name!r} knows no conversations: give it one message", "messages"
                )
            return turns[0].text
        return TURN.join(turn.text for turn in turns)

    def _decoding(self, length: int | None) -> Decoding:
        """As for `seqloom generate`: a beam, unless the request says how to sample."""
        asked = self.asked
        if asked.temperature is None and asked.top_p is None and asked.top_k is None:
            return Decoding("beam", n_best=asked.n, beam=max(BEAM, asked.n), max_length=length)
        temperature = 1.0 if asked.temperature is None else asked.temperature
        strategy: Literal["greedy", "sample"] = "greedy" if temperature == 0 else "sample"
        return Decoding(
            strategy,
            temperature=temperature,
            top_k=asked.top_k,
            top_p=asked.top_p,
            seed=asked.seed,
            max_length=length,
        )

    def begin(self) -> Call | Writing:
        """Put what is needed into the queue."""
        house, source = self.house, self.source
        if self.decoding.searches:
            self.job: Call | Writing = Call(partial(self.run.generate, source, self.decoding), house.settings.seconds)
        else:
            self.job = house.writing(self.served, self.run, source, self.decoding, self.asked.n, self.wish)
        self.served.engine.ask(self.job)
        return self.job

    async def texts(self) -> list[Collected]:
        """All answers."""
        if isinstance(self.job, Writing):
            return await collected(self.job)
        (found,) = await self.job.next()
        nothing = [Said(0, "", 0.0, [])]
        return [Collected(text=each.text, said=nothing * each.tokens, ending=ending(each)) for each in found]

    async def pieces(self) -> AsyncIterator[tuple[int, str, list[Said], str | None]]:
        """All answers as they are written; what a search found comes in one piece."""
        if isinstance(self.job, Writing):
            async for piece in self.job.pieces():
                yield piece
        else:
            for number, text in enumerate(await self.texts()):
                yield number, text.text, text.said, text.ending

    # ---------------------------------------------------------------------------------------------- completions

    async def completion(self) -> dict[str, Any]:
        """The answer as a chat completion."""
        texts = await self.texts()
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", "content": text.text, "refusal": None},
                "logprobs": self._log_probs(text.said),
                "finish_reason": text.ending,
            }
            for index, text in enumerate(texts)
        ]
        written = sum(len(text.said) for text in texts)
        return {**self._head("chat.completion"), "choices": choices, "usage": usage(self.read, written)}

    async def chunks(self) -> AsyncIterator[dict[str, Any] | str]:
        """The answer piece by piece."""
        head, written = self._head("chat.completion.chunk"), 0
        for index in range(self.asked.n):
            yield self._chunk(head, index, {"role": "assistant", "content": ""}, None, None)
        async for number, text, said, ended in self.pieces():
            written += len(said)
            if text:
                yield self._chunk(head, number, {"content": text}, self._log_probs(said), None)
            if ended is not None:
                yield self._chunk(head, number, {}, None if text else self._log_probs(said), ended)
        if self.asked.usage_asked:
            yield {**head, "choices": [], "usage": usage(self.read, written)}
        yield "[DONE]"

    def _head(self, kind: str) -> dict[str, Any]:
        number = f"chatcmpl-{uuid.uuid4().hex}"
        return {"id": number, "object": kind, "created": int(time.time()), "model": self.served.name}

    @staticmethod
    def _chunk(
        head: dict[str, Any], index: int, delta: dict[str, Any], logprobs: Any, ended: str | None
    ) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": ended}
        return {**head, "choices": [choice]}

    def _log_probs(self, said: list[Said]) -> dict[str, Any] | None:
        if not self.asked.logprobs:
            return None
        content = [{**_token(each), "top_logprobs": [_token(other) for other in each.likeliest]} for each in said]
        return {"content": content, "refusal": None}

    # ------------------------------------------------------------------------------------------------ responses

    async def response(self) -> dict[str, Any]:
        """The answer as a response."""
        (text,) = await self.texts()
        return self._response(self._message(text.text, text.ending), text.ending, len(text.said))

    async def response_events(self) -> AsyncIterator[dict[str, Any] | str]:
        """The answer piece by piece, in numbered events that each have a type."""
        numbers = count()

        def event(kind: str, **fields: Any) -> dict[str, Any]:
            return {"type": f"response.{kind}", "sequence_number": next(numbers), **fields}

        begun = self._message("", None)
        item = {"output_index": 0}
        part = {"item_id": self.message, **item, "content_index": 0}
        yield event("created", response=self._response(begun, None, 0))
        yield event("in_progress", response=self._response(begun, None, 0))
        yield event("output_item.added", **item, item=begun)
        yield event("content_part.added", **part, part=self._content(""))
        whole, written, why = "", 0, "stop"
        async for _, text, said, ended in self.pieces():
            whole, written, why = whole + text, written + len(said), ended or why
            if text:
                yield event("output_text.delta", **part, delta=text, logprobs=[])
        message = self._message(whole, why)
        yield event("output_text.done", **part, text=whole, logprobs=[])
        yield event("content_part.done", **part, part=self._content(whole))
        yield event("output_item.done", **item, item=message)
        response = self._response(message, why, written)
        yield event(response["status"], response=response)

    @staticmethod
    def _content(text: str) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def _message(self, text: str, why: str | None) -> dict[str, Any]:
        """What the model says; `why` it ended, once it has."""
        content = [] if why is None else [self._content(text)]
        status = RESPONSE_STATUS[why]
        return {"type": "message", "id": self.message, "status": status, "role": "assistant", "content": content}

    def _response(self, message: dict[str, Any], why: str | None, written: int) -> dict[str, Any]:
        counted = {
            "input_tokens": self.read,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.read + written,
        }
        return {
            "id": self.number,
            "object": "response",
            "created_at": int(time.time()),
            "status": RESPONSE_STATUS[why],
            "model": self.served.name,
            "output": [] if why is None else [message],
            "parallel_tool_calls": False,
            "tool_choice": "none",
            "tools": [],
            "temperature": self.asked.temperature,
            "top_p": self.asked.top_p,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if why == "length" else None,
            "instructions": None,
            "metadata": {},
            "usage": None if why is None else counted,
        }


def _token(each: Said | Likely) -> dict[str, Any]:
    return {"token": each.text, "logprob": each.log_prob, "bytes": list(each.text.encode())}
