"""`/v1/denoise` and `/v1/complete-image`: images without their noise, and with what is missing of them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from seqloom.runs import capabilities as runs
from seqloom.serving.asking import Answer, Asked, House, Name, Seed, unless_left
from seqloom.serving.images import Count, pictures, pngs
from seqloom.serving.models import Served

SHOWN = 8  # held-out images, unless it is said how many


class MendRequest(Asked):
    """Images to be mended; the run's held-out ones, if there are none."""

    model: Name = None
    images: Annotated[list[str], Field(min_length=1)] | None = None
    """PNG or JPEG in base64."""
    n: Count | None = None
    """How many images at most."""
    seed: Seed = 0


class DenoiseRequest(MendRequest):
    """Images to take noise from."""

    corrupt: bool = False
    """The images are clean: add the run's own noise to them first."""


class CompleteRequest(MendRequest):
    """Images of which a part is to be inferred from the rest."""

    keep: Literal["top", "bottom", "left", "right"] | Annotated[float, Field(gt=0, lt=1)] = "top"
    """What is known: a half, or so large a share at random."""
    sweeps: Annotated[int, Field(ge=1, le=5000)] = 500


def router(house: House) -> APIRouter:
    """The endpoints."""
    routes = APIRouter(tags=["images"])

    @routes.post("/v1/denoise", response_class=Answer, summary="Images without their noise")
    async def denoise(asked: DenoiseRequest, request: Request) -> Response:
        served = house.models.named(asked.model)
        run = served.able(runs.Denoises, "/v1/denoise")
        images = await given_images(house, served, asked)
        work = served.engine.call(lambda: denoised(run, images, asked), house.settings.seconds)
        return Answer({"model": served.name, **await unless_left(request, work)})

    @routes.post("/v1/complete-image", response_class=Answer, summary="Images with what is missing of them")
    async def complete(asked: CompleteRequest, request: Request) -> Response:
        served = house.models.named(asked.model)
        run = served.able(runs.Completes, "/v1/complete-image")
        images = await given_images(house, served, asked)
        work = served.engine.call(lambda: completed(run, images, asked), house.settings.seconds)
        return Answer({"model": served.name, **await unless_left(request, work)})

    return routes


async def given_images(house: House, served: Served, asked: MendRequest) -> Any:
    """The images of a request as the model reads them, or the run's held-out ones."""
    from seqloom.data.images import Picture

    run: Any = served.trained
    house.check_texts(max(len(asked.images or ()), asked.n or 1), "images")

    def opened() -> Any:
        if asked.images is None:
            return run.held_out().first(asked.n or SHOWN)
        named = [Picture(f"image {number}", image) for number, image in enumerate(pictures(asked.images))]
        return run.images.read(named[: asked.n], stretch=run.data.size is not None).images

    return await asyncio.to_thread(opened)


def denoised(run: Any, images: Any, asked: DenoiseRequest) -> dict[str, Any]:
    """What `seqloom images denoise` draws."""
    from seqloom.runs.image_model import as_pixels

    noisy = run.corrupted(images, asked.seed) if asked.corrupt else None
    return {
        "given": pngs(images.images),
        "corrupted": None if noisy is None else pngs(as_pixels(noisy)),
        "images": pngs(run.denoise(images if noisy is None else noisy)),
    }


def completed(run: Any, images: Any, asked: CompleteRequest) -> dict[str, Any]:
    """What `seqloom images complete` draws, and its figures."""
    found = run.complete(images, str(asked.keep), asked.sweeps, asked.seed)
    rows = np.split(run.completion_rows(found, len(images)), 4)
    given, likely, best, true = map(pngs, rows)
    figures = {name: figure.value for name, figure in found.figures.items()}
    return {"given": given, "images": likely, "most_probable": best, "true": true, "figures": figures}
