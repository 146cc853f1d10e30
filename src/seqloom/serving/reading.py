"""What models say of texts: `/v1/score`, `/v1/label`, `/v1/fill`, `/v1/embeddings`; `/tokenize` and its like."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field, model_validator

from seqloom.runs import capabilities as runs
from seqloom.runs.scores import Score
from seqloom.serving.asking import Answer, Asked, House, Name, unless_left
from seqloom.serving.errors import ApiError
from seqloom.serving.models import Served, Side
from seqloom.text.special import BOS, EOS, PAD, SPECIALS, UNK

MARKS = {"unk": UNK, "pad": PAD, "bos": BOS, "eos": EOS}

Texts = str | Annotated[list[str], Field(min_length=1)]


class ScoreRequest(Asked):
    """Texts to score."""

    model: Name = None
    texts: Texts
    sources: Texts | None = None
    """Models of pairs: the source of each text."""
    tokens: bool = True
    """Tell of every token."""
    bos: bool = True
    """N-gram models: whether a text is known to begin with its first token."""
    eos: bool = True
    """Whether the end counts."""


class LinesRequest(Asked):
    """Texts to be read."""

    model: Name = None
    texts: Texts


class FillRequest(LinesRequest):
    """Texts with blanks."""

    top: Annotated[int, Field(ge=1, le=1000)] = 5
    """How many tokens to name for each blank."""


class EmbeddingsRequest(Asked):
    """Texts to be made vectors of."""

    model: Name = None
    input: Texts
    encoding_format: Literal["float", "base64"] = "float"


class TokenizeRequest(Asked):
    """A text to be cut into tokens."""

    model: Name = None
    text: str | None = None
    prompt: str | None = None
    """The same, as vLLM calls it."""
    add_special_tokens: Literal[False] = False
    """vLLM's; what begins and ends a text is put there by those who read it."""
    side: Side = "source"
    """Models of pairs may read and write different tokens."""

    @model_validator(mode="after")
    def _fits(self) -> TokenizeRequest:
        if (self.text is None) == (self.prompt is None):
            raise ValueError("give text, or prompt, which is the same")
        return self


class DetokenizeRequest(Asked):
    """Tokens to be put together."""

    model: Name = None
    tokens: list[Annotated[int, Field(ge=0)]]
    side: Side = "source"


def listed(texts: str | list[str]) -> list[str]:
    """One text as a list of one."""
    return [texts] if isinstance(texts, str) else texts


