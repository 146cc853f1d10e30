"""How the runs that are served came about: `/v1/runs`, `/v1/training`."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from seqloom.runs.listing import listing
from seqloom.runs.watching import watched
from seqloom.serving.asking import Answer, House, Name
from seqloom.serving.models import Served


def router(house: House) -> APIRouter:
    """The endpoints. They read the folders of runs anew each time: a run may be trained further while it is served."""
    routes = APIRouter()

    @routes.get("/v1/runs", response_class=Answer, tags=["runs"], summary="The runs that are served, at a glance")
    async def runs() -> Response:
        return Answer({"runs": await asyncio.to_thread(records, house.models.all())})

    @routes.get("/v1/training", response_class=Answer, tags=["runs"], summary="How far a run is, and its curves")
    async def training(model: Name = None) -> Response:
        served = house.models.named(model)
        found = await asyncio.to_thread(watched, served.trained.path)
        return Answer({"model": served.name, **found.record()})

    return routes


def records(everyone: list[Served]) -> list[dict[str, Any]]:
    """What `seqloom runs --json` says of each, with the name under which it is served."""
    found = listing(served.trained.path for served in everyone)
    return [{"model": served.name, **run.record()} for served, run in zip(everyone, found, strict=True)]
