"""What every request passes before it reaches an endpoint: its number, the token, the length of its body, the log."""

from __future__ import annotations

import hmac
import json
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seqloom.serving import page
from seqloom.serving.errors import ApiError
from seqloom.serving.measures import Measures
from seqloom.serving.settings import Settings


class Access:
    """An application that takes requests of clients who know the token, with bodies that are short enough, while the
    server is not ending."""

    def __init__(self, app: ASGIApp, settings: Settings, measures: Measures, ending: Callable[[], bool]) -> None:
        self.app, self.settings, self.measures, self.ending = app, settings, measures, ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Passing(scope, receive, send, self.settings.body)
        try:
            self._check(scope)
            await self.app(scope, request.receive, request.send)
        except ApiError as error:
            if request.status is None:
                await error.response()(scope, receive, request.send)
        except Exception as error:
            log("error", request=request.number, error=f"{type(error).__name__}: {error}")
            if request.status is None:
                await ApiError(500, "the server failed; its log says why").response()(scope, receive, request.send)
        finally:
            seconds = time.perf_counter() - request.began
            path = getattr(scope.get("route"), "path", "other")
            self.measures.count(
                "seqloom_requests_total", "Requests that were answered.", path=path, status=str(request.status)
            )
            self.measures.time("seqloom_request_seconds", "Until the answer was sent.", seconds, path=path)
            log(
                "request",
                request=request.number,
                method=scope["method"],
                path=scope["path"],
                status=request.status,
                seconds=round(seconds, 4),
                client=(scope.get("client") or ["-"])[0],
            )

    def _check(self, scope: Scope) -> None:
        if scope["path"] == "/health" or page.is_open(scope["path"]):
            return
        headers = dict(scope["headers"])
        token = self.settings.token
        if token is not None:
            given = headers.get(b"authorization", b"")
            # In constant time, whatever was given: a wrong token is told as slowly as a right one.
            if not hmac.compare_digest(given, f"Bearer {token}".encode("ascii")):
                challenge = {"WWW-Authenticate": "Bearer"}
                raise ApiError(401, "give this server's token: Authorization: Bearer TOKEN", headers=challenge)
        if self.ending():
            raise ApiError(503, "the server is ending", headers={"Connection": "close"})
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.settings.body:
            raise too_long(self.settings.body)


class Passing:
    """A request on its way: counts what is read of its body, and notes how it was answered."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, most: int) -> None:
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        usable = 0 < len(given) <= 64 and given.replace("-", "").replace("_", "").isalnum() and given.isascii()
        self.number = given if usable else uuid.uuid4().hex
        scope.setdefault("state", {})["request"] = self.number
        self.status: int | None = None
        self.began = time.perf_counter()
        self._receive, self._send, self._most, self._read = receive, send, most, 0

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            if self._read > self._most:
                raise too_long(self._most)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", []), (b"x-request-id", self.number.encode("ascii"))]
        await self._send(message)


def too_long(most: int) -> ApiError:
    """The error that a body is too long; what is left of it is not read."""
    return ApiError(413, f"the body has more than {most:,} bytes", headers={"Connection": "close"})


def log(event: str, **facts: Any) -> None:
    """One JSON object on one line of stderr. What clients wrote, and what they are let in by, never stands there."""
    line = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "event": event, **facts}
    sys.stderr.write(json.dumps(line) + "\n")  # escaped: a path may hold what ends a line
    sys.stderr.flush()