def router(house: House) -> APIRouter:
    """The endpoints."""
    routes = APIRouter()

    @routes.post("/v1/score", response_class=Answer, tags=["text"], summary="The log-probability of every token")
    async def score(asked: ScoreRequest, request: Request) -> Response:
        served = house.models.named(asked.model)
        run = served.able(runs.Scores, "/v1/score")
        texts, sources = listed(asked.texts), listed(asked.sources) if asked.sources is not None else None
        house.check_input(served, texts, "texts", "target")
        if sources is not None:
            house.check_input(served, sources, "sources")
        of_pairs = isinstance(run, runs.Translates)
        if of_pairs != (sources is not None) or (sources is not None and len(sources) != len(texts)):
            said = "give a source for each text" if of_pairs else "this model has no sources"
            raise ApiError(400, f"sources: {said}", "sources")
        work = served.engine.call(lambda: scores(run, texts, sources, asked), house.settings.seconds)
        return Answer({"model": served.name, **await unless_left(request, work)})

    @routes.post("/v1/label", response_class=Answer, tags=["text"], summary="What texts are")
    async def label(asked: LinesRequest, request: Request) -> Response:
        served = house.models.named(asked.model)
        run = served.able(runs.Labels, "/v1/label")
        texts = listed(asked.texts)
        house.check_input(served, texts, "texts")
        work = served.engine.call(lambda: run.predict_lines(texts), house.settings.seconds)
        found = await unless_left(request, work)
        return Answer({"model": served.name, "labels": [record for _, record in found]})

    @routes.post("/v1/fill", response_class=Answer, tags=["text"], summary="What may stand in blanks")
    async def fill(asked: FillRequest, request: Request) -> Response:
        served = house.models.named(asked.model)
        served.check("/v1/fill")
        run: Any = served.trained
        texts = listed(asked.texts)
        house.check_input(served, texts, "texts")
        work = served.engine.call(lambda: run.fill(texts, asked.top), house.settings.seconds)
        pairs = zip(texts, await unless_left(request, work), strict=True)
        filled = [{"text": text, "filled": each.text, "blanks": asdict(each)["blanks"]} for text, each in pairs]
        return Answer({"model": served.name, "filled": filled})

    @routes.post("/v1/embeddings", response_class=Answer, tags=["OpenAI"], summary="Vectors of texts")
    async def embeddings(asked: EmbeddingsRequest, request: Request) -> Response:
        served = house.models.named(asked.model)
        served.check("/v1/embeddings")
        texts = listed(asked.input)
        counts = house.check_input(served, texts, "input")
        work = served.engine.call(lambda: vectors(served, texts), house.settings.seconds)
        rows = await unless_left(request, work)
        coded = [vector.tolist() if asked.encoding_format == "float" else in_base64(vector) for vector in rows]
        data = [{"object": "embedding", "index": index, "embedding": each} for index, each in enumerate(coded)]
        usage = {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
        return Answer({"object": "list", "data": data, "model": served.name, "usage": usage})

    @routes.post("/tokenize", response_class=Answer, tags=["tokens"], summary="A text as tokens")
    async def tokenize(asked: TokenizeRequest) -> Response:
        served = house.models.named(asked.model)
        tokenizer = tokenizer_of(served, asked.side)
        text = asked.text if asked.text is not None else asked.prompt or ""
        house.check_input(served, [text], "text", asked.side)
        ids = tokenizer.encode(text)
        return Answer({"tokens": ids, "pieces": tokenizer.pieces(text), "count": len(ids)})

    @routes.post("/detokenize", response_class=Answer, tags=["tokens"], summary="Tokens as a text")
    async def detokenize(asked: DetokenizeRequest) -> Response:
        served = house.models.named(asked.model)
        tokenizer = tokenizer_of(served, asked.side)
        house.check_input(served, [asked.tokens], "tokens", asked.side)
        for token in asked.tokens:
            if token >= tokenizer.size:
                raise ApiError(400, f"tokens: {token} is none; they are numbered 0 to {tokenizer.size - 1}", "tokens")
        text = tokenizer.decode(asked.tokens)
        return Answer({"text": text, "prompt": text})

    @routes.get("/tokenizer_info", response_class=Answer, tags=["tokens"], summary="What tokens a model has")
    async def tokenizer_info(model: Name = None) -> Response:
        tokenizer = tokenizer_of(house.models.named(model), "source")
        names = {f"{name}_token": SPECIALS[token] for name, token in MARKS.items()}
        return Answer({"tokenizer_class": tokenizer.kind, "vocabulary": tokenizer.size, **names})

    return routes


def tokenizer_of(served: Served, side: Side) -> Any:
    """The tokeniser of a model, or of one side of it."""
    served.check("/tokenize")
    return served.tokenizer_of(side)


def scores(run: runs.Scores, texts: list[str], sources: list[str] | None, asked: ScoreRequest) -> dict[str, Any]:
    """log p of texts and of their tokens, as `seqloom score --json` has them, and the totals."""
    each = None
    sides = (texts,) if sources is None else (sources, texts)
    if asked.tokens and not run.estimate:
        each = [run.full_scores(*row, bos=asked.bos, eos=asked.eos) for row in zip(*sides, strict=True)]
        found = [Score.of(tokens) for tokens in each]
    else:
        found = run.score(*sides, bos=asked.bos, eos=asked.eos)
    records: list[dict[str, Any]] = []
    for number, score in enumerate(found):
        record: dict[str, Any] = {"log_prob": score.log_prob, "tokens": score.tokens, "unknown": score.unknown}
        if each is not None:
            record["token_scores"] = [token._asdict() for token in each[number]]
        records.append(record)
    total = Score.together(found)
    perplexity = total.perplexity if total.tokens else None
    totals = {
        "total_log_prob": sum(score.log_prob for score in found),
        "tokens": total.tokens,
        "unknown": sum(score.unknown for score in found),
        "perplexity": perplexity,
    }
    return {"scores": records, **totals, "estimate": run.estimate or None}


def vectors(served: Served, texts: list[str]) -> list[Any]:
    """A vector for each text: the mean of those of its words, in their context or by themselves."""
    run: Any = served.trained
    if isinstance(run, runs.Embeds):
        found = [words.mean(0) if len(words) else np.zeros(run.width, np.float32) for words in run.embed(texts)]
        return [vector.astype(np.float32) for vector in found]
    words = run.vectors
    rows = []
    for text in texts:
        known = [words[piece] for piece in run.tokenizer.pieces(text) if piece in words]
        rows.append(np.mean(known, axis=0).astype(np.float32) if known else np.zeros(words.size, np.float32))
    return rows


def in_base64(vector: Any) -> str:
    """A vector as OpenAI's clients ask for it: little-endian numbers of 32 bits."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
