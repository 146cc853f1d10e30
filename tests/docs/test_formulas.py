"""The table of formulas tells the truth: every page, command, file and test that it names is there."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from test_docs import DOCS, LINK, ROOT, anchors
from typer.main import get_command

from seqloom.cli.app import app
from seqloom.config import load_config

PAGE = DOCS / "formulas.md"
HEAD = "| What | Formula | Page | Command | Code | Test |"
PARSER = get_command(app)
NAMED = re.compile(r"`([^`]+)`")
FORMULA = re.compile(r"\$([^$]+)\$")


class Row(NamedTuple):
    """A line of the table, cell by cell."""

    what: str
    formula: str
    page: str
    command: str
    code: str
    test: str


def table(text: str) -> list[Row]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [Row(*line.strip("| ").split(" | ")) for line in lines if line != HEAD and not line.startswith("|--")]


ROWS = table(PAGE.read_text(encoding="utf-8"))


def test_every_section_has_the_table_but_the_last() -> None:
    *sections, last = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    assert [section.splitlines()[0] for section in sections if HEAD not in section] == []
    assert last.startswith("Not yet")
    assert HEAD not in last
    assert len({(row.what, row.formula) for row in ROWS}) == len(ROWS) > 150


# --------------------------------------------------------------------------------------------------------- pages


def is_explained(cell: str) -> bool:
    """One link, to a page and a heading that are there."""
    (link,) = LINK.finditer(cell)
    name, _, anchor = link["target"].partition("#")
    return (DOCS / name).is_file() and (not anchor or anchor in headings(name))


@cache
def headings(page: str) -> set[str]:
    return anchors(DOCS / page)


def test_every_formula_is_explained_where_the_table_says() -> None:
    assert is_explained("[Lengths](decoding.md#length)")
    assert not is_explained("[Lengths](decoding.md#width)")
    assert [row.page for row in ROWS if not is_explained(row.page)] == []


def test_every_page_of_a_model_has_a_row() -> None:
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    sections = {name: part for entry in navigation for name, part in entry.items()}
    wanted = {page for section in ("Text and data", "Models") for entry in sections[section] for page in entry.values()}
    wanted |= {"training.md", "decoding.md", "evaluation.md", "metrics.md"}
    named = {link["target"].partition("#")[0] for row in ROWS for link in LINK.finditer(row.page)}
    assert wanted - named == set()


# ------------------------------------------------------------------------------------------------------ commands


def fault(command: str) -> str | None:
    """What is wrong with a command: verb, arguments and options by the command line's own parser, presets and settings
    by the schema."""
    program, *arguments = shlex.split(command)
    if program == "python":
        return None if (ROOT / f"{arguments[1].replace('.', '/')}.py").is_file() else "no such module"
    try:
        parser = PARSER
        while nested := getattr(parser, "commands", None):
            verb = arguments.pop(0)
            parser = nested[verb]
        given = parser.make_context(verb, arguments).params
        if verb == "train":
            load_config(*given["sources"], given["settings"])
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize(
    "command",
    [
        "seqloom trian lstm",
        "seqloom train lstn",
        "seqloom train lstm --set model.featurs.size=3",
        "seqloom train lstm --set model.features.size=small",
        "seqloom inspect gradiants runs/rnn",
        "seqloom generate runs/lstm --tempreature 0.8",
        "seqloom generate runs/lstm --strategy exhausting",
        "python -m benchmarks.nothing",
    ],
)
def test_a_command_that_nobody_understands_is_found(command: str) -> None:
    assert fault(command)


def test_every_command_is_understood() -> None:
    commands = {command for row in ROWS for command in NAMED.findall(row.command)}
    assert {command: wrong for command in commands if (wrong := fault(command))} == {}
    assert {row.command for row in ROWS if not NAMED.fullmatch(row.command)} <= {"from Python"}


# ------------------------------------------------------------------------------------------------ files and tests


def test_every_file_is_there() -> None:
    files = [
        ROOT / name if name.startswith("benchmarks/") else ROOT / "src" / "seqloom" / name for name in named("code")
    ]
    assert [str(file) for file in files if not file.is_file()] == []


def test_every_test_is_there() -> None:
    assert [name for name in named("test") if not is_test(name)] == []
    assert not is_test("docs/test_formulas.py::test_that_nobody_wrote")


def named(column: str) -> list[str]:
    """What a column names; every row of it something."""
    found = [NAMED.findall(getattr(row, column)) for row in ROWS]
    assert all(found)
    return [name for names in found for name in names]


def is_test(name: str) -> bool:
    file, _, function = name.partition("::")
    return function.startswith("test_") and function in functions(ROOT / "tests" / file)


@cache
def functions(file: Path) -> set[str]:
    """The names of the functions that a file defines, read and not run."""
    return {node.name for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_every_formula_can_be_drawn() -> None:
    """By the site, which makes MathML of it: a command that it does not know would be left as it is."""
    converter = pytest.importorskip("latex2mathml.converter")
    formulas = [formula for row in ROWS for formula in FORMULA.findall(row.what + row.formula)]
    assert [each for each in formulas if re.search(r"\\[A-Za-z]+", converter.convert(each))] == []
