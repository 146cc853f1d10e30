"""`/v1/generate` and `/v1/translate`: all ways of decoding, with what a model looked at and how it searched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import fields
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field, model_validator

from seqloom.decoding.prompts import check_prompts
from seqloom.decoding.tree import Tree
from seqloom.runs.capabilities import Translates, WritesStepwise
from seqloom.runs.generation import Beginning, Decoding
from seqloom.serving.asking import Answer, Asked, House, Name, Seed, collected, events, together, unless_left
from seqloom.serving.engine import Writing
from seqloom.serving.errors import ApiError
from seqloom.serving.models import Served
from seqloom.serving.written import Said, Wish

Count = Annotated[int, Field(ge=1, le=10**4)]


class Decoded(Asked):
    """How to choose, as the options of `seqloom generate`."""

    strategy: Literal["greedy", "beam", "sample", "exhaustive"] | None = None
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
        if asked.stream:
            return events(generation.streamed())
        return Answer(await unless_left(request, generation.whole()))

    @routes.post("/v1/translate", response_class=Answer, summary="Targets of sources")
    async def translate(asked: TranslateRequest, request: Request) -> Response:
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        served = translator(house, asked)
        run = served.able(Translates, "/v1/translate")
        house.check_texts(len(texts) * (1 + asked.alternatives), "q")
        house.check_input(served, texts, "q")
        decoding = Decoding(n_best=1 + asked.alternatives, beam=max(5, 1 + asked.alternatives))

        async def one(text: str) -> list[str]:
            seconds = house.settings.seconds
            (several,) = await served.engine.call(lambda: run.generate(text, decoding), seconds)
            return [each.text for each in several]

        found = await unless_left(request, together(*map(one, texts)))
        best, others = [several[0] for several in found], [several[1:] for several in found]
        single = isinstance(asked.q, str)
        answer: dict[str, Any] = {"translatedText": best[0] if single else best}
        if asked.alternatives:
            answer["alternatives"] = others[0] if single else others
        return Answer(answer)

    return routes


def translator(house: House, asked: TranslateRequest) -> Served:
    """The model that a request for a translation means."""
    if asked.model is not None or asked.target is None:
        if asked.target is not None:
            raise ApiError(400, "target: give a model, or source and target, not both", "target")
        return house.models.named(asked.model)
    pair = f"{asked.source}-{asked.target}"
    found = [served for served in house.models.all() if served.name.endswith(pair)]
    if len(found) != 1:
        said = "no model's name ends" if not found else "the names of several models end"
        raise ApiError(400, f"target: {said} with {pair!r}: name a model instead", "target")
    return found[0]


class Generation:
    """The answer to one request."""

    def __init__(self, house: House, served: Served, run: WritesStepwise, asked: GenerateRequest) -> None:
        self.house, self.served, self.run, self.asked = house, served, run, asked
        self.decoding = asked.decoding()
        (read,) = house.check_input(served, [asked.prompt], "prompt")
        if not isinstance(asked.prompt, str):
            if isinstance(run, Translates):
                raise ApiError(400, "prompt: a source is a text; language models go on from tokens", "prompt")
            check_prompts([asked.prompt], served.trained.model.vocabulary_size)
        before = 0 if isinstance(run, Translates) else read
        length = house.check_output(served, asked.max_length, before, "max_length")
        if length is not None:
            self.decoding = Decoding.of(self.decoding, {"max_length": length})
        house.check_texts(self.decoding.rows, "n_best")
        if asked.prefix and not isinstance(run, Translates):
            raise ApiError(400, "prefix: a language model has no source; put it at the end of the prompt", "prefix")
        if asked.attention and not isinstance(run, Translates):
            raise ApiError(400, "attention: a language model has no source to look at", "attention")
        strategy = self.decoding.strategy or ("beam" if isinstance(run, Translates) else "sample")
        self.searches = strategy in ("beam", "exhaustive")
        if asked.tree and strategy != "beam":
            raise ApiError(400, f"tree: it is what a beam search does, and the strategy is {strategy}", "tree")
        if strategy == "greedy" and self.decoding.n_best > 1:
            raise ApiError(400, "n_best: greedy search has one result; use beam or sample", "n_best")
        self.decoding = Decoding.of(self.decoding, {"strategy": strategy})
        if asked.likeliest and (self.searches or asked.attention or self.decoding.replace_unknown):
            said = "likeliest: it belongs to texts that are written token by token, greedily or by sampling"
            raise ApiError(400, said, "likeliest")

    async def whole(self) -> dict[str, Any]:
        """All texts."""
        asked, seconds = self.asked, self.house.settings.seconds
        head = {"model": self.served.name, "input": asked.prompt}
        if asked.tree:
            return head | await self.served.engine.call(self._tree, seconds)
        whole = self.searches or asked.attention or self.decoding.replace_unknown
        if whole:
            return head | {"outputs": await self.served.engine.call(self._outputs, seconds)}
        texts = await collected(self._writing())
        outputs = [{"text": text.text, "log_prob": text.log_prob, "tokens": len(text.said)} for text in texts]
        if asked.likeliest:
            pairs = zip(outputs, texts, strict=True)
            outputs = [output | {"said": [token_record(said) for said in text.said]} for output, text in pairs]
        return head | {"outputs": outputs}

    def _outputs(self) -> list[dict[str, Any]]:
        """What the run's own `generate` gives."""
        options: dict[str, Any] = {}
        if not isinstance(self.asked.prompt, str):
            beginning: Beginning = self.run.beginning(self.asked.prompt, self.decoding)
            (found,) = self.decoding.run(beginning.steps, [beginning.prompt], [0], beginning.limits, beginning.source)
            return [
                {"text": beginning.text(each.tokens), "log_prob": each.log_prob, "tokens": len(each.tokens)}
                for each in found
            ]
        if isinstance(self.run, Translates):
            options = {"prefixes": self.asked.prefix, "attention": self.asked.attention}
        (several,) = self.run.generate(self.asked.prompt, self.decoding, **options)
        outputs = []
        for each in several:
            record = {"text": each.text, "log_prob": each.log_prob, "tokens": each.tokens}
            attention = getattr(each, "attention", None)
            outputs.append(record if attention is None else record | {"attention": attention.record()})
        return outputs

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

    async def streamed(self) -> AsyncIterator[dict[str, Any] | str]:
        """Piece by piece; a search shows its texts when it has ended."""
        if self.searches or self.decoding.replace_unknown:
            found = await self.served.engine.call(self._outputs, self.house.settings.seconds)
            for number, output in enumerate(found):
                yield {"number": number, "text": output["text"], "tokens": [], "ending": "stop"}
            yield "[DONE]"
            return
        job = self._writing()
        try:
            async for piece in job.pieces():
                tokens = [token_record(said) for said in piece.said]
                yield {"number": piece.number, "text": piece.text, "tokens": tokens, "ending": piece.ending}
        finally:
            job.left = True
        yield "[DONE]"


def token_record(said: Said) -> dict[str, Any]:
    """A token and its log-probability, and those that were likeliest at its place."""
    others = [{"token": other.text, "id": other.token, "log_prob": other.log_prob} for other in said.likeliest]
    return {"token": said.text, "id": said.token, "log_prob": said.log_prob, "likeliest": others}
