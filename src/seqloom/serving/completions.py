"""`/v1/completions`, as OpenAI has it: what comes after a prompt, and how probable every token is."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field, model_validator

from seqloom.decoding.limits import IMPOSSIBLE
from seqloom.decoding.prompts import check_prompts
from seqloom.decoding.top import top
from seqloom.errors import shown
from seqloom.runs.capabilities import Continues, WritesStepwise
from seqloom.runs.generation import Decoding
from seqloom.serving.asking import Answer, Asked, Collected, Events, House, Name, Seed, collected, unless_left
from seqloom.serving.engine import Call, Writing
from seqloom.serving.errors import ApiError
from seqloom.serving.models import Served
from seqloom.serving.written import Likely, Said, Wish
from seqloom.text.special import BOS, SPECIALS

Tokens = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
Stop = Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=16)]
Penalty = Annotated[float, Field(ge=-2, le=2)]


class StreamOptions(Asked):
    """What else a stream tells."""

    include_usage: bool = False
    """A last event counts the tokens."""


class Choosing(Asked):
    """How tokens are chosen; what OpenAI's requests have in common."""

    model: Name = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    top_k: Annotated[int | None, Field(ge=1, le=10**6)] = None
    seed: Seed = 0
    n: Annotated[int, Field(ge=1)] = 1
    stop: Annotated[str, Field(min_length=1)] | Stop | None = None
    presence_penalty: Penalty = 0.0
    frequency_penalty: Penalty = 0.0
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None

    def wish(self, served: Served, likeliest: int) -> Wish:
        """What the texts shall be like."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        bias = {}
        for name, amount in (self.logit_bias or {}).items():
            size = served.trained.model.vocabulary_size
            if not name.isdecimal() or len(name) > len(str(size)) or int(name) >= size:
                said = f"logit_bias: {shown(name)} is no token; they are numbered 0 to {size - 1}"
                raise ApiError(400, said, "logit_bias")
            bias[int(name)] = amount
        return Wish(stop, bias, self.presence_penalty, self.frequency_penalty, likeliest)

    @property
    def usage_asked(self) -> bool:
        """Whether a stream ends with a count of tokens."""
        return self.stream_options is not None and self.stream_options.include_usage


class CompletionRequest(Choosing):
    """What to go on from, and how."""

    prompt: str | Annotated[list[str], Field(min_length=1)] | Tokens | Annotated[list[Tokens], Field(min_length=1)] = ""
    max_tokens: Annotated[int, Field(ge=0)] = 16
    echo: bool = False
    """Give back the prompt too; with `logprobs`, how probable its tokens are."""
    logprobs: Annotated[int | None, Field(ge=0, le=100)] = None
    """So many alternatives beside each token."""
    best_of: Annotated[int | None, Field(ge=1)] = None
    """Write so many, and give the `n` most probable per token."""

    @model_validator(mode="after")
    def _fits(self) -> CompletionRequest:
        if self.best_of is not None and self.best_of < self.n:
            raise ValueError(f"best_of {self.best_of} is less than n {self.n}")
        if self.stream and (self.best_of or 0) > self.n:
            raise ValueError("best_of chooses among whole texts: they cannot be streamed")
        if self.stream and self.echo and self.logprobs is not None:
            raise ValueError("echo with logprobs cannot be streamed: leave one of them out")
        if self.max_tokens == 0 and not self.echo:
            raise ValueError("max_tokens 0 writes nothing; with echo it scores the prompt")
        return self

    @property
    def prompts(self) -> list[str | list[int]]:
        """One or several."""
        if isinstance(self.prompt, str) or isinstance(self.prompt[0], int):
            return [self.prompt]
        return list(self.prompt)

    def decoding(self) -> Decoding:
        """How tokens are chosen, the same for all prompts."""
        temperature = 1.0 if self.temperature is None else self.temperature
        return Decoding(
            "greedy" if temperature == 0 else "sample",
            temperature=temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            max_length=max(1, self.max_tokens),
            seed=self.seed,
        )


def router(house: House) -> APIRouter:
    """The endpoint."""
    routes = APIRouter(tags=["OpenAI"])

    @routes.post("/v1/completions", response_class=Answer, summary="What comes after a prompt")
    async def completions(asked: CompletionRequest, request: Request) -> Response:
        served = house.models.named(asked.model)
        run = served.able(Continues, "/v1/completions")
        assert isinstance(run, WritesStepwise)
        house.check_texts(len(asked.prompts) * (asked.best_of or asked.n), "n")
        counts = house.check_input(served, asked.prompts, "prompt")
        tokens = [bare(prompt) for prompt in asked.prompts if not isinstance(prompt, str)]
        check_prompts(tokens, served.trained.model.vocabulary_size)
        for count in counts:
            house.check_output(served, asked.max_tokens, count, "max_tokens")
        completion = Completion(house, served, asked)
        jobs = completion.begin()
        if asked.stream:
            return Events(completion.streamed(counts), *jobs)
        return Answer(await unless_left(request, completion.whole(counts), *jobs))

    return routes


class Completion:
    """The answer to one request."""

    def __init__(self, house: House, served: Served, asked: CompletionRequest) -> None:
        self.house, self.served, self.asked = house, served, asked
        self.wish = asked.wish(served, asked.logprobs or 0)
        self.echoes: list[Call] = []
        """The scores of the prompts, where these are to be given back with them."""
        self.texts: list[Writing] = []
        """What is written after the prompts; none where nothing is."""
        self.head = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": served.name,
        }

    def begin(self) -> list[Call | Writing]:
        """Put all that is needed into the queue."""
        asked, seconds = self.asked, self.house.settings.seconds
        if asked.echo and asked.logprobs is not None:
            scores = (partial(prompt_scores, self.served, prompt, asked.logprobs) for prompt in asked.prompts)
            self.echoes = [Call(score, seconds) for score in scores]
        if asked.max_tokens:
            self.texts = [self._writing(prompt) for prompt in asked.prompts]
        jobs: list[Call | Writing] = [*self.echoes, *self.texts]
        if jobs:
            self.served.engine.ask(*jobs)
        return jobs

    def _writing(self, prompt: str | Sequence[int]) -> Writing:
        run: Any = self.served.trained
        count = self.asked.best_of or self.asked.n
        given = prompt if isinstance(prompt, str) else bare(prompt)
        return self.house.writing(self.served, run, given, self.asked.decoding(), count, self.wish)

    async def whole(self, counts: list[int]) -> dict[str, Any]:
        """All texts of all prompts."""
        choices, written = [], 0
        for number, prompt in enumerate(self.asked.prompts):
            echoed: list[Said] = await self.echoes[number].next() if self.echoes else []
            texts = await self._texts(number)
            written += sum(len(text.said) for text in texts)
            if self.asked.best_of:
                texts = sorted(texts, key=lambda text: -text.log_prob / max(1, len(text.said)))[: self.asked.n]
            choices += [self._choice(self._echo(prompt), echoed, text) for text in texts]
        for index, choice in enumerate(choices):
            choice["index"] = index
        return {**self.head, "choices": choices, "usage": usage(sum(counts), written)}

    async def _texts(self, number: int) -> list[Collected]:
        """What was written after the prompt of this number."""
        if self.texts:
            return await collected(self.texts[number])
        return [Collected(text="", said=[], ending="length")] * self.asked.n

    def _echo(self, prompt: str | Sequence[int]) -> str:
        """What is given back of a prompt."""
        if not self.asked.echo:
            return ""
        run: Any = self.served.trained
        return prompt if isinstance(prompt, str) else run.tokenizer.decode(list(bare(prompt)))

    def _choice(self, before: str, echoed: list[Said], text: Collected) -> dict[str, Any]:
        logprobs = None
        if self.asked.logprobs is not None:
            logprobs = token_table([*echoed, *text.said], before + text.text)
        return {"text": before + text.text, "index": 0, "logprobs": logprobs, "finish_reason": text.ending}

    async def streamed(self, counts: list[int]) -> AsyncIterator[dict[str, Any] | str]:
        """The texts piece by piece, one prompt after the other."""
        written, each = 0, self.asked.n
        for number, prompt in enumerate(self.asked.prompts):
            ending = None if self.texts else "length"
            if self.asked.echo:
                for index in range(number * each, (number + 1) * each):
                    yield self._event(index, self._echo(prompt), None, ending)
            if not self.texts:
                continue
            offsets = [0] * each
            async for piece in self.texts[number].pieces():
                logprobs = None
                if self.asked.logprobs is not None:
                    logprobs = token_table(piece.said, piece.text, offsets[piece.number])
                offsets[piece.number] += len(piece.text)
                written += len(piece.said)
                yield self._event(number * each + piece.number, piece.text, logprobs, piece.ending)
        if self.asked.usage_asked:
            yield {**self.head, "choices": [], "usage": usage(sum(counts), written)}
        yield "[DONE]"

    def _event(self, index: int, text: str, logprobs: Any, ending: str | None) -> dict[str, Any]:
        choice = {"text": text, "index": index, "logprobs": logprobs, "finish_reason": ending}
        return {**self.head, "choices": [choice]}


def bare(prompt: Sequence[int]) -> Sequence[int]:
    """The tokens of a prompt without the `<bos>` that some clients put first: it is there anyway."""
    return prompt[1:] if prompt[0] == BOS else prompt


def usage(read: int, written: int) -> dict[str, int]:
    """How many tokens there were."""
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def token_table(said: Sequence[Said], text: str, offset: int = 0) -> dict[str, Any]:
    """Tokens in columns: what each is, its log-probability, the likeliest at its place, where it begins in the text.

    Where a token is not written as it is called (a space before it, a part of a character), it begins where the text
    is that was written before it.
    """
    offsets, place = [], 0
    for each in said:
        found = text.find(each.text, place)
        offsets.append(offset + (found if found >= 0 else place))
        place = found + len(each.text) if found >= 0 else place
    return {
        "tokens": [each.text for each in said],
        "token_logprobs": [each.log_prob for each in said],
        "top_logprobs": [{other.text: other.log_prob for other in each.likeliest} for each in said],
        "text_offset": offsets,
    }


def prompt_scores(served: Served, prompt: str | list[int], likeliest: int) -> list[Said]:
    """The tokens of a prompt with their log-probabilities, as `seqloom score` has them, and so many of the likeliest
    at each place."""
    import torch

    run: Any = served.trained
    ids = run.tokenizer.encode(prompt) if isinstance(prompt, str) else list(bare(prompt))
    names = run.tokenizer.pieces(prompt) if isinstance(prompt, str) else run.tokenizer.tokens(ids)
    began = [Said(BOS, SPECIALS[BOS], math.nan, [])] if not isinstance(prompt, str) and prompt[0] == BOS else []
    others: list[list[Likely]] = [[] for _ in ids]
    if likeliest and ids:
        with torch.inference_mode():
            state = run.model.start(1, run.sources([0], 0))
            for place, token in enumerate([BOS, *ids[:-1]]):
                log_probs, state = run.model.step(state, torch.tensor([token], device=run.device))
                values, tokens = top(log_probs.float(), min(likeliest, log_probs.shape[1]))
                called = run.tokenizer.tokens(tokens[0].tolist())
                rows = zip(tokens[0].tolist(), called, values[0].tolist(), strict=True)
                others[place] = [Likely(*row) for row in rows if row[-1] > IMPOSSIBLE]
    log_probs = run.token_log_probs(ids)
    said = zip(ids, names, np.asarray(log_probs, float).tolist(), others, strict=True)
    return [*began, *(Said(*each) for each in said)]
