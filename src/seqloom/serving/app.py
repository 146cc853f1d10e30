"""The application: endpoints, their document, and what every request passes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from seqloom.runs.capabilities import Scores, Translates
from seqloom.runs.trained import Trained
from seqloom.serving import (
    chat,
    completions,
    errors,
    examples,
    generation,
    images,
    mending,
    page,
    progress,
    reading,
    statistics,
    words,
)
from seqloom.serving.access import Access
from seqloom.serving.asking import Answer, House
from seqloom.serving.measures import Measures
from seqloom.serving.models import Models, Served
from seqloom.serving.settings import Settings
from seqloom.version import __version__


def make_app(models: Models, settings: Settings, measures: Measures, ending: Callable[[], bool]) -> FastAPI:
    """The application that serves some models; while `ending`, it takes no more requests."""
    app = FastAPI(
        title="seqloom",
        version=__version__,
        description="Generative models of sequences: write, score, translate, draw.",
        docs_url=None,  # these pages come from elsewhere, and a server may have no elsewhere
        redoc_url=None,
        responses=errors.RESPONSES,
    )
    house = House(models, settings)

    @app.get("/health", tags=["server"], summary="Whether the models are loaded", response_class=JSONResponse)
    async def health() -> Response:
        ready = models.ready and not ending()
        status = "ready" if ready else "ending" if ending() else "loading"
        return JSONResponse({"status": status}, 200 if ready else 503)

    @app.get("/metrics", tags=["server"], summary="Counters for Prometheus", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return PlainTextResponse(measures.text(), media_type="text/plain; version=0.0.4")

    @app.get("/v1/models", tags=["OpenAI"], summary="What is loaded", response_class=Answer)
    async def list_models() -> Response:
        return Answer({"object": "list", "data": [described(served) for served in models.all()]})

    @app.get("/v1/models/{name}", tags=["OpenAI"], summary="One of them", response_class=Answer)
    async def one_model(name: str) -> Response:
        return Answer(described(models.named(name)))

    @app.get("/docs", tags=["server"], summary="The endpoints on a page", response_class=HTMLResponse)
    async def documents() -> Response:
        return HTMLResponse(listed(app.openapi()))

    for part in (completions, chat, generation, reading, words, images, mending, examples, statistics, progress):
        app.include_router(part.router(house))
    app.include_router(page.router())
    errors.install(app)
    app.add_middleware(Access, settings=settings, measures=measures, ending=ending)
    return app


def described(served: Served) -> dict[str, Any]:
    """A model as OpenAI's clients expect it, and what it is for."""
    trained: Trained = served.trained
    return {
        "id": served.name,
        "object": "model",
        "created": served.since,
        "owned_by": "seqloom",
        "kind": trained.kind,
        "facts": trained.facts,
        "offers": served.offers,
        "task": served.task,
        "turns": served.turns,
        "sources": isinstance(trained, Scores) and isinstance(trained, Translates),
        "path": str(trained.path),
    }


def listed(document: dict[str, Any]) -> str:
    """The endpoints as a plain page of our own."""
    from html import escape

    cells = [
        (method.upper(), f"<code>{escape(path)}</code>", escape(what["summary"]))
        for path, methods in document["paths"].items()
        for method, what in methods.items()
    ]
    rows = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<title>seqloom</title><style>body{font:1rem/1.5 system-ui;max-width:50rem;margin:2rem auto;padding:0 1rem;"
        "color-scheme:light dark}td{padding:.2rem 1rem .2rem 0}</style><h1>seqloom</h1>"
        f'<p>All about them: <a href="/openapi.json">openapi.json</a></p><table>{"".join(rows)}</table></html>'
    )
