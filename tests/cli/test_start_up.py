"""What verbs import: help waits for nothing, n-grams and word vectors not for torch, and only pictures for
matplotlib."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import typer

from seqloom.cli.app import app

# Calls the command line, one line of arguments after another, and says after each what it has imported of `heavy`.
PROGRAM = """
import json, sys
from seqloom.cli import main
given, heavy = json.loads(sys.argv[1]), json.loads(sys.argv[2])
imported = []
for arguments in given:
    sys.argv = ["seqloom", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, arguments
    imported.append([name for name in heavy if name in sys.modules])
sys.stderr.write(json.dumps(imported))
"""


def imported(lines: list[list[str]], heavy: list[str]) -> dict[str, list[str]]:
    """Which of `heavy` are there after each line of arguments, in one process."""
    arguments = [json.dumps(lines), json.dumps(heavy)]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    said = json.loads(done.stderr.splitlines()[-1])
    return {" ".join(line): names for line, names in zip(lines, said, strict=True)}


def options(*settings: str) -> list[str]:
    """Each setting behind a --set."""
    return [part for setting in settings for part in ("--set", setting)]


def verbs(command: object, *before: str) -> list[list[str]]:
    """The names of all commands, of groups those inside them too."""
    inside = getattr(command, "commands", {}).items()
    return [list(before), *(line for name, below in inside for line in verbs(below, *before, name))]


def helps(command: Any) -> list[str]:
    """The help texts of a command and of all inside it."""
    return [command.help or "", *(text for below in getattr(command, "commands", {}).values() for text in helps(below))]


def test_examples_stand_line_by_line_in_every_help() -> None:
    found = helps(typer.main.get_command(app))
    assert sum("\bExamples:" in text.replace("\b\n", "\b") for text in found) > 20
    assert not [text for text in found if "\\b" in text]  # a mark that click would print


def test_no_help_waits_for_anything() -> None:
    lines = [[*verb, "--help"] for verb in verbs(typer.main.get_command(app))]
    assert ["inspect", "ngrams", "--help"] in lines
    lines += [["--version"], ["presets"]]
    found = imported(lines, ["torch", "numpy", "matplotlib", "tokenizers", "numba"])
    assert found == {line: [] for line in found}


def test_ngrams_and_word_vectors_do_not_wait_for_torch(corpus_file: Path, tmp_path: Path) -> None:
    settings = options(f"data.train={corpus_file}", "data.unit=line", "text.min_count=1")
    few = options("model.size=8", "model.passes=1")
    ngram, vectors = (str(tmp_path / name) for name in ("ngram", "word2vec"))
    lines = [
        ["train", "ngram", *settings, "--out", ngram, "--no-report"],
        ["train", "word2vec", *settings, *few, "--out", vectors, "--no-report"],
        ["score", ngram, "--input", str(corpus_file)],
        ["score", ngram, "--input", str(corpus_file), "--json"],
        ["evaluate", ngram, "--source", str(corpus_file)],
        ["evaluate", ngram, "--minimal-pairs", "blimp"],
        ["export", ngram, str(tmp_path / "model.arpa"), "--to", "arpa"],
        ["words", "neighbours", vectors, "cat"],
        ["words", "analogy", vectors, "cat", "dog", "mat"],
        ["words", "similarity", vectors, "cat", "dog"],
        ["export", vectors, str(tmp_path / "vectors.txt"), "--to", "word2vec"],
        ["evaluate", vectors, "--source", str(corpus_file)],
        ["stats", str(corpus_file)],
        ["presets", "show", "lstm"],
        ["corpora"],
        ["import", str(tmp_path / "model.arpa"), "--out", str(tmp_path / "imported")],
    ]
    found = imported(lines, ["torch", "matplotlib"])
    assert found == {line: [] for line in found}


def test_who_looks_at_runs_does_not_wait_for_torch(run: Path) -> None:
    folder = str(run.parent)
    lines = [["runs", folder], ["runs", folder, "--json"], ["show", folder]]
    lines += [["watch", str(run), "--once"], ["watch", str(run), "--json"]]
    found = imported(lines, ["torch", "matplotlib", "numba"])
    assert found == {line: [] for line in found}


def test_networks_read_and_write_without_matplotlib_and_the_compiler(run: Path, corpus_file: Path) -> None:
    lines = [
        ["score", str(run), "--input", str(corpus_file)],
        ["evaluate", str(run), "--source", str(corpus_file)],
        ["generate", str(run), "--prompt", "the cat", "--max-length", "3"],
    ]
    found = imported(lines, ["torch", "matplotlib", "numba"])
    assert found == {line: ["torch"] for line in found}
