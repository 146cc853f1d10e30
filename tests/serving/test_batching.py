"""An answer does not depend on who else is asking; who leaves makes room; what is long does not stand in the way."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import httpx
import pytest
from served import Serving, until

ASKED = 40


def questions(model: str) -> list[dict[str, Any]]:
    """Prompts of all lengths and ways to go on from them."""
    chance = random.Random(0)
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "fell", "log"]
    made = []
    for number in range(ASKED):
        prompt = " ".join(chance.choices(words, k=1 + number % 9))
        options: dict[str, Any] = {"seed": number, "strategy": "sample", "min_length": number % 30, "max_length": 40}
        if number % 4 == 0:
            options = {"strategy": "greedy", "max_length": 30, "min_length": 20}
        elif number % 4 == 1:
            options |= {"temperature": 0.7, "top_k": 6}
        elif number % 4 == 2:
            options |= {"top_p": 0.9, "n_best": 3}
        made.append({"model": model, "prompt": prompt, **options})
    return made


async def ask_all(server: Serving, bodies: list[dict[str, Any]]) -> list[Any]:
    async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
        answers = await asyncio.gather(*(client.post("/v1/generate", json=body) for body in bodies))
    assert {answer.status_code for answer in answers} == {200}
    return [answer.json()["outputs"] for answer in answers]


@pytest.mark.parametrize("name", ["transformer", "ngram", "pairs-transformer", "copying"])
def test_answers_among_many_are_those_of_the_python_api_to_the_bit(
    server: Serving, trained: dict[str, Any], name: str
) -> None:
    bodies = questions(name)
    together = asyncio.run(ask_all(server, bodies + bodies[::-1]))
    assert together[:ASKED] == together[ASKED:][::-1]
    for body, outputs in zip(bodies[::5], together[::5], strict=False):
        options = {key: value for key, value in body.items() if key not in ("model", "prompt")}
        (several,) = trained[name].generate([body["prompt"]], **options)
        assert [(each["text"], each["log_prob"]) for each in outputs] == [(e.text, e.log_prob) for e in several]


def test_the_command_line_says_the_same(server: Serving, runs: dict[str, Any], cli: Any) -> None:
    body = questions("transformer")[2]
    asyncio.run(ask_all(server, questions("transformer")))
    outputs = server.answer("/v1/generate", **body)["outputs"]
    names = ("seed", "strategy", "min_length", "max_length", "top_p", "n_best")
    options = [part for name in names for part in (f"--{name.replace('_', '-')}", body[name])]
    done = cli("generate", runs["transformer"], "--prompt", body["prompt"], "--json", "--device", "cpu", *options)
    assert done.records[0]["outputs"] == outputs


LONG = {"model": "ngram", "prompt": "the", "max_length": 1000, "min_length": 1000, "stream": True, "n_best": 4}


def test_clients_that_leave_free_their_rows(server: Serving) -> None:
    async def leave() -> None:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            for number in range(6):
                async with client.stream("POST", "/v1/generate", json={**LONG, "seed": number}) as response:
                    async for line in response.aiter_lines():
                        if line:
                            break  # and go

    asyncio.run(leave())
    until(lambda: server.measure("seqloom_rows") == 0)
    whole = {**LONG, "stream": False, "model": "transformer"}
    with pytest.raises(httpx.ReadTimeout):
        server.client.post("/v1/generate", json=whole, timeout=0.2)
    until(lambda: server.measure("seqloom_rows") == 0)


def test_scores_are_answered_while_a_text_is_written(server: Serving) -> None:
    with server.client.stream("POST", "/v1/generate", json=LONG) as response:
        lines = response.iter_lines()
        next(lines)
        for number in range(5):
            server.answer("/v1/score", model="ngram", texts=f"the cat {number}")
        assert server.measure("seqloom_rows") == 4  # still being written
        response.close()


def test_many_requests_leave_no_memory_behind(server: Serving) -> None:
    def memory() -> int:
        """Bytes that the server holds."""
        with open(f"/proc/{server.process.pid}/statm") as file:
            return int(file.read().split()[1]) * 4096

    bodies = questions("transformer")
    for _ in range(3):  # kernels for each number of rows are made once, and kept
        asyncio.run(ask_all(server, bodies))
    before = memory()
    for _ in range(4):
        asyncio.run(ask_all(server, bodies))
    assert memory() - before < 32 << 20


def test_a_stream_that_cannot_begin_is_refused_before_it_does(server: Serving) -> None:
    body = {"model": "transformer", "prompt": [5, 2], "stream": True}  # a text begins at its beginning
    response = server.post("/v1/completions", **body)
    assert response.status_code == 400
    assert "<bos>" in json.loads(response.text)["error"]["message"]
