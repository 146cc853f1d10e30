"""How a server begins and ends: at once, in order, and after being killed."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from served import WAIT, Serving, until

from seqloom.errors import UserError
from seqloom.serving.app import make_app
from seqloom.serving.measures import Measures
from seqloom.serving.models import Models
from seqloom.serving.server import listen
from seqloom.serving.settings import Settings, named

LONG = {"prompt": "the", "max_tokens": 1000, "logit_bias": {"3": -100.0}}


def test_it_is_there_while_models_are_loaded(runs: dict[str, Path]) -> None:
    settings, measures = Settings(), Measures()
    models = Models({"ngram": runs["ngram"]}, "cpu", settings, measures)
    client = TestClient(make_app(models, settings, measures, lambda: False))
    assert (client.get("/health").status_code, client.get("/health").json()) == (503, {"status": "loading"})
    assert client.get("/v1/models").status_code == 503
    models.load(lambda: None)
    until(lambda: client.get("/health").status_code == 200)
    assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["ngram"]


def test_sigterm_finishes_what_runs_and_refuses_what_comes(
    runs: dict[str, Path], start: Callable[..., Serving]
) -> None:
    serving = start(runs["transformer"], "--grace", "60").until_ready()
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(serving.post("/v1/completions", **LONG)))
    waiting = httpx.Client(base_url=serving.url, timeout=WAIT)
    waiting.get("/health")  # a connection that is open already
    asking.start()
    until(lambda: serving.measure("seqloom_rows") == 1)
    serving.process.send_signal(signal.SIGTERM)
    until(lambda: [event for event in serving.events if event["event"] == "ending"])
    assert waiting.post("/v1/score", json={"texts": "a"}).status_code == 503
    asking.join(WAIT)
    assert answers[0].status_code == 200
    assert answers[0].json()["usage"]["completion_tokens"] == 1000
    assert serving.process.wait(WAIT) == 0


def test_it_ends_within_its_grace(runs: dict[str, Path], start: Callable[..., Serving]) -> None:
    serving = start(runs["transformer"], "--grace", "0.2").until_ready()
    thread = threading.Thread(target=lambda: _ask(serving))
    thread.start()
    until(lambda: serving.measure("seqloom_rows") >= 1)
    serving.process.send_signal(signal.SIGTERM)
    assert serving.process.wait(WAIT) == 0
    thread.join(WAIT)
    ending, ended = ([e for e in serving.events if e["event"] == name] for name in ("ending", "ended"))
    assert ending
    assert ended


def _ask(serving: Serving) -> None:
    with suppress(httpx.TransportError):
        serving.post("/v1/generate", prompt="the", n_best=64, max_length=1000, min_length=1000)


def test_runs_in_a_folder_are_called_by_their_places(runs: dict[str, Path], tmp_path: Path) -> None:
    for place in ("alone", "ladder/ngram"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).symlink_to(runs["ngram"])
    assert named([str(tmp_path / "ladder")]) == {"ngram": tmp_path / "ladder/ngram"}
    assert named([str(tmp_path), f"other={runs['vae']}"]) == {
        "alone": tmp_path / "alone",
        "ladder-ngram": tmp_path / "ladder/ngram",
        "other": runs["vae"],
    }
    assert named([str(runs["vae"])]) == {"vae": runs["vae"]}
    begun = tmp_path / "begun" / "lstm"
    begun.mkdir(parents=True)
    (begun / "run.json").symlink_to(runs["ngram"] / "run.json")
    assert "begun-lstm" not in named([str(tmp_path)])
    with pytest.raises(UserError, match="has weights yet"):
        named([str(tmp_path / "begun")])


def test_a_killed_server_starts_again_on_its_port(runs: dict[str, Path], start: Callable[..., Serving]) -> None:
    first = start(runs["ngram"]).until_ready()
    port = int(first.url.rpartition(":")[2])
    first.process.kill()
    first.process.wait(WAIT)
    second = start(runs["ngram"], "--host", "127.0.0.1", "--port", port).until_ready()
    answer = second.answer("/v1/completions", prompt="the cat", max_tokens=3)
    assert answer["choices"][0]["finish_reason"]
    assert second.end() == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonesuch"], "not a run folder"),
        (["RUN", "OTHER=RUN", "OTHER=RUN"], "two runs are called 'OTHER'"),
        (["RUN", "--token-file", "nonesuch"], "nonesuch cannot be read as a token file"),
        (["RUN", "--port", "99999"], "there is no port 99999"),
        (["RUN", "--queue", "0"], "--queue: input should be greater than or equal to 1"),
        (["RUN", "--port", "TAKEN"], "choose another --port"),
    ],
)
def test_mistakes_are_one_line(runs: dict[str, Path], cli: Any, arguments: list[str], said: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port, run = str(taken.getsockname()[1]), str(runs["ngram"])
        done = cli("serve", *(part.replace("RUN", run).replace("TAKEN", port) for part in arguments))
    assert done.code == 2
    assert said in done.error


def test_damaged_runs_end_the_server_with_their_error(
    runs: dict[str, Path], start: Callable[..., Serving], tmp_path: Path
) -> None:
    import shutil

    shutil.copytree(runs["ngram"], tmp_path / "damaged")
    weights = tmp_path / "damaged" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    serving = start(tmp_path / "damaged")
    assert serving.process.wait(WAIT) == 2
    assert "error: " in serving.log.read_text(encoding="utf-8").splitlines()[-1]


def test_parts_of_answers_are_sent_at_once() -> None:
    with listen(Settings(port=0)) as listening:
        listening.listen()

        async def accept() -> int:
            """What asyncio makes of a connection."""
            given: asyncio.Future[int] = asyncio.get_running_loop().create_future()

            def arrived(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                connection = writer.get_extra_info("socket")
                given.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                writer.close()

            server = await asyncio.start_server(arrived, sock=listening)
            _, client = await asyncio.open_connection(*listening.getsockname())
            try:
                return await asyncio.wait_for(given, WAIT)
            finally:
                client.close()
                server.close()

        assert asyncio.run(accept())
