"""Who waits for what: one queue for each model, and nobody in it who has left."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from served import WAIT, Serving, until

from seqloom.serving.asking import House
from seqloom.serving.errors import ApiError
from seqloom.serving.settings import Settings

SEARCH = {"model": "transformer", "prompt": "the", "beam": 128, "max_length": 1000, "min_length": 1000}
"""It takes many times as long as any other request here."""
QUESTION = {"model": "transformer", "texts": "the cat"}


@pytest.fixture(scope="module")
def narrow(runs: dict[str, Path], start: Callable[..., Serving]) -> Serving:
    """A server whose queues have two places."""
    limits = ("--queue", 2, "--max-input", 30)
    return start(runs["transformer"], runs["pairs-transformer"], runs["ngram"], *limits).until_ready()


@contextmanager
def asked(serving: Serving, path: str, **body: Any) -> Iterator[None]:
    """Somebody has asked, and waits for as long as the block takes; then that client leaves."""
    content = json.dumps(body)
    head = f"POST {path} HTTP/1.1\r\nHost: server\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    with socket.create_connection(("127.0.0.1", httpx.URL(serving.url).port), WAIT) as connection:
        connection.sendall(f"{head}\r\n\r\n{content}".encode())
        yield


@contextmanager
def searching(serving: Serving) -> Iterator[None]:
    """The engine is busy with this search alone, for as long as the block takes."""
    until(lambda: serving.measure("seqloom_calls") == 0)
    with asked(serving, "/v1/generate", **SEARCH):
        until(lambda: serving.measure("seqloom_calls") == 1)
        yield
        assert serving.measure("seqloom_calls") == 1, "the search was no search for long"


def test_a_search_ends_when_its_client_has_left(narrow: Serving) -> None:
    with searching(narrow):
        began = time.monotonic()
    until(lambda: narrow.measure("seqloom_calls") == 0)
    left = time.monotonic() - began
    began = time.monotonic()
    narrow.answer("/v1/generate", **SEARCH)
    assert left < (time.monotonic() - began) / 2


def test_those_who_have_left_take_no_place_in_the_queue(narrow: Serving) -> None:
    with searching(narrow):
        for _ in range(3):
            with asked(narrow, "/v1/score", **QUESTION):
                until(lambda: narrow.measure("seqloom_waiting") == 1)
            until(lambda: narrow.measure("seqloom_waiting") == 0)


def test_a_stream_that_finds_the_queue_full_is_429(narrow: Serving) -> None:
    body = {"model": "transformer", "prompt": "the", "stream": True}
    with searching(narrow), asked(narrow, "/v1/score", **QUESTION), asked(narrow, "/v1/score", **QUESTION):
        until(lambda: narrow.measure("seqloom_waiting") == 2)
        for path in ("/v1/completions", "/v1/generate"):
            response = narrow.post(path, **body)
            assert response.status_code == 429, response.text
            assert response.headers["retry-after"] == "1"
            assert "2 requests wait already" in response.json()["error"]["message"]


def test_a_request_is_one_however_many_texts_it_has(narrow: Serving) -> None:
    found = narrow.answer("/v1/translate", model="pairs-transformer", q=["a b"] * 40)["translatedText"]
    assert found == [narrow.answer("/v1/translate", model="pairs-transformer", q="a b")["translatedText"]] * 40
    answer = narrow.answer("/v1/completions", model="transformer", prompt=["the cat"] * 9, max_tokens=2, seed=3)
    assert len(answer["choices"]) == 9


def test_nothing_longer_than_allowed_is_read_or_written(runs: dict[str, Path], start: Callable[..., Serving]) -> None:
    serving = start(runs["ngram"], runs["pairs-transformer"], "--max-output", 2, "--max-input", 4).until_ready()
    for body in ({"model": "ngram", "prompt": "the"}, {"model": "pairs-transformer", "prompt": "a b c"}):
        (output,) = serving.answer("/v1/generate", **body)["outputs"]
        assert output["tokens"] <= 2
    long = "a b c d e f"
    said = serving.refusal(422, "/v1/generate", model="pairs-transformer", prompt="a", prefix=long)["message"]
    assert said.startswith("prefix: ")
    assert said.endswith("tokens are more than the 4 that are allowed")
    serving.refusal(422, "/v1/score", model="pairs-transformer", sources="a", texts=long)
    assert serving.end() == 0


def test_a_model_writes_as_far_as_it_has_places() -> None:
    """It reads `<bos>`, what is there, and all that it writes but the last."""
    house, served = House(Any, Settings(output_tokens=50)), SimpleNamespace(context=20)  # type: ignore[arg-type]
    for before, wanted, most in ((19, 1, 1), (15, 5, 5), (20, 0, 0), (3, None, 17)):
        assert house.check_output(served, wanted, before, "max_tokens") == most  # type: ignore[arg-type]
    with pytest.raises(ApiError, match="19 tokens and 2 new ones do not fit into the model's 20 places"):
        house.check_output(served, 2, 19, "max_tokens")  # type: ignore[arg-type]
    with pytest.raises(ApiError, match="1 new one do not fit"):
        house.check_output(served, None, 20, "max_tokens")  # type: ignore[arg-type]
    assert house.check_output(SimpleNamespace(context=None), None, 900, "max_tokens") == 50  # type: ignore[arg-type]


def test_who_waits_when_the_grace_is_over_is_told(runs: dict[str, Path], start: Callable[..., Serving]) -> None:
    serving = start(runs["transformer"], "--grace", "0.5").until_ready()
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(serving.post("/v1/generate", **SEARCH)))
    thread.start()
    until(lambda: serving.measure("seqloom_calls") == 1)
    serving.process.send_signal(signal.SIGTERM)
    assert serving.process.wait(WAIT) == 0
    thread.join(WAIT)
    assert answers[0].status_code == 503
    assert answers[0].json()["error"]["message"] == "the server is ending"
    assert "Traceback" not in serving.log.read_text(encoding="utf-8")
