"""What a server says of how its runs came about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from served import Serving

from seqloom.runs.watching import watched


def test_the_runs_are_listed_under_their_names(server: Serving, runs: dict[str, Path], trained: dict[str, Any]) -> None:
    listed = {run["model"]: run for run in server.client.get("/v1/runs").json()["runs"]}
    assert list(listed) == list(runs)
    for name in ("transformer", "pairs-transformer", "vae"):
        assert listed[name]["parameters"] == trained[name].parameters
    assert listed["transformer"]["figure"]["name"] == "valid_perplexity"
    assert {run["state"] for run in listed.values()} == {"finished"}


def test_the_training_of_a_run_is_what_its_folder_tells(server: Serving, runs: dict[str, Path]) -> None:
    found = server.client.get("/v1/training", params={"model": "transformer"}).json()
    assert found.pop("model") == "transformer"
    assert found == watched(runs["transformer"]).record()
    assert found["panels"][0]["lines"][0]["points"]
    assert found["samples"]


def test_a_training_is_asked_for_by_name(server: Serving) -> None:
    assert server.client.get("/v1/training").status_code == 400
    missing = server.client.get("/v1/training", params={"model": "transfromer"})
    assert missing.status_code == 404
    assert "did you mean 'transformer'" in missing.json()["error"]["message"]
