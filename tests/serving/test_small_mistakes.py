"""Counters in full, images beside the event loop, biases at once, and errors that name what was sent."""

from __future__ import annotations

import asyncio
import base64
import io
import threading
import zlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import torch
from fastapi.testclient import TestClient
from PIL import Image
from served import Serving
from torch.utils._python_dispatch import TorchDispatchMode

from seqloom.errors import UserError
from seqloom.runs import capabilities
from seqloom.serving.app import make_app
from seqloom.serving.engine import Engine
from seqloom.serving.measures import Measures
from seqloom.serving.models import ENDPOINTS, Models, Served
from seqloom.serving.settings import Settings
from seqloom.serving.written import Wish, Written

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def client() -> TestClient:
    """A client of a server without models: what is said of requests that are wrong in themselves needs none."""
    settings, measures = Settings(), Measures()
    return TestClient(make_app(Models({}, "cpu", settings, measures), settings, measures, lambda: False))


# ----------------------------------------------------------------------------------------------------------- measures


def test_counters_and_sums_have_all_their_digits() -> None:
    measures = Measures()
    measures.gauge("rows", "Rows.", lambda: 7_654_321)
    lines = []
    for seconds in (1_000_000.5, 0.25):
        measures.count("tokens", "Tokens.", 12_345_678)
        measures.time("spent", "Seconds.", seconds)
        lines += measures.text().splitlines()
    assert [line for line in lines if line.startswith("tokens ")] == ["tokens 12345678", "tokens 24691356"]
    assert [line for line in lines if line.startswith("spent_sum ")] == ["spent_sum 1000000.5", "spent_sum 1000000.75"]
    assert "spent_count 2" in lines
    assert "rows 7654321" in lines


# ------------------------------------------------------------------------------------------------------------- images


def blank(side: int) -> str:
    """A white image: the file is small, however large the image is."""
    file = io.BytesIO()
    Image.new("1", (side, side), 1).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def boasting(side: int) -> str:
    """A file that says to hold so large an image, which nobody can make here."""
    content = bytearray(base64.b64decode(blank(8)))
    content[16:24] = 2 * side.to_bytes(4, "big")
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")  # of the header, which begins with its name
    return base64.b64encode(content).decode()


ASKED = {
    "/v1/caption": {"model": "captioner"},
    "/v1/latent": {"model": "vae", "do": "encode"},
    "/v1/denoise": {"model": "autoencoder"},
}


