"""The page at `/`: a few files of the package, and nothing from elsewhere."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi import APIRouter
from fastapi.responses import Response

from seqloom.serving.errors import ApiError

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
SAFE = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""A page with these runs no script but its own, and tells nobody of what is typed into it."""
FOLDER = "/page/"


def router() -> APIRouter:
    """The page and the files that it consists of; they hold nothing of any model."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def index() -> Response:
        return file("index.html")

    @routes.get(FOLDER + "{name:path}")
    async def part(name: str) -> Response:
        return file(name)

    return routes


def is_open(path: str) -> bool:
    """Whether a path is of the page, which can be opened without a token: a browser cannot send one before it asks."""
    return path == "/" or path.startswith(FOLDER)


def file(name: str) -> Response:
    """One of the files, by its name."""
    parts = contents()
    if name not in parts:
        raise ApiError(404, f"the page has no file {name!r}")
    return Response(parts[name], media_type=TYPES[name.rpartition(".")[2]], headers=SAFE)


@cache
def contents() -> dict[str, bytes]:
    """All files by name. The look of reports is `look.css`: one look for all pages."""
    web = files("seqloom.serving").joinpath("web")
    found = {part.name: part.read_bytes() for part in web.iterdir() if part.is_file()}
    found |= {f"tabs/{part.name}": part.read_bytes() for part in web.joinpath("tabs").iterdir()}
    return found | {"look.css": files("seqloom.reports").joinpath("page.css").read_bytes()}
