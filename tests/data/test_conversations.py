"""Conversations as pairs: a turn, and those before it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.config import load_config
from seqloom.data.materials import open_pairs, pair_corpora
from seqloom.data.pairs import TURN, Conversations, Pair, PairCorpus
from seqloom.errors import DataError

WORDS = st.text("abc", min_size=1, max_size=3)
FEWER = settings(max_examples=30)


def written(path: Path, conversations: list[list[str]]) -> str:
    if path.suffix == ".tsv":
        path.write_text("".join("\t".join(turns) + "\n" for turns in conversations))
    else:
        path.write_text("".join(json.dumps({"turns": turns}) + "\n" for turns in conversations))
    return str(path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.tsv"])
def test_every_turn_but_the_first_is_a_target_after_the_last_turns_before_it(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / name, [["hi", "hello", "how are you?", "well"], ["bye", "see you"]])
    assert list(PairCorpus.open_conversations(path, history=2)) == [
        Pair("hi", ("hello",)),
        Pair("hi | hello", ("how are you?",)),
        Pair("hello | how are you?", ("well",)),
        Pair("bye", ("see you",)),
    ]


@FEWER
@given(turns=st.lists(WORDS, min_size=2, max_size=8), history=st.integers(1, 9))
def test_a_history_is_what_stands_before_its_target(
    turns: list[str], history: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = written(tmp_path_factory.getbasetemp() / "law.jsonl", [turns])
    for number, pair in enumerate(PairCorpus.open_conversations(path, history), start=1):
        assert pair.source.split(TURN) == turns[max(0, number - history) : number]
        assert pair.targets == (turns[number],)
        assert Conversations(history).recent(TURN.join(turns[:number])) == pair.source  # as `generate` reads it


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"turns": ["alone"]}', "needs two turns at least"),
        ('{"turns": "a text"}', "the value of 'turns' is no list"),
        ('{"turns": ["one", 2]}', "the value of 'turns' is a number, not a text"),
        ('{"turns": ["one", " ", "three"]}', "turn 2 of the conversation is blank"),
        ('{"said": []}', r"no key 'turns' .*set data\.turns_field"),
    ],
)
def test_a_bad_conversation_is_named(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"turns": ["one", "two"]}\n' + line + "\n")
    with pytest.raises(DataError, match=rf"bad\.jsonl, line 2: .*{message}"):
        list(PairCorpus.open_conversations(str(path), history=2))


def test_files_that_hold_no_conversations_say_what_to_do(tmp_path: Path) -> None:
    for side in ("en", "de"):
        (tmp_path / f"a.{side}").write_text("one\n")
    with pytest.raises(DataError, match=r"aligned files, not conversations.*data\.history=null"):
        PairCorpus.open_conversations(f"{tmp_path / 'a.en'},{tmp_path / 'a.de'}", history=2)
    path = written(tmp_path / "a.jsonl", [["one", "two"]])
    with pytest.raises(DataError, match=r"line 1: a conversation, not a pair; set data\.history"):
        list(PairCorpus.open(path))


@FEWER
@given(
    conversations=st.lists(st.lists(WORDS, min_size=2, max_size=5), min_size=2, max_size=8),
    fraction=st.sampled_from([0.1, 0.3, 0.5]),
)
def test_no_conversation_is_cut_in_two(
    conversations: list[list[str]], fraction: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Pairs of a conversation are on one side, but for those whose source was seen before."""
    path = written(tmp_path_factory.getbasetemp() / "cut.jsonl", conversations)
    corpus = PairCorpus.open_conversations(path, history=9)
    try:
        train, valid = corpus.hold_out(fraction)
    except DataError:
        return
    seen = {pair.source for pair in train}
    assert list(valid)
    assert not seen & {pair.source for pair in valid}
    assert len(list(train)) + len(list(valid)) == len(list(corpus))
    rows = iter(corpus)
    sides = []
    for number, turns in enumerate(conversations):
        own = [next(rows).source for _ in turns[1:]]
        sides += [(number, source in seen) for source in own]
    first_held = min(number for number, in_train in sides if not in_train)
    assert all(in_train for number, in_train in sides if number < first_held)


def test_one_conversation_alone_cannot_be_held_out(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [["one", "two", "three", "four"]])
    with pytest.raises(DataError, match="too few conversations to hold some out"):
        PairCorpus.open_conversations(path, history=3).hold_out(0.3)


def test_the_fingerprint_knows_how_far_back_a_model_looks(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", [["one", "two", "three"]])
    corpora = [PairCorpus.open(path), *(PairCorpus.open_conversations(path, history) for history in (1, 2))]
    assert len({corpus.fingerprint for corpus in corpora}) == 3


def test_the_preset_reads_conversations() -> None:
    config = load_config("dialogue")
    train, _ = pair_corpora(config.data)
    assert sum(1 for _ in train) == 53_523 - 10_412  # every turn but the first of each chat
    assert max(pair.source.count(TURN) for pair in open_pairs(config.data, "chitchat:test")) == config.data.history - 1