def test_images_are_opened_beside_the_event_loop(trained: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    settings, measures = Settings(), Measures()
    models = Models({}, "cpu", settings, measures)
    names = [body["model"] for body in ASKED.values()]
    served = {name: Served(name, trained[name], Engine(name, settings, measures), 0) for name in names}
    monkeypatch.setattr(models, "named", served.get)
    app = make_app(models, settings, measures, lambda: False)
    threads: list[int] = []
    real = Image.open

    def opened(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return real(*arguments, **options)

    async def ask() -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
            asked = [{**body, "images": [blank(8)]} for body in ASKED.values()]
            return [(await client.post(path, json=body)).status_code for path, body in zip(ASKED, asked, strict=True)]

    monkeypatch.setattr(Image, "open", opened)
    assert asyncio.run(ask()) == [200, 200, 200]
    assert len(threads) == 3
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("path", ASKED)
def test_the_pixels_of_all_images_of_a_request_are_limited(server: Serving, path: str) -> None:
    large = blank(4096)
    for images in ([large] * 3, [boasting(6000)], [boasting(1_000_000)]):
        refused = server.refusal(422, path, **ASKED[path], images=images)
        assert refused["param"] == "images"
        assert "33,554,432 pixels" in refused["message"]
    assert server.post(path, **ASKED[path], images=[large] * 2).status_code == 200


# ------------------------------------------------------------------------------------------------------------- biases


class Counting(TorchDispatchMode):
    """Counts what is computed inside it."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        self.count += 1
        return function(*arguments, **(options or {}))


def writing(wish: Wish, tokens: list[int]) -> Written:
    """A text with such a wish, of which these tokens are written."""
    beginning: Any = SimpleNamespace(unfolding=lambda: None)
    text = Written(0, beginning, wish, lambda piece: None)
    text.tokens = tokens
    return text


def test_many_biases_and_penalties_cost_as_few_operations_as_one() -> None:
    log_probs = torch.randn(5000).log_softmax(0)

    def operations(tokens: int) -> int:
        wish = Wish(bias=dict.fromkeys(range(tokens), 1.0), presence_penalty=1.0, frequency_penalty=0.5)
        text = writing(wish, list(range(tokens)))
        text.changed(log_probs)
        with Counting() as counting:
            text.changed(log_probs)
        return counting.count

    assert operations(5000) == operations(1)


def test_biases_and_penalties_are_added_to_the_tokens_that_they_are_of() -> None:
    log_probs = torch.randn(12).log_softmax(0)
    log_probs[5] = -torch.inf
    wish = Wish(bias={3: 2.3, 5: 100.0, 0: -7.7}, presence_penalty=0.3, frequency_penalty=0.7)
    before = log_probs.clone()
    expected = log_probs.tolist()
    for token, amount in {3: 2.3 - 0.3 - 2 * 0.7, 0: -7.7, 7: -0.3 - 0.7}.items():
        expected[token] += amount
    changed = writing(wish, [3, 7, 3]).changed(log_probs)
    torch.testing.assert_close(changed, torch.tensor(expected))
    assert log_probs.equal(before)


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("path", "body", "field", "said"),
    [
        ("completions", {"prompt": []}, "prompt", "at least 1 item"),
        ("completions", {"prompt": 5}, "prompt", "should be a string or a list"),
        ("completions", {"prompt": {"str": 1}}, "prompt", "should be a string or a list"),
        ("completions", {"prompt": [1, "a"]}, "prompt.1", "should be an integer"),
        ("completions", {"prompt": ["str", 5]}, "prompt.1", "should be a string"),
        ("completions", {"prompt": [[1], "a"]}, "prompt.1", "should be a list"),
        ("completions", {"prompt": [[1, -1]]}, "prompt.0.1", "greater than or equal to 0"),
        ("completions", {"prompt": "a", "stop": ""}, "stop", "at least 1 character"),
        ("completions", {"prompt": "a", "stop": [5]}, "stop.0", "should be a string"),
        ("completions", {"prompt": "a", "logit_bias": {"5": "x"}}, "logit_bias.5", "should be a number"),
        (
            "chat/completions",
            {"messages": [{"role": "user", "content": 5}]},
            "messages.0.content",
            "a string or a list",
        ),
        (
            "chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages.0.content.0.text",
            "this field is missing",
        ),
        ("chat/completions", {"messages": ["a"]}, "messages.0", "should be an object"),
        ("responses", {"input": [{"role": "x", "content": 5}]}, "input.0.role", "should be 'user' or 'assistant'"),
        ("responses", {"input": [{"role": "user", "content": []}]}, "input.0.content", "at least 1 item"),
        ("score", {"texts": []}, "texts", "at least 1 item"),
        ("score", {}, "texts", "this field is missing"),
        ("caption", {"images": []}, "images", "at least 1 item"),
        ("complete-image", {"keep": 2.0}, "keep", "should be less than 1"),
        ("complete-image", {"keep": "middle"}, "keep", "or a number"),
        ("words", {"do": "map", "words": [], "x": 1}, "words", "at least 1 item"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_name_fields_of_the_request(
    client: TestClient, path: str, body: dict[str, Any], field: str, said: str
) -> None:
    response = client.post(f"/v1/{path}", json=body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, field)
    assert error["message"].startswith(f"{field}: ")
    assert said in error["message"]


def test_errors_of_a_query_name_it_as_it_is_called(client: TestClient) -> None:
    error = client.get("/v1/examples?n=1000").json()["error"]
    assert (error["param"], error["message"]) == ("n", "n: should be less than or equal to 64")


@pytest.mark.parametrize(
    ("content", "headers", "said"),
    [
        (b"", {}, "send a JSON object with Content-Type: application/json"),
        (b'{"texts": "a"}', {}, "send a JSON object with Content-Type: application/json"),
        (b"[1]", JSON, "send a JSON object with Content-Type: application/json"),
        (b"null", JSON, "send a JSON object with Content-Type: application/json"),
        (b'{"texts": ', JSON, "the body is no JSON at character 11: Expecting value"),
        (b'{"texts": "\xff"}', JSON, "the body is no JSON: byte 12 is not UTF-8"),
        (b"[" * 200_000, JSON, "the body is no JSON that can be read: it is nested too deep"),
    ],
    ids=["empty", "no type", "list", "null", "cut", "latin-1", "deep"],
)
def test_a_body_that_is_no_object_is_told(client: TestClient, content: bytes, headers: Any, said: str) -> None:
    response = client.post("/v1/score", content=content, headers=headers)
    assert (response.status_code, response.json()["error"]["message"]) == (400, said)


def test_endpoints_and_methods_that_are_not_there_are_named(client: TestClient) -> None:
    missing = client.get("/v1/nothing")
    assert (missing.status_code, missing.json()["error"]["message"]) == (404, "there is no endpoint /v1/nothing")
    wrong = client.delete("/v1/score")
    assert (wrong.status_code, wrong.json()["error"]["message"]) == (405, "/v1/score takes POST, not DELETE")
    assert wrong.headers["allow"] == "POST"


# ----------------------------------------------------------------------------------------------------- what is set up


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (lambda: Settings(seconds=0), "--timeout must be above 0, not 0"),
        (lambda: Settings(seconds=float("nan")), "--timeout must be above 0, not nan"),
        (lambda: Settings(output_tokens=-1), "--max-output must be above 0, not -1"),
        (lambda: Settings(grace=-1), "--grace must be a number of seconds from 0 on, not -1"),
        (lambda: Settings(grace=float("nan")), "--grace must be a number of seconds from 0 on, not nan"),
        (lambda: Settings(grace=float("inf")), "--grace must be a number of seconds from 0 on, not inf"),
    ],
)
def test_settings_are_refused_by_the_names_of_their_options(settings: Callable[[], Settings], said: str) -> None:
    with pytest.raises(UserError) as refused:
        settings()
    assert str(refused.value) == said


def test_what_fills_gaps_stands_in_the_table_of_endpoints(trained: dict[str, Any]) -> None:
    assert ENDPOINTS["/v1/fill"] == (capabilities.Fills,)
    settings = Settings()
    for name, offered in (("bert", 1), ("ngram", 0)):
        served = Served(name, trained[name], Engine(name, settings, Measures()), 0)
        assert served.offers.count("/v1/fill") == offered


def test_runs_are_as_large_as_their_models(server: Serving, trained: dict[str, Any]) -> None:
    listed = {run["model"]: run["parameters"] for run in server.client.get("/v1/runs").json()["runs"]}
    assert listed == {name: run.parameters for name, run in trained.items()}
