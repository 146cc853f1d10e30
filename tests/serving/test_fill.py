"""`/v1/fill` asks what runs that fill in say; a stand-in does here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from seqloom.runs import capabilities as runs
from seqloom.serving.app import make_app
from seqloom.serving.engine import Engine
from seqloom.serving.measures import Measures
from seqloom.serving.models import Models, Served
from seqloom.serving.settings import Settings


@dataclass(frozen=True)
class Candidate:
    token: str
    probability: float


@dataclass(frozen=True)
class Filled:
    text: str
    blanks: list[list[Candidate]]


class Filler(runs.Fills):
    assets = SimpleNamespace()
    kind = "filler"
    blank = "_"

    def fill(self, texts: Any, top: int = 5) -> list[Any]:
        return [Filled(text.replace("_", "cat"), [[Candidate("cat", 0.75)][:top]]) for text in texts]


def test_blanks_are_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, measures = Settings(), Measures()
    models = Models({}, "cpu", settings, measures)
    served = Served("filler", Filler(), Engine("filler", settings, measures), 0)  # type: ignore[arg-type]
    monkeypatch.setattr(models, "named", lambda name: served)
    app = make_app(models, settings, measures, lambda: False)

    async def ask(**body: Any) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
            return await client.post("/v1/fill", json=body)

    answer = asyncio.run(ask(texts="the _ sat"))
    blanks = [[{"token": "cat", "probability": 0.75}]]
    assert answer.json()["filled"] == [{"text": "the _ sat", "filled": "the cat sat", "blanks": blanks}]
