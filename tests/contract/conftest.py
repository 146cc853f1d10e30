"""The workshop in which the runs of this folder's tests are trained, in the tests' own process."""

from __future__ import annotations

from contextlib import chdir
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from kinds import FIRST, Case
from workshop import Workshop

import seqloom


@dataclass(frozen=True)
class Run:
    """A trained case."""

    case: Case
    trained: Any
    """What `seqloom.train` returned."""

    @property
    def path(self) -> Path:
        return Path("runs") / self.case.name

    @cached_property
    def outputs(self) -> dict[str, Any]:
        return self.case.outputs(self.trained)


@pytest.fixture(scope="session")
def workshop(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Workshop[Run]:
    """The first case of each kind is trained with a report."""
    folder = tmp_path_factory.mktemp("workshop")

    def train(case: Case) -> Run:
        with chdir(folder):
            trained = seqloom.train(case.preset, case.settings, Path("runs") / case.name, report=case in FIRST)
        return Run(case, trained)

    return Workshop(folder, corpus_file.read_text(encoding="utf-8").splitlines(), train)


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest, workshop: Workshop[Run]) -> Run:
    """The run of the case that a test names."""
    return workshop.run(request.param)
