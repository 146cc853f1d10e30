"""No request, right or wrong, breaks the server: schemathesis makes them up from the server's own document."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance
from served import Serving

from seqloom.serving.app import make_app
from seqloom.serving.measures import Measures
from seqloom.serving.models import Models
from seqloom.serving.settings import Settings

SMALL = ("--max-output", 30, "--max-input", 200, "--max-texts", 8)
MODELS = {
    "talker": ("chat", "responses", "translate"),
    "vae": ("sample", "latent"),
    "autoencoder": ("denoise",),
    "rbm": ("complete-image",),
    "word2vec": ("words",),
    "ngram": (),
}
"""Who is asked what."""
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]


def operations() -> dict[str, Any]:
    """All endpoints of the server's document."""
    given_settings, measures = Settings(), Measures()
    app = make_app(Models({}, "cpu", given_settings, measures), given_settings, measures, lambda: False)
    found = [result.ok() for result in schemathesis.openapi.from_dict(app.openapi()).get_all_operations()]
    return {f"{each.method.upper()} {each.path}": each for each in found}


OPERATIONS = operations()


@pytest.fixture(scope="module")
def documented(runs: dict[str, Path], start: Callable[..., Serving]) -> dict[str, Serving]:
    """Servers of one model each, so that requests need not name it."""
    made = {name: start(runs[name], *SMALL) for name in MODELS}
    return {name: serving.until_ready() for name, serving in made.items()}


def model_for(path: str) -> str:
    """The model that is asked there."""
    return next((name for name, parts in MODELS.items() if any(part in path for part in parts)), "ngram")


def try_out(operation: Any, url: str, mode: GenerationMode, examples: int) -> None:
    strategy = operation.as_strategy(generation_mode=mode)

    @given(st.data())
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def ask(data: Any) -> None:
        case = data.draw(strategy)
        case.call_and_validate(base_url=url, checks=CHECKS)

    ask()


every_operation = pytest.mark.parametrize("name", OPERATIONS)
every_mode = pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda m: m.value)


@every_operation
@every_mode
def test_no_request_breaks_the_server(documented: dict[str, Serving], name: str, mode: GenerationMode) -> None:
    operation = OPERATIONS[name]
    if mode == GenerationMode.NEGATIVE and operation.method == "get":
        pytest.skip("nothing can be wrong with it")
    try_out(operation, documented[model_for(name)].url, mode, 8)


@pytest.mark.slow
@every_operation
@every_mode
def test_no_request_of_many_breaks_it(documented: dict[str, Serving], name: str, mode: GenerationMode) -> None:
    operation = OPERATIONS[name]
    if mode == GenerationMode.NEGATIVE and operation.method == "get":
        pytest.skip("nothing can be wrong with it")
    try_out(operation, documented[model_for(name)].url, mode, 400)
