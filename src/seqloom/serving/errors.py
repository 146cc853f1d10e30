"""What goes wrong between client and server, in the shape in which OpenAI's clients expect it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from seqloom.errors import SeqloomError, UserError

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "unavailable_error",
    504: "timeout_error",
}


class ApiError(HTTPException):
    """A request that is not answered as it wishes."""

    def __init__(
        self, status: int, message: str, parameter: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, message, headers or {})
        self.status, self.message, self.parameter = status, message, parameter

    @property
    def document(self) -> dict[str, Any]:
        """What a client is sent."""
        kind = KINDS.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.parameter, "code": self.status}}

    def response(self) -> JSONResponse:
        """The same as an answer."""
        return JSONResponse(self.document, self.status, headers=dict(self.headers or {}))


class Problem(BaseModel):
    """What was wrong."""

    message: str
    type: str
    param: str | None
    code: int


class ErrorDocument(BaseModel):
    """An error, as OpenAI's clients expect it."""

    error: Problem


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorDocument, "description": description}
    for status, description in {
        400: "The request is not one that this server takes.",
        401: "The token is missing or wrong.",
        404: "There is no such model.",
        413: "The body is too long.",
        422: "A text is too long, or too much is asked for.",
        429: "Too many requests wait: try again after the seconds of Retry-After.",
        503: "The models are being loaded, or the server is ending.",
        504: "The answer took too long.",
    }.items()
}


def told(error: BaseException) -> ApiError:
    """Any error as one for a client: mistakes of users are theirs, and of ours they learn no details."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, UserError):
        return ApiError(400, str(error))
    if isinstance(error, SeqloomError):
        return ApiError(500, str(error))
    return ApiError(500, "the server failed; its log says why")


def install(app: FastAPI) -> None:
    """Let an application answer all errors in this shape."""

    async def ours(_: Request, error: Exception) -> JSONResponse:
        return told(error).response()

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return invalid_request(error).response()

    async def http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        said = unanswered(request, error)
        return ApiError(error.status_code, said, headers=dict(error.headers or {})).response()

    app.add_exception_handler(ApiError, ours)
    app.add_exception_handler(SeqloomError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


def unanswered(request: Request, error: HTTPException) -> str:
    """What the framework says in two words, as a sentence."""
    path, reason = request.scope["path"], error.__cause__
    if error.status_code == 404:
        return f"there is no endpoint {path}"
    if error.status_code == 405:
        return f"{path} takes {(error.headers or {}).get('Allow', 'another method')}, not {request.method}"
    if isinstance(reason, UnicodeDecodeError):
        return f"the body is no JSON: byte {reason.start + 1} is not UTF-8"
    if error.status_code == 400:
        return "the body is no JSON that can be read" + ": it is nested too deep" * isinstance(reason, RecursionError)
    return str(error.detail)


WANTED = {
    "string_type": "a string",
    "list_type": "a list",
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
"""The errors of pydantic that say that a value is of another type than is wanted, and that type."""


@dataclass(frozen=True)
class Mistake:
    """Something that is wrong with a request."""

    place: tuple[str | int, ...]
    """The keys and numbers that lead to it."""
    branch: tuple[str | int, ...]
    """Where a field may be of several types: what leads to the field, and the type that was tried."""
    said: str
    wanted: str | None
    """The type that the value should be of; None if it is of that type."""

    @classmethod
    def of(cls, error: Mapping[str, Any], body: Any) -> Mistake:
        """One of pydantic's errors. Where a field may be of several types, its place names one of them too: what is
        neither in the body nor said to be missing from it is a type."""
        kind, said, (source, *parts) = error["type"], error["msg"], error["loc"]
        place: list[str | int] = []
        branch: tuple[str | int, ...] = ()
        for number, part in enumerate(parts, start=1):
            inside = part in body if isinstance(body, dict) else isinstance(body, list) and isinstance(part, int)
            if inside and body is not error["input"]:
                place.append(part)
                body = body[part]
            elif source != "body" or (kind == "missing" and number == len(parts)):
                place.append(part)
            else:
                branch = tuple(parts[:number])
        wanted = said.removeprefix("Input should be ") if kind == "literal_error" else WANTED.get(kind)
        ours = {"missing": "this field is missing", "extra_forbidden": "this field is not supported here"}
        plain = said.removeprefix("Value error, ").removeprefix("Input ").replace(" after validation", "")
        return cls(tuple(place), branch, ours.get(kind, plain), wanted)

    @property
    def progress(self) -> tuple[int, list[int], bool]:
        """How far the request was right: how deep, to which element, and whether to the type."""
        return len(self.place), [part for part in self.place if isinstance(part, int)], self.wanted is None


def told_furthest(mistakes: list[Mistake]) -> list[Mistake]:
    """The first mistake. Where a field may be of several types, it is that of the type which fits furthest (of an empty
    list one says that it has no item, not that it is no string), or one for each type that fits as far."""
    first = mistakes[0]
    if not first.branch:
        return [first]
    field = first.branch[:-1]
    tried: dict[tuple[str | int, ...], Mistake] = {}
    for each in mistakes:
        if each.branch[: len(field)] == field:
            tried.setdefault(each.branch, each)
    best = max(tried.values(), key=lambda each: each.progress)
    return [each for each in tried.values() if (each.place, each.progress) == (best.place, best.progress)]


def invalid_request(error: RequestValidationError) -> ApiError:
    """The first thing that is wrong with a request, and the field that it is wrong with."""
    errors = error.errors()
    if errors[0]["type"] == "json_invalid":
        character, why = errors[0]["loc"][1] + 1, errors[0]["ctx"]["error"]
        return ApiError(400, f"the body is no JSON at character {character}: {why}")
    mistakes = told_furthest([Mistake.of(each, error.body) for each in errors])
    field = ".".join(map(str, mistakes[0].place)) or None
    if field is None and errors[0]["type"] in ("missing", *WANTED):
        return ApiError(400, "send a JSON object with Content-Type: application/json")
    wanted = dict.fromkeys(each.wanted for each in mistakes if each.wanted)
    said = f"should be {' or '.join(wanted)}" if wanted else mistakes[0].said
    return ApiError(400, f"{field}: {said}" if field else said, field)
