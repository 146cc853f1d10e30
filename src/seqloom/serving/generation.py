"""`/v1/generate` and `/v1/translate`: all ways of decoding, with what a model looked at and how it searched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import fields, replace
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field, model_validator

from seqloom.decoding.prompts import check_prompts
from seqloom.decoding.tree import Tree
from seqloom.runs.capabilities import Translates, WritesStepwise
from seqloom.runs.generation import BEAM, Beginning, Decoding, Generated, Strategy
from seqloom.serving.asking import Answer, Asked, Events, House, Name, Seed, collected, unless_left
from seqloom.serving.engine import Call, Writing
from seqloom.serving.errors import ApiError
from seqloom.serving.models import Served
from seqloom.serving.reading import listed
from seqloom.serving.written import Ending, Said, Wish

TOGETHER = 16  # texts that are translated at once, while others wait for their next token
Count = Annotated[int, Field(ge=1, le=10**4)]


class Decoded(Asked):
    """How to choose, as the options of `seqloom generate`."""

    strategy: Strategy | None = None
    beam: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] = 1.0
    top_k: Annotated[int | None, Field(ge=1, le=10**6)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    max_length: Annotated[int | None, Field(ge=1)] = None
    min_length: Annotated[int, Field(ge=0)] = 0
    length_penalty: Annotated[float, Field(ge=0, le=100)] = 0.6
    coverage_penalty: Annotated[float, Field(ge=0, le=100)] = 0.0
    n_best: Annotated[int, Field(ge=1)] = 1
    seed: Seed = 0
    unknown: bool = False
    replace_unknown: bool = False

    def decoding(self) -> Decoding:
        """The same for a model, which is stepped as it is, in float32."""
        asked = (each.name for each in fields(Decoding) if each.name in Decoded.model_fields)
        return Decoding(**{name: getattr(self, name) for name in asked})


class GenerateRequest(Decoded):
    """What to go on from, or a source, and how."""

    model: Name = None
    prompt: str | Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] = ""
    """A text; language models take its tokens too, to go on from them exactly."""
    prefix: str = ""
    """Models with a source: what the text shall begin with."""
    attention: bool = False
    """Models with a source: where the model looked for each token."""
    tree: bool = False
    """Beam search: every sequence that was in the beam."""
    likeliest: Annotated[int, Field(ge=0, le=20)] = 0
    """Tell of every token, and of so many that are likeliest at its place."""
    stream: bool = False

    @model_validator(mode="after")
    def _fits(self) -> GenerateRequest:
        if self.stream and (self.attention or self.tree):
            raise ValueError("attention and tree belong to whole texts: they cannot be streamed")
        if self.tree and (self.attention or self.replace_unknown):
            raise ValueError("a tree shows tokens as they were searched: leave attention and replace_unknown out")
        return self


class TranslateRequest(Asked):
    """Texts to translate, as LibreTranslate takes them."""

    q: str | list[str]
    source: Annotated[str, Field(min_length=1, max_length=32)] = "auto"
    target: Annotated[str | None, Field(min_length=1, max_length=32)] = None
    """With the source: which model, by the end of its name: en-zh, say."""
    format: Literal["text"] = "text"
    alternatives: Annotated[int, Field(ge=0)] = 0
    model: Name = None


def router(house: House) -> APIRouter:
    """The endpoints."""
    routes = APIRouter(tags=["text"])

    @routes.post("/v1/generate", response_class=Answer, summary="Texts by any decoder")
    async def generate(asked: GenerateRequest, request: Request) -> Response:
        served = house.models.named(asked.model)
        run = served.able(WritesStepwise, "/v1/generate")
        generation = Generation(house, served, run, asked)
        job = generation.begin()
        if asked.stream:
            return Events(generation.streamed(job), job)
        return Answer(await unless_left(request, generation.whole(job), job))

    @routes.post("/v1/translate", response_class=Answer, summary="Targets of sources")
    async def translate(asked: TranslateRequest, request: Request) -> Response:
        texts = listed(asked.q)
        served = translator(house, asked)
        run = served.able(Translates, "/v1/translate")
        house.check_texts(len(texts) * (1 + asked.alternatives), "q")
        house.check_input(served, texts, "q")
        most = house.check_output(served, None, 0, "q")
        decoding = Decoding(n_best=1 + asked.alternatives, beam=max(BEAM, 1 + asked.alternatives), at_most=most)
        parts = [texts[first : first + TOGETHER] for first in range(0, len(texts), TOGETHER)]
        jobs = [Call(partial(run.generate, part, decoding), house.settings.seconds) for part in parts]
        if jobs:
            served.engine.ask(*jobs)

        async def all_of_them() -> list[list[str]]:
            return [[each.text for each in several] for job in jobs for several in await job.next()]

        found = await unless_left(request, all_of_them(), *jobs)
        best, others = [several[0] for several in found], [several[1:] for several in found]
        single = isinstance(asked.q, str)
        answer: dict[str, Any] = {"translatedText": best[0] if single else best}
        if asked.alternatives:
            answer["alternatives"] = others[0] if single else others
        return Answer(answer)

    return routes


def translator(house: House, asked: TranslateRequest) -> Served:
    """The model that a request for a translation means: the one that is named, or whose name ends with languages."""
    if asked.target is None:
        if asked.source != "auto":
            raise ApiError(400, "source: it goes with a target, in the place of a model", "source")
        return house.models.named(asked.model)
    if asked.model is not None:
        raise ApiError(400, "target: give a model, or source and target, not both", "target")
    languages = asked.target if asked.source == "auto" else f"{asked.source}-{asked.target}"
    found = [served for served in house.models.all() if f"-{served.name}".endswith(f"-{languages}")]
    if len(found) != 1:
        said = "no model's name ends" if not found else "the names of several models end"
        raise ApiError(400, f"target: {said} with {languages!r}: name a model instead", "target")
    return found[0]


class Generation:
    """The answer to one request."""

    def __init__(self, house: House, served: Served, run: WritesStepwise, asked: GenerateRequest) -> None:
        self.house, self.served, self.run, self.asked = house, served, run, asked
        of_pairs = isinstance(run, Translates)
        (read,) = house.check_input(served, [asked.prompt], "prompt")
        if not isinstance(asked.prompt, str):
            if of_pairs:
                raise ApiError(400, "prompt: a source is a text; language models go on from tokens", "prompt")
            check_prompts([asked.prompt], served.trained.model.vocabulary_size)
        if asked.prefix and not of_pairs:
            raise ApiError(400, "prefix: a language model has no source; put it at the end of the prompt", "prefix")
        (begun,) = house.check_input(served, [asked.prefix], "prefix", "target")
        if asked.attention and not of_pairs:
            raise ApiError(400, "attention: a language model has no source to look at", "attention")
        most = house.check_output(served, asked.max_length, begun if of_pairs else read, "max_length")
        self.decoding = self._decoding("beam" if of_pairs else "sample", most)
        house.check_texts(self.decoding.rows, "beam" if self.decoding.strategy == "beam" else "n_best")
        self.at_once = self.decoding.searches or asked.attention or asked.replace_unknown
        """Whether all of a text is there before any of it is shown."""
        if asked.likeliest and self.at_once:
            said = "likeliest: it belongs to texts that are written token by token, greedily or by sampling"
            raise ApiError(400, said, "likeliest")

    def _decoding(self, usual: Strategy, most: int) -> Decoding:
        """How to decode, where the options fit each other."""
        asked, given = self.asked, self.asked.model_fields_set
        decoding = asked.decoding()
        decoding = replace(decoding, strategy=decoding.strategy or usual, at_most=most)
        strategy = decoding.strategy
        for name in ("beam", "length_penalty", "coverage_penalty"):
            if name in given and strategy in ("greedy", "sample"):
                raise ApiError(400, f"{name}: it is for searching, and the strategy is {strategy}", name)
        sampling = {"temperature": (0, 1), "top_k": (None,), "top_p": (None,)}  # where they change nothing
        for name, idle in sampling.items():
            if getattr(asked, name) not in idle and strategy != "sample":
                raise ApiError(400, f"{name}: it is for sampling, and the strategy is {strategy}", name)
        if asked.tree and strategy != "beam":
            raise ApiError(400, f"tree: it is what a beam search does, and the strategy is {strategy}", "tree")
        if strategy == "greedy" and decoding.n_best > 1:
            raise ApiError(400, "n_best: greedy search has one result; use beam or sample", "n_best")
        return decoding

    def begin(self) -> Call | Writing:
        """Put what is needed into the queue."""
        if self.at_once:
            found = self._tree if self.asked.tree else self._outputs
            job: Call | Writing = Call(found, self.house.settings.seconds)
        else:
            job = self._writing()
        self.served.engine.ask(job)
        return job

    async def whole(self, job: Call | Writing) -> dict[str, Any]:
        """All texts."""
        head = {"model": self.served.name, "input": self.asked.prompt}
        if isinstance(job, Call):
            found = await job.next()
            return head | (found if self.asked.tree else {"outputs": [record(each) for each in found]})
        texts = await collected(job)
        outputs = [{"text": text.text, "log_prob": text.log_prob, "tokens": len(text.said)} for text in texts]
        if self.asked.likeliest:
            pairs = zip(outputs, texts, strict=True)
            outputs = [output | {"said": [token_record(said) for said in text.said]} for output, text in pairs]
        return head | {"outputs": outputs}

    def _outputs(self) -> list[Generated]:
        """What the run's own `generate` gives."""
        if not isinstance(self.asked.prompt, str):
            beginning: Beginning = self.run.beginning(self.asked.prompt, self.decoding)
            (found,) = self.decoding.run(beginning.steps, [beginning.prompt], [0], beginning.limits, beginning.source)
            return [
                Generated(beginning.text(each.tokens), each.log_prob, len(each.tokens), each.finished) for each in found
            ]
        options: dict[str, Any] = {}
        if isinstance(self.run, Translates):
            options = {"prefixes": self.asked.prefix, "attention": self.asked.attention}
        (several,) = self.run.generate(self.asked.prompt, self.decoding, **options)
        return several

    def _tree(self) -> dict[str, Any]:
        """The outputs of a beam search, and all that was in the beam."""
        beginning: Beginning = self.run.beginning(self.asked.prompt, self.decoding, 0, self.asked.prefix)
        tree = Tree(beginning.steps)
        decoding, limits = self.decoding, beginning.limits
        (several,) = decoding.run(tree, [beginning.prompt], [0], limits, beginning.source)
        outputs = [
            {
                "text": beginning.text(each.tokens),
                "log_prob": each.log_prob,
                "score": each.score,
                "tokens": len(each.tokens),
                "nodes": tree.add(each),
            }
            for each in several
        ]
        names = beginning.writer.tokens(max(0, node.token) for node in tree.nodes)
        nodes = [
            {"parent": node.parent, "token": name, "log_prob": node.log_prob}
            for node, name in zip(tree.nodes, names, strict=True)
        ]
        nodes[0] = {"parent": None, "token": "", "log_prob": 0.0}
        return {"outputs": outputs, "tree": nodes}

    def _writing(self) -> Writing:
        decoding, prefix = self.decoding, self.asked.prefix
        wish = Wish(likeliest=self.asked.likeliest)
        return self.house.writing(self.served, self.run, self.asked.prompt, decoding, decoding.n_best, wish, prefix)

    async def streamed(self, job: Call | Writing) -> AsyncIterator[dict[str, Any] | str]:
        """Piece by piece; a search shows its texts when it has ended."""
        if isinstance(job, Call):
            for number, each in enumerate(await job.next()):
                yield {"number": number, "text": each.text, "tokens": [], "ending": ending(each)}
        else:
            async for piece in job.pieces():
                tokens = [token_record(said) for said in piece.said]
                yield {"number": piece.number, "text": piece.text, "tokens": tokens, "ending": piece.ending}
        yield "[DONE]"


def record(each: Generated) -> dict[str, Any]:
    """A text that was found, as `seqloom generate --json` has it."""
    found = {"text": each.text, "log_prob": each.log_prob, "tokens": each.tokens}
    attention = getattr(each, "attention", None)
    return found if attention is None else found | {"attention": attention.record()}


def ending(each: Generated) -> Ending:
    """Why a text that was found has ended."""
    return "stop" if each.finished else "length"


def token_record(said: Said) -> dict[str, Any]:
    """A token and its log-probability, and those that were likeliest at its place."""
    others = [{"token": other.text, "id": other.token, "log_prob": other.log_prob} for other in said.likeliest]
    return {"token": said.text, "id": said.token, "log_prob": said.log_prob, "likeliest": others}
