"""Each limit, from outside; the token; the log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from served import Serving, until

from seqloom.serving import access
from seqloom.serving.errors import ApiError
from seqloom.serving.measures import Measures
from seqloom.serving.settings import Settings

TOKEN = "a-token-that-nobody-guesses"
SMALL = (
    *("--max-body", 2000, "--max-input", 20, "--max-output", 300, "--max-texts", 4),
    *("--queue", 2, "--streams", 2, "--timeout", 3),
)
LONG = {"model": "ngram", "prompt": "the", "max_tokens": 300, "logit_bias": {"3": -100.0}}


@pytest.fixture(scope="module")
def small(runs: dict[str, Path], start: Callable[..., Serving], tmp_path_factory: pytest.TempPathFactory) -> Serving:
    """A server with small limits and a token."""
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN + "\n")
    return start(runs["ngram"], runs["transformer"], "--token-file", file, *SMALL, token=TOKEN).until_ready()


def test_a_long_body_is_413_with_and_without_its_length(small: Serving) -> None:
    refused = small.refusal(413, "/v1/score", model="ngram", texts="x" * 3000)
    assert "2,000 bytes" in refused["message"]

    def pieces() -> Iterator[bytes]:
        yield b'{"model": "ngram", "texts": "'
        for _ in range(300):
            yield b"the cat " * 10

    response = small.client.post("/v1/score", content=pieces(), headers={"Content-Type": "application/json"})
    assert response.status_code == 413


def test_lengths_are_422(small: Serving) -> None:
    assert "prompt" in small.refusal(422, "/v1/completions", model="ngram", prompt="the " * 21)["message"]
    assert "max_tokens" in small.refusal(422, "/v1/completions", model="ngram", prompt="a", max_tokens=301)["message"]
    assert "n:" in small.refusal(422, "/v1/completions", model="ngram", prompt="a", n=5)["message"]
    assert "texts" in small.refusal(422, "/v1/score", model="ngram", texts=["a"] * 5)["message"]
    assert "max_length" in small.refusal(422, "/v1/generate", model="ngram", prompt="a", max_length=301)["message"]


def test_a_full_queue_is_429_and_says_when_to_come_back(small: Serving) -> None:
    async def crowd() -> list[httpx.Response]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=small.url, timeout=60, headers=headers) as client:
            asked = {**LONG, "model": "transformer"}
            return list(await asyncio.gather(*(client.post("/v1/completions", json=asked) for _ in range(30))))

    answers = asyncio.run(crowd())
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    assert {answer.status_code for answer in answers} <= {200, 429, 504}
    until(lambda: small.measure("seqloom_rows") == 0)


def test_an_answer_that_takes_too_long_is_504(runs: dict[str, Path], start: Callable[..., Serving]) -> None:
    hasty = start(runs["transformer"], "--timeout", "0.05").until_ready()
    began = time.monotonic()
    refused = hasty.refusal(504, "/v1/completions", prompt="the", max_tokens=1000, logit_bias={"3": -100.0})
    assert time.monotonic() - began < 30
    assert "too long" in refused["message"]
    until(lambda: hasty.measure("seqloom_rows") == 0)
    body = {"prompt": "the", "max_tokens": 1000, "stream": True, "logit_bias": {"3": -100.0}}
    with hasty.client.stream("POST", "/v1/completions", json=body) as response:
        assert [line for line in response.iter_lines() if '"code":504' in line]
    hasty.end()


def test_only_who_knows_the_token_is_let_in(small: Serving) -> None:
    stranger = httpx.Client(base_url=small.url)
    assert stranger.get("/health").status_code == 200
    for path in ("/v1/models", "/metrics", "/docs", "/openapi.json", "/nonesuch"):
        response = stranger.get(path)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
    for wrong in ("x", "Bearer", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"bearer {TOKEN}", TOKEN, "Bearer é"):
        headers = {"Authorization": wrong.encode()}
        assert stranger.post("/v1/score", json={"texts": "a"}, headers=headers).status_code == 401
    assert small.client.get("/v1/models").status_code == 200


def test_every_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right and wrong ones go through the one comparison that is made for it, each as a whole."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(given: bytes, known: bytes) -> bool:
        compared.append((given, known))
        return given == known

    monkeypatch.setattr(access.hmac, "compare_digest", compare)
    guard = access.Access(Any, Settings(token=TOKEN), Measures(), lambda: False)  # type: ignore[arg-type]
    for given in (b"", b"x", f"Bearer {TOKEN}".encode()):
        with suppress(ApiError):
            guard._check({"path": "/v1/models", "headers": [(b"authorization", given)]})
    assert compared == [(given, f"Bearer {TOKEN}".encode()) for given in (b"", b"x", f"Bearer {TOKEN}".encode())]


def test_no_other_origin_may_ask(small: Serving) -> None:
    headers = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
    response = small.client.options("/v1/score", headers=headers)
    assert not [name for name in response.headers if name.startswith("access-control")]


def test_the_log_has_request_ids_and_no_secrets(small: Serving) -> None:
    response = small.client.post(
        "/v1/score", json={"model": "ngram", "texts": "confidential"}, headers={"X-Request-Id": "my-request-1"}
    )
    assert response.headers["x-request-id"] == "my-request-1"
    (event,) = until(lambda: [each for each in small.events if each.get("request") == "my-request-1"])
    assert (event["method"], event["path"], event["status"]) == ("POST", "/v1/score", 200)
    other = small.client.get("/health", headers={"X-Request-Id": 'a "bad" id'}).headers["x-request-id"]
    assert other.isalnum()
    whole = small.log.read_text(encoding="utf-8")
    assert TOKEN not in whole
    assert "confidential" not in whole
