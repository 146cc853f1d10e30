"""What goes wrong between client and server, in the shape in which OpenAI's clients expect it."""

from __future__ import annotations

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

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return ApiError(error.status_code, str(error.detail), headers=dict(error.headers or {})).response()

    app.add_exception_handler(ApiError, ours)
    app.add_exception_handler(SeqloomError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


def invalid_request(error: RequestValidationError) -> ApiError:
    """The first thing that is wrong with a request, and the field that it is wrong with."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if part != "body"]
    field = ".".join(place) or None
    if first["type"] == "extra_forbidden":
        return ApiError(400, f"{field}: this field is not supported here", field)
    if first["type"] == "json_invalid":
        return ApiError(400, f"the body is no JSON: {first.get('ctx', {}).get('error', first['msg'])}")
    said = first["msg"].removeprefix("Value error, ")
    return ApiError(400, f"{field}: {said}" if field else said, field)
