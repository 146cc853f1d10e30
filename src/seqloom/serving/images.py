"""`/v1/sample`, `/v1/draw`, `/v1/caption` and `/v1/latent`: images as PNG, in base64 inside JSON."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field, model_validator

from seqloom.runs import capabilities as runs
from seqloom.runs.generation import BEAM, Decoding
from seqloom.serving.asking import Answer, Asked, House, Name, Seed, unless_left
from seqloom.serving.errors import ApiError
from seqloom.serving.reading import listed

MOST_PIXELS = 1 << 25  # of all images of a request together
Number = Annotated[float, Field(ge=-1e6, le=1e6)]
Count = Annotated[int, Field(ge=1)]


class SampleRequest(Asked):
    """How many images to draw."""

    model: Name = None
    n: Count = 1
    seed: Seed = 0
    label: str | None = None
    """Models that know classes: which one."""


class DrawRequest(Asked):
    """What to draw."""

    model: Name = None
    texts: str | Annotated[list[str], Field(min_length=1)]
    n: Count = 1
    seed: Seed = 0
    temperature: Annotated[float, Field(gt=0, le=100)] = 1.0


class CaptionRequest(Asked):
    """Images to write about."""

    model: Name = None
    images: str | Annotated[list[str], Field(min_length=1)]
    n_best: Count = 1


class LatentRequest(Asked):
    """What to do with codes: find those of images, make images of them, or go from one image to another."""

    model: Name = None
    do: Literal["encode", "decode", "interpolate"]
    images: list[str] | None = None
    """PNG or JPEG in base64."""
    codes: Annotated[list[list[Number]], Field(min_length=1)] | None = None
    steps: Annotated[int, Field(ge=2)] = 9
    way: Literal["linear", "spherical"] = "linear"

    @model_validator(mode="after")
    def _fits(self) -> LatentRequest:
        if self.do == "decode" and (self.codes is None or self.images is not None):
            raise ValueError("decode takes codes, and no images")
        if self.do == "encode" and (not self.images or self.codes is not None):
            raise ValueError("encode takes images, and no codes")
        given = self.codes if self.codes is not None else self.images
        if self.do == "interpolate" and (given is None or len(given) != 2 or (self.codes and self.images)):
            raise ValueError("interpolate takes two images, or two codes")
        if self.do != "interpolate" and {"steps", "way"} & self.model_fields_set:
            raise ValueError(f"steps and way are of an interpolation: {self.do} takes neither")
        return self


def router(house: House) -> APIRouter:
    """The endpoints."""
    routes = APIRouter(tags=["images"])

    @routes.post("/v1/sample", response_class=Answer, summary="New images")
    async def sample(asked: SampleRequest, request: Request) -> Response:
        served = house.models.named(asked.model)
        run: Any = served.able(runs.Draws, "/v1/sample")
        house.check_texts(asked.n, "n")
        if asked.label is not None and not isinstance(run, runs.DrawsClasses):
            raise ApiError(400, "label: this model draws no classes that are asked for", "label")
        options = {} if asked.label is None else {"labels": asked.label}
        work = served.engine.call(lambda: pngs(run.sample(asked.n, asked.seed, **options)), house.settings.seconds)
        return Answer({"model": served.name, "images": await unless_left(request, work)})

    @routes.post("/v1/draw", response_class=Answer, summary="Images of what texts say")
    async def draw(asked: DrawRequest, request: Request) -> Response:
        served = house.models.named(asked.model)
        run = served.able(runs.DrawsTexts, "/v1/draw")
        texts = listed(asked.texts)
        house.check_texts(len(texts) * asked.n, "texts")
        house.check_input(served, texts, "texts")
        work = served.engine.call(
            lambda: pngs(run.draw(texts, asked.seed, asked.n, asked.temperature)), house.settings.seconds
        )
        return Answer({"model": served.name, "images": await unless_left(request, work)})

    @routes.post("/v1/caption", response_class=Answer, summary="What is on images")
    async def caption(asked: CaptionRequest, request: Request) -> Response:
        served = house.models.named(asked.model)
        run = served.able(runs.Captions, "/v1/caption")
        images = listed(asked.images)
        house.check_texts(len(images) * asked.n_best, "images", "captions")
        most = house.settings.output_tokens
        decoding = Decoding(n_best=asked.n_best, beam=max(BEAM, asked.n_best), at_most=most)
        opened = await asyncio.to_thread(pictures, images)
        work = served.engine.call(lambda: run.generate(list(run.see(opened)), decoding), house.settings.seconds)
        rows = await unless_left(request, work)
        captions = [[{"text": each.text, "log_prob": each.log_prob} for each in row] for row in rows]
        return Answer({"model": served.name, "captions": captions})

    @routes.post("/v1/latent", response_class=Answer, summary="Codes of images, and images of codes")
    async def latent(asked: LatentRequest, request: Request) -> Response:
        served = house.models.named(asked.model)
        run = served.able(runs.HasCodes, "/v1/latent")
        house.check_texts(max(len(asked.images or ()), len(asked.codes or ()), asked.steps), "steps")
        opened = await asyncio.to_thread(pictures, asked.images or ())
        work = served.engine.call(lambda: latent_answer(run, asked, opened), house.settings.seconds)
        return Answer({"model": served.name, **await unless_left(request, work)})

    return routes


def latent_answer(run: Any, asked: LatentRequest, pictures: list[Any]) -> dict[str, Any]:
    """Codes, images, or both."""
    import torch

    from seqloom.data.images import Picture
    from seqloom.models.latent.paths import path_between

    if pictures:
        named = [Picture(f"image {number}", image) for number, image in enumerate(pictures)]
        codes = run.transform(run.images.read(named, stretch=run.data.size is not None).images)
    else:
        codes = checked_codes(run, asked.codes or [])
    if asked.do == "encode":
        return {"codes": codes.tolist()}
    if asked.do == "interpolate":
        start, end = (torch.from_numpy(code[None]) for code in codes)
        codes = path_between(asked.way, start, end, asked.steps).flatten(0, 1).numpy()
    return {"codes": codes.tolist(), "images": pngs(run.decode(codes))}


def checked_codes(run: Any, codes: list[list[float]]) -> Any:
    """Codes as an array; an error if they are not as long as the model's."""
    size = run.transform(np.zeros((1, *_pixels(run.images.shape)), np.uint8)).shape[1]
    if any(len(code) != size for code in codes):
        raise ApiError(400, f"codes: a code of this model has {size} numbers", "codes")
    return np.array(codes, np.float32)


