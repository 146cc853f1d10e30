"""What holds for every kind of tokeniser."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from seqloom.config.schema.text import TextConfig
from seqloom.errors import DataError
from seqloom.text.kinds import KINDS, load_tokenizer, train_tokenizer
from seqloom.text.special import BOS, EOS, PAD, SPECIALS, UNK
from seqloom.text.tokenizer import Tokenizer

TEXTS = [
    "The Time Machine, by H. G. Wells.",
    "",
    "the time traveller said: don't go!",
    "时间机器，时间 <unk> 旅行者。",
] * 3
OPTIONS = {
    "words": {},
    "whitespace": {},
    "characters": {},
    "bpe": {"max_size": 300},
    "unigram": {"max_size": 80},
}


def config(kind: str, **options: object) -> TextConfig:
    return TypeAdapter(TextConfig).validate_python({"kind": kind, **OPTIONS[kind], **options})


@pytest.fixture(params=list(OPTIONS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def tokenizer(kind: str) -> Tokenizer:
    return train_tokenizer(config(kind), TEXTS)


def test_every_kind_of_the_configuration_has_a_tokenizer() -> None:
    assert set(KINDS) == set(OPTIONS)


def test_it_is_of_the_kind_asked_for(kind: str, tokenizer: Tokenizer) -> None:
    assert tokenizer.kind == kind
    assert type(tokenizer) is KINDS[kind]


def test_special_symbols_have_the_first_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.tokens([0, 1, 2, 3]) == list(SPECIALS)
    assert tokenizer.size > 4
    assert len(tokenizer.tokens(range(tokenizer.size))) == tokenizer.size


def test_decoding_skips_padding_begin_and_end_and_shows_unknown(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("time")
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "time"
    assert "<unk>" in tokenizer.decode([*ids, UNK])
    assert tokenizer.decode(np.array(ids, dtype=np.int64)) == "time"
    assert tokenizer.decode([]) == ""


def test_a_batch_is_its_texts_one_by_one(tokenizer: Tokenizer) -> None:
    batch = tokenizer.encode_batch(TEXTS)
    assert [ids.tolist() for ids in batch] == [tokenizer.encode(text) for text in TEXTS]
    assert all(ids.dtype == np.uint32 and ids.max(initial=0) < tokenizer.size for ids in batch)
    assert tokenizer.encode_batch([]) == []


def test_text_never_becomes_a_control_symbol(kind: str) -> None:
    text = "<pad> <bos> <eos> a<bos>b <pad><eos> ▁<bos>▁ <bos>, (<eos>)"
    tokenizer = train_tokenizer(config(kind), [text, *TEXTS])  # even when the training text is full of them
    for piece in (text, *text.split(), *(f" {symbol}" for symbol in SPECIALS)):
        assert not {PAD, BOS, EOS} & set(tokenizer.encode(piece))


def test_saved_and_loaded_it_is_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "new" / "tokenizer.json"
    tokenizer.save(path)
    loaded = load_tokenizer(path)
    assert type(loaded) is type(tokenizer)
    assert loaded.to_json() == tokenizer.to_json()
    assert loaded.size == tokenizer.size
    for text in [*TEXTS, "Unseen words, 时!\n"]:
        assert loaded.encode(text) == tokenizer.encode(text)
        assert loaded.decode(loaded.encode(text)) == tokenizer.decode(tokenizer.encode(text))
    assert json.loads(path.read_text(encoding="utf-8"))["version"] == 1


def test_lowercase_holds_in_training_and_encoding(kind: str, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(config(kind, lowercase=True), TEXTS)
    assert tokenizer.encode("TIME Traveller") == tokenizer.encode("time traveller")
    assert tokenizer.decode(tokenizer.encode("TIME Traveller")) == "time traveller"
    ordinary = "".join(tokenizer.tokens(range(4, tokenizer.size)))
    if kind != "bpe":  # its bytes are all there in any case
        assert ordinary == ordinary.lower()
    tokenizer.save(tmp_path / "t.json")
    assert load_tokenizer(tmp_path / "t.json").encode("TIME") == tokenizer.encode("time")


def test_training_reads_the_text_once_in_a_stream(kind: str) -> None:
    given: list[str] = []

    def stream() -> Iterator[str]:
        for text in TEXTS:
            given.append(text)
            yield text

    streamed = train_tokenizer(config(kind), stream())
    assert given == TEXTS
    assert streamed.to_json() == train_tokenizer(config(kind), TEXTS).to_json()


def test_training_does_not_depend_on_the_order_of_texts(kind: str) -> None:
    forward, backward = train_tokenizer(config(kind), TEXTS), train_tokenizer(config(kind), TEXTS[::-1])
    assert forward.to_json() == backward.to_json()


def test_training_gives_the_same_in_another_process() -> None:
    program = (
        "import json, sys\nfrom seqloom.text.kinds import KINDS\n"
        "texts, options = json.loads(sys.argv[1])\n"
        "print(json.dumps([KINDS[kind].train(texts, **given).to_json() for kind, given in options.items()]))"
    )
    command = [sys.executable, "-c", program, json.dumps([TEXTS, OPTIONS])]
    answers = [subprocess.run(command, capture_output=True, check=True, text=True).stdout for _ in range(2)]
    assert answers[0] == answers[1]
    here = [KINDS[kind].train(TEXTS, **options).to_json() for kind, options in OPTIONS.items()]
    assert json.loads(answers[0]) == json.loads(json.dumps(here))


@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_an_empty_corpus_is_told(kind: str, texts: list[str]) -> None:
    with pytest.raises(DataError, match="empty"):
        train_tokenizer(config(kind), texts)


def test_a_count_no_token_reaches_is_told() -> None:
    with pytest.raises(DataError, match="min_count"):
        train_tokenizer(config("words", min_count=99), TEXTS)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("not json", "not JSON"),
        ("[1]", "no kind"),
        ("{}", "no kind"),
        ('{"kind": "wordz", "version": 1}', "did you mean 'words'"),
        ('{"kind": "words", "version": 99}', "version 99"),
        ('{"kind": "words", "version": 1}', "damaged .*vocabulary"),
        ('{"kind": "characters", "version": 1, "lowercase": false, "vocabulary": ["ab"]}', "damaged"),
        ('{"kind": "bpe", "version": 1, "lowercase": false, "pieces": ["a"], "merges": [["a", "b"]]}', "damaged"),
        ('{"kind": "bpe", "version": 1, "lowercase": false, "pieces": ["a"], "merges": []}', "a byte is missing"),
        ('{"kind": "words", "version": 1, "lowercase": "no", "vocabulary": ["a"]}', "neither true nor false"),
        ('{"kind": "words", "version": 1, "lowercase": false, "vocabulary": "abc"}', "no list of strings"),
        ('{"kind": "words", "version": 1, "lowercase": false, "vocabulary": [1, 2]}', "no list of strings"),
        ('{"kind": "words", "version": 1, "lowercase": false, "vocabulary": ["a", "a"]}', "twice"),
        ('{"kind": "words", "version": 1, "lowercase": false, "vocabulary": ["\\ud800"]}', "surrogates not allowed"),
        ('{"kind": "unigram", "version": 1, "lowercase": false, "pieces": [["a", NaN]]}', "no number"),
        ('{"kind": "unigram", "version": 1, "lowercase": false, "pieces": [["a", -1], ["a", -2]]}', "twice"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_told(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=rf"tokenizer\.json.*{complaint}"):
        load_tokenizer(path)


def test_a_missing_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        load_tokenizer(tmp_path / "none.json")
