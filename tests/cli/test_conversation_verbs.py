"""The verbs with a model of conversations: it must remember what was said before the last turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seqloom

Cli = Callable[..., Any]

NAMES = ["ann", "bo", "cy", "di"]
CONFIG = """
text: {kind: whitespace}
data: {kind: pairs, batch_tokens: 200, history: 3}
model:
  kind: seq2seq
  embedding: {size: 16}
  encoder: {kind: gru, size: 16}
  decoder: {kind: gru, size: 16}
objective: {kind: teacher-forcing}
training: {steps: 120, validate_every: 60, device: cpu, optimizer: {learning_rate: 0.02}}
"""


@pytest.fixture(scope="module")
def talker(without_reports: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned to say the name that it was told two turns before."""
    folder = tmp_path_factory.mktemp("talk")
    (folder / "talk.yaml").write_text(CONFIG)
    records = [{"turns": [f"i am {name}", "hello", "who am i", name]} for name in NAMES]
    (folder / "talk.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    files = [f"data.{part}={folder / 'talk.jsonl'}" for part in ("train", "valid", "test")]
    with without_reports():
        seqloom.train(folder / "talk.yaml", files, folder / "run")
    return folder / "run"


def test_a_chat_remembers_the_turns_before(talker: Path, cli: Cli) -> None:
    for name in NAMES:
        done = cli("generate", talker, "--chat", stdin=f"i am {name}\n\nwho am i\n")
        assert (done.code, done.out) == (0, f"hello\n{name}\n"), done.err


def test_a_line_may_hold_more_turns_than_are_read(talker: Path, cli: Cli) -> None:
    """The last three count: what was said before them changes nothing."""
    recent = "i am bo | hello | who am i"
    outputs = [
        cli("generate", talker, "--input", "-", "--json", stdin=given + "\n").out
        for given in (recent, f"i am di | {recent}")
    ]
    first, second = (json.loads(output)["outputs"] for output in outputs)
    assert first == second
    assert first[0]["text"] == "bo"


def test_evaluation_knows_the_history(talker: Path, cli: Cli) -> None:
    done = cli("evaluate", talker, "--json")
    assert json.loads(done.out)["exact match"]["value"] == 100.0, done.out


def test_a_model_of_single_pairs_does_not_chat(talker: Path, cli: Cli, tmp_path: Path, no_reports: None) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{name} one\t{name} two\n" for name in NAMES * 3))
    settings = [
        f"data.train={tmp_path / 'pairs.tsv'}",
        "data.history=null",
        "data.valid_fraction=0.3",
        "training.steps=1",
    ]
    seqloom.train(talker.parent / "talk.yaml", settings, tmp_path / "run")
    done = cli("generate", tmp_path / "run", "--chat", stdin="hello\n")
    assert done.code == 2
    assert "did not learn from conversations (data.history)" in done.err
    done = cli("generate", talker, "--chat", "--prompt", "hello")
    assert done.code == 2
    assert "give one of --prompt, --input and --chat" in done.err
