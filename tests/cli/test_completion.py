"""What the shell offers: verbs, presets, runs, keys and their values."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqloom.config import preset_names

Cli = Callable[..., Any]
Offered = Callable[[str], list[str]]


@pytest.fixture
def offered(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Offered:
    """What is offered for the last word of a line, by the protocol that bash speaks."""

    def ask(line: str) -> list[str]:
        monkeypatch.setenv("_SEQLOOM_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - (not line.endswith(" "))))
        done = cli()
        monkeypatch.delenv("_SEQLOOM_COMPLETE")
        assert (done.code, done.err) == (0, "")
        return [line for line in done.out.splitlines() if line]

    return ask


def test_verbs_options_and_choices_are_offered(offered: Offered) -> None:
    assert offered("seqloom tr") == ["train"]
    assert offered("seqloom words an") == ["analogy"]
    assert offered("seqloom generate runs/x --str") == ["--strategy"]
    assert offered("seqloom generate runs/x --strategy be") == ["beam"]


def test_presets_are_offered_where_they_are_taken(offered: Offered) -> None:
    for line in ("seqloom train ", "seqloom compare ", "seqloom presets show ", "seqloom presets copy "):
        assert set(preset_names()) <= set(offered(line))
    assert offered("seqloom train lstm-") == ["lstm-coupled", "lstm-peephole"]


def test_runs_are_offered_where_they_are_taken(
    offered: Offered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/one", "runs/two", "runs/ladder/three", "alone", "other"):
        Path(name).mkdir(parents=True)
        if name != "other":
            (Path(name) / "run.json").touch()
    for verb in ("generate", "score", "show", "inspect ngrams", "words map", "images sample", "compare"):
        assert (
            {"alone", "runs/one", "runs/two"}
            <= set(offered(f"seqloom {verb} "))
            <= {
                *("alone", "runs/one", "runs/two"),
                *(preset_names() if verb == "compare" else []),
            }
        )
    assert offered("seqloom generate runs/t") == ["runs/two"]
    assert offered("seqloom generate runs/ladder/") == ["runs/ladder/three"]


def test_keys_are_those_of_the_preset_and_of_the_kinds_on_the_line(offered: Offered) -> None:
    assert "model.features.size=" in offered("seqloom train lstm --set ")
    ngram = offered("seqloom train ngram --set model.")
    assert "model.order=" in ngram
    assert not any(key.startswith("model.features") for key in ngram)
    assert offered("seqloom train lstm --set model.features.hea") == []
    kind = "--set model.features.kind=transformer"
    assert offered(f"seqloom train lstm {kind} --set model.features.head") == [
        *("model.features.heads=", "model.features.head_size="),
    ]
    assert offered("seqloom train nonsense --set training.opti") == offered("seqloom train --set training.opti") != []


def test_values_are_offered_where_they_can_be_listed(offered: Offered) -> None:
    assert offered("seqloom train lstm --set model.features.kind=lstm") == [
        *("model.features.kind=lstm", "model.features.kind=lstm-coupled", "model.features.kind=lstm-peephole"),
    ]
    sharded = ["training.sharded=false", "training.sharded=true"]
    assert offered("seqloom train lstm --set training.sharded=") == sharded
    either = ["training.compile=auto", "training.compile=false", "training.compile=true"]
    assert offered("seqloom train lstm --set training.compile=") == either
    short = ["training.precision=bf16", "training.precision=bf16-weights"]
    assert offered("seqloom train lstm --set training.precision=b") == short
    assert offered("seqloom train lstm --set seed=") == []


def test_scripts_are_printed(cli: Cli) -> None:
    for shell, sign in (("bash", "complete -o default"), ("zsh", "#compdef seqloom"), ("fish", "complete --command")):
        assert sign in cli("completion", shell).out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_real_bash_completes_and_waits_for_no_torch() -> None:
    """Behind =, bash replaces only what follows; what is one key gets no space behind it."""
    program = (
        "import sys, atexit; sys.argv[0] = 'seqloom'; from seqloom.cli import main\\n"
        "heavy = ('torch', 'numpy', 'matplotlib')\\n"
        "atexit.register(lambda: [print('HEAVY', name) for name in heavy if name in sys.modules])\\n"
        "main()\\n"
    )
    script = f"""
        seqloom() {{ {sys.executable} -c $'{program.replace("'", chr(92) + "'")}' "$@"; }}
        compopt() {{ echo compopt "$@"; }}
        eval "$(seqloom completion bash | grep -v HEAVY)"
        complete -p seqloom
        ask() {{ COMP_LINE="$1"; COMP_POINT=${{#1}}; _seqloom_completion seqloom; echo "${{COMPREPLY[*]}}"; }}
        ask "seqloom train lstm --set model.features.kind=tr"
        ask "seqloom train lstm --set training.optimizer.learn"
    """
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "complete -o default -F _seqloom_completion seqloom",
        "transformer",
        "compopt -o nospace",
        "training.optimizer.learning_rate=",
    ]