def _pixels(shape: tuple[int, int, int]) -> tuple[int, ...]:
    channels, height, width = shape
    return (height, width) if channels == 1 else (height, width, 3)


def pngs(images: Iterable[Any]) -> list[str]:
    """Images as PNG in base64. It takes time: call it in a thread."""
    return [_png(pixels) for pixels in images]


def _png(pixels: Any) -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode("ascii")


def pictures(coded: Iterable[str]) -> list[Any]:
    """The images of PNG or JPEG files in base64, perhaps as data URLs. It takes time: call it in a thread."""
    from PIL import Image

    images, left = [], MOST_PIXELS
    for each in coded:
        _, _, data = each.rpartition(",")
        try:
            image = Image.open(io.BytesIO(base64.b64decode(data, validate=True)), formats=("PNG", "JPEG"))
            left -= image.width * image.height
            if left >= 0:  # a small file may hold a huge image
                image.load()
        except Image.DecompressionBombError:
            left = -1
        except Exception as error:  # what is wrong with a stranger's image, the library says in many ways
            said = f"images: this is no PNG or JPEG in base64 ({type(error).__name__})"
            raise ApiError(400, said, "images") from None
        if left < 0:
            said = f"images: all of a request together may have {MOST_PIXELS:,} pixels, and these have more"
            raise ApiError(422, said, "images")
        images.append(image)
    return images
