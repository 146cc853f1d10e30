"""The laboratory in which faults are tried, and the table of what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import pytest
from forks import Server
from laboratory import Laboratory
from tally import Counting, Tally, table


@pytest.fixture(scope="session")
def laboratory(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    folder = tmp_path_factory.mktemp("laboratory")
    with chdir(folder):
        server = Server()
    with server:
        yield Laboratory(folder, corpus_file.read_text(encoding="utf-8").splitlines(), server)


@pytest.fixture
def tally(record_property: Callable[[str, Any], None]) -> Counting:
    @contextmanager
    def counting(chapter: str) -> Iterator[Tally]:
        trials = Tally(chapter)
        yield trials
        record_property(chapter, trials.row)
        if trials.complaints:
            pytest.fail("\n".join(trials.complaints), pytrace=False)

    return counting


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault-table", metavar="FILE.md", help="write the table of faults into a markdown file")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    reports = [report for found in terminalreporter.stats.values() for report in found]
    called = [report for report in reports if getattr(report, "when", None) == "call"]
    lines = table(pair for report in called for pair in report.user_properties)
    if not lines:
        return
    terminalreporter.section("faults")
    terminalreporter.write_line("\n".join(lines))
    file = config.getoption("--fault-table", None)
    if file:
        Path(file).write_text("\n".join(lines) + "\n", encoding="utf-8")
