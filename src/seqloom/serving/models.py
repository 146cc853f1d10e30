"""The runs that a server offers, by name: loaded behind the scenes, and what each can be asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Literal, TypeVar

from seqloom.config.schema.data import ImageData
from seqloom.errors import did_you_mean
from seqloom.runs import capabilities as runs
from seqloom.runs.capabilities import Capability
from seqloom.runs.trained import Trained
from seqloom.serving.access import log
from seqloom.serving.engine import Engine
from seqloom.serving.errors import ApiError
from seqloom.serving.measures import Measures
from seqloom.serving.settings import Settings
from seqloom.text.tokenizer import Tokenizer

Able = TypeVar("Able", bound=Capability)
Side = Literal["source", "target"]

ENDPOINTS: dict[str, tuple[type[Capability], ...]] = {
    "/v1/completions": (runs.Continues, runs.WritesStepwise),
    "/v1/chat/completions": (runs.Translates, runs.WritesStepwise),
    "/v1/responses": (runs.Translates, runs.WritesStepwise),
    "/v1/generate": (runs.WritesStepwise,),
    "/v1/translate": (runs.Translates, runs.WritesStepwise),
    "/v1/score": (runs.Scores,),
    "/v1/label": (runs.Labels,),
    "/v1/fill": (runs.Fills,),
    "/v1/sample": (runs.Draws,),
    "/v1/draw": (runs.DrawsTexts,),
    "/v1/caption": (runs.Captions,),
    "/v1/latent": (runs.HasCodes,),
    "/v1/denoise": (runs.Denoises,),
    "/v1/complete-image": (runs.Completes,),
    "/v1/words": (runs.HasWordVectors,),
}
"""What a run must be able to do for each endpoint; all of it."""


TASKS: dict[str, tuple[type[Capability], ...]] = {
    "continue": (runs.Continues,),
    "translate": (runs.Translates,),
    "label": (runs.Labels,),
    "fill": (runs.Fills,),
    "words": (runs.HasWordVectors,),
    "images": (runs.Captions, runs.Draws, runs.DrawsTexts, runs.ReadsImages),
}
"""What runs are for in one word, and the capabilities of which one says so; the first that fits."""


@dataclass(frozen=True)
class Served:
    """A run, and the engine that works with it."""

    name: str
    trained: Trained
    engine: Engine
    since: int
    """When it was loaded, in seconds since 1970."""

    @property
    def offers(self) -> list[str]:
        """The endpoints that take this run."""
        able = [path for path, needed in ENDPOINTS.items() if all(isinstance(self.trained, each) for each in needed)]
        if isinstance(self.trained, runs.Embeds | runs.HasWordVectors):
            able.append("/v1/embeddings")
        if self.tokenizer is not None:
            able += ["/tokenize", "/detokenize"]
        config = getattr(self.trained, "config", None)
        if config is not None and not isinstance(config.data, ImageData):
            able.append("/v1/data")
        return [*able, "/v1/examples", "/v1/training"]

    @property
    def task(self) -> str | None:
        """What the run is for, in one word."""
        return next((task for task, several in TASKS.items() if isinstance(self.trained, several)), None)

    @property
    def turns(self) -> bool:
        """Whether it learned from conversations."""
        return getattr(self.trained.config.data, "history", None) is not None

    @property
    def tokenizer(self) -> Tokenizer | None:
        """How texts become tokens, where the run reads any."""
        tokenizer = getattr(self.trained.assets, "tokenizer", None)
        return tokenizer if isinstance(tokenizer, Tokenizer) else None

    def tokenizer_of(self, side: Side) -> Tokenizer | None:
        """The same of one side of a model of pairs, which may read and write different tokens."""
        return getattr(self.trained, "target_tokenizer", self.tokenizer) if side == "target" else self.tokenizer

    @property
    def context(self) -> int | None:
        """How many tokens there are places for, where these were learned: what a text goes on from, and what comes."""
        from seqloom.nn.positions import LearnedPositions

        network = getattr(self.trained.model, "features", None) or getattr(self.trained.model, "decoder", None)
        learned = [part for part in network.modules() if isinstance(part, LearnedPositions)] if network else []
        return min((part.context for part in learned), default=None)

    def able(self, capability: type[Able], path: str) -> Able:
        """The run as one that has a capability; an error that says what it is for instead."""
        self.check(path)
        run: Any = self.trained
        assert isinstance(run, capability)
        return run

    def check(self, path: str) -> None:
        """Refuse what the run is not for, and say what it is for instead."""
        if path not in self.offers:
            raise ApiError(400, f"model {self.name!r} is not for {path}; it is for {', '.join(self.offers)}", "model")


class Models:
    """All runs of a server."""

    def __init__(self, folders: Mapping[str, Path], device: str, settings: Settings, measures: Measures) -> None:
        self.folders, self.device, self.settings, self.measures = dict(folders), device, settings, measures
        self._served: dict[str, Served] = {}
        self.problem: BaseException | None = None
        """Why they cannot be loaded."""

    def load(self, failed: Callable[[], None]) -> None:
        """Begin to load them; `failed` is called if that fails."""

        def work() -> None:
            try:
                for name, folder in self.folders.items():
                    self._load(name, folder)
            except BaseException as error:
                self.problem = error
                failed()

        Thread(target=work, name="loading", daemon=True).start()

    def _load(self, name: str, folder: Path) -> None:
        from seqloom.kinds import load

        began = time.monotonic()
        trained: Any = load(folder, self.device)
        engine = Engine(name, self.settings, self.measures)
        served = Served(name, trained, engine, int(time.time()))
        seconds = round(time.monotonic() - began, 3)
        log("loaded", model=name, kind=trained.kind, parameters=trained.parameters, seconds=seconds)
        self._served[name] = served

    @property
    def ready(self) -> bool:
        """Whether all are loaded."""
        return len(self._served) == len(self.folders)

    @property
    def idle(self) -> bool:
        """Whether nothing is being worked on."""
        return all(served.engine.idle for served in self._served.values())

    def give_up(self, why: Exception) -> None:
        """Tell all who wait that nothing will come, and why."""
        for served in self._served.values():
            served.engine.give_up(why)

    def all(self) -> list[Served]:
        """All of them; an error while some are being loaded."""
        if not self.ready:
            raise ApiError(503, "the models are being loaded", headers={"Retry-After": "1"})
        return list(self._served.values())

    def named(self, name: str | None) -> Served:
        """The run of a name; without a name, the only one."""
        everyone = self.all()
        if name is None:
            if len(everyone) == 1:
                return everyone[0]
            raise ApiError(400, f"name a model: one of {', '.join(self._served)}", "model")
        if name not in self._served:
            raise ApiError(404, f"there is no model {name!r}{did_you_mean(name, self._served)}", "model")
        return self._served[name]
