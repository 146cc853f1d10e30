"""The fast way to a vocabulary and a token store gives what the slow way gives."""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.config import load_config
from seqloom.config.schema.text import WhitespaceText
from seqloom.data import word_store
from seqloom.data.cache import cache_folder
from seqloom.data.corpus import Corpus
from seqloom.data.materials import prepare_text, tokenizer_for
from seqloom.data.store import TokenStore
from seqloom.data.word_store import learn_words
from seqloom.errors import DataError
from seqloom.text.special import SPECIALS, UNK
from seqloom.text.words import WhitespaceTokenizer

SPACES = [chr(point) for point in range(sys.maxunicode + 1) if chr(point).isspace()]
letters = st.sampled_from([*SPACES, *"ab\0\x01\x1b\x7f", "\r\n", "\n\n", "\ufeff", "é", "—", "中文", "ター", "𝄞", "𠀀"])
pieces = letters | st.sampled_from([f" {symbol} " for symbol in SPECIALS]) | st.just("a word of some length ")
contents = st.lists(pieces, max_size=30).map(lambda parts: "".join(parts).encode())
files = st.lists(st.tuples(contents, st.booleans()), min_size=1, max_size=3)


@contextmanager
def cache() -> Iterator[Path]:
    """A cache of one's own, in a folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLOOM_CACHE", folder)
        patch.setattr("seqloom.files._sync", lambda path: None)  # the files do not outlive the example
        yield Path(folder)


def never(name: str) -> Callable[..., None]:
    def call(*args: object, **options: object) -> None:
        raise AssertionError(f"{name} must not be needed")

    return call


def slow_way(corpus: Corpus, config: WhitespaceText) -> tuple[WhitespaceTokenizer, TokenStore]:
    with cache() as folder:
        tokenizer = WhitespaceTokenizer.train(corpus, **config.model_dump(exclude={"kind"}))
        store = TokenStore.build(corpus, tokenizer, folder / "store")
        return tokenizer, TokenStore(store.tokens.copy(), store.totals)


def assert_same(corpus: Corpus, config: WhitespaceText) -> None:
    """The fast way gives the slow way's tokeniser and store, and leaves the store where the slow way looks for it."""
    tokenizer, store = slow_way(corpus, config)
    with cache() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhitespaceTokenizer, "train", never("the slow way"))
        patch.setattr("seqloom.data.store._encode", never("the slow way"))
        learnt, found = learn_words(corpus, config)
        assert learnt.to_json() == tokenizer.to_json()
        for given in (found, TokenStore.of(corpus, tokenizer)):
            assert given.totals == store.totals
            assert given.tokens.dtype == store.tokens.dtype
            assert given.tokens.tobytes() == store.tokens.tobytes()
        assert len(list((folder / "tokens").iterdir())) == 1


def message(work: Callable[[], object]) -> str:
    with pytest.raises(DataError) as error:
        work()
    return str(error.value)


@settings(deadline=None, max_examples=150)
@given(files, st.sampled_from([1, 3, 50, 1 << 20]), st.integers(1, 3), st.none() | st.integers(1, 5))
def test_the_fast_way_gives_the_same_tokens_and_totals(
    texts: list[tuple[bytes, bool]], block: int, min_count: int, max_size: int | None
) -> None:
    config = WhitespaceText(min_count=min_count, max_size=max_size)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqloom.data.word_store.BLOCK", block)
        paths = []
        for number, (text, zipped) in enumerate(texts):
            paths.append(Path(folder, f"{number}.txt"))
            paths[-1].write_bytes(gzip.compress(text) if zipped else text)
        corpus = Corpus(tuple(paths))
        counts = Counter(word for line in corpus for word in line.split() if word not in SPECIALS)
        if max(counts.values(), default=0) >= min_count:
            assert_same(corpus, config)
        else:
            with cache():
                told = message(lambda: learn_words(corpus, config))
            assert told == message(lambda: slow_way(corpus, config))


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfa b\n",
        b"\xef\xbb\xbf\xef\xbb\xbfa\n\xef\xbb\xbfb",  # a mark is one only once, at the very beginning
        b"a\r\nb\r\r\n\r\nc\r",
        b"\n\n\na\n\n",
        b"<unk> <pad> <bos> <eos> <unk>\n<s> </s>",
        b"a\0b \0 \0\0\na\0\n",
        "東京タワー へ 中a文 ー\u3000ｶ\n".encode(),
        "a\u2028b\x85c\x1cd\n".encode(),
    ],
)
def test_nasty_texts(text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.data.word_store.BLOCK", 1)  # every line a block
    (tmp_path / "text.txt").write_bytes(text)
    assert_same(Corpus((tmp_path / "text.txt",)), WhitespaceText())


def test_a_file_that_holds_only_a_byte_order_mark_is_one_empty_line(tmp_path: Path) -> None:
    for name, content in {"mark": b"\xef\xbb\xbf", "nothing": b"", "words": b"a b"}.items():
        (tmp_path / name).write_bytes(content)
    corpus = Corpus(tuple(tmp_path / name for name in ("mark", "nothing", "words")))
    assert_same(corpus, WhitespaceText())
    with cache():
        assert learn_words(corpus, WhitespaceText())[1].totals.units == 2


@pytest.mark.parametrize("word", [b"word ", b"word"])
def test_lines_longer_than_a_block(word: bytes, tmp_path: Path) -> None:
    line = word * (10 * (1 << 20) // len(word))
    (tmp_path / "long.txt").write_bytes(b"short\n%s\nshort\n%s" % (line, line[:5000]))
    assert_same(Corpus((tmp_path / "long.txt",)), WhitespaceText())


def test_more_words_than_sixteen_bits_can_number(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(f"{number} {number}" for number in range(70_000)))
    assert_same(Corpus((tmp_path / "text.txt",)), WhitespaceText())
    with cache():
        few = learn_words(Corpus((tmp_path / "text.txt",)), WhitespaceText(max_size=10))[1]
        assert few.totals.unknown == (few.tokens == UNK).sum() == 2 * 70_000 - 20
        assert few.tokens.dtype.name == "uint16"


@pytest.mark.parametrize(
    "text",
    [
        b"good\nbad \xff line\n",
        "façade".encode("latin1"),
        "a b\n".encode("utf-16"),
        b"a\n\xe2\x80\n",  # cut off: the beginning of white space is none
        b"\xe2\x80 b\n",
        b"\xc2",
        b"\xe3\x80",
        b"\xed\xa0\x80 half of a surrogate pair\n",
        gzip.compress(b"some words\n" * 9, mtime=0)[:-9],
        gzip.compress(b"some words\n" * 9, mtime=0)[:12] + b"damaged",
        b"",
        b" \n \n",
    ],
)
def test_a_text_at_fault_is_told_as_in_the_slow_way(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(text)
    corpus = Corpus((tmp_path / "text.txt",))
    with cache() as folder:
        told = message(lambda: learn_words(corpus, WhitespaceText()))
        assert told == message(lambda: WhitespaceTokenizer.train(corpus))
        assert not list(folder.iterdir())


@pytest.mark.parametrize("line", [b"12345678 0", b"12345678 0A", b"12345678 12345678 12345678"])
def test_a_line_has_the_same_limit_as_in_the_slow_way(
    line: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqloom.text.reading.LONGEST", 11)
    monkeypatch.setattr(word_store, "LONGEST", 11)
    monkeypatch.setattr(word_store, "BLOCK", 8)
    (tmp_path / "text.txt").write_bytes(b"one line\n" + line + b"\n")
    corpus = Corpus((tmp_path / "text.txt",))
    if len(line) == 10:  # and its end
        assert_same(corpus, WhitespaceText())
        return
    with pytest.raises(DataError, match="a line is too long"):
        list(word_store._blocks(corpus))
    with cache():
        assert "line 2: the line has more than 11 bytes" in message(lambda: learn_words(corpus, WhitespaceText()))


@pytest.mark.parametrize(
    "change", [{"unit": "paragraph"}, {"start": 5}, {"stop": 8}, {"lowercase": True}, {"json": True}]
)
def test_what_is_not_all_lines_of_text_files_goes_the_slow_way(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / ("text.JSONL" if change.pop("json", False) else "text.txt")
    path.write_text('{"text": "A b"}\n\n{"text": "B a"}\n')
    config = WhitespaceText(lowercase=bool(change.pop("lowercase", False)))
    corpus = Corpus((path,), **change)  # type: ignore[arg-type]
    tokenizer, store = slow_way(corpus, config)
    with cache():
        learnt, found = learn_words(corpus, config)
        assert learnt.to_json() == tokenizer.to_json()
        assert (found.totals, found.tokens.tolist()) == (store.totals, store.tokens.tolist())


def test_preparing_a_large_text_goes_the_fast_way_and_fills_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "text.txt"
    path.write_text("a rose is a rose\nis a rose\n" * 20)
    settings = {"data": {"train": str(path), "valid": str(path), "unit": "line"}, "text": {"kind": "whitespace"}}
    config = load_config(settings)
    corpus = Corpus.open(str(path), "line")
    tokenizer, store = slow_way(corpus, WhitespaceText())
    with cache():
        monkeypatch.setattr("seqloom.data.materials.LARGE", path.stat().st_size)
        monkeypatch.setattr(WhitespaceTokenizer, "train", never("the slow way"))
        monkeypatch.setattr("seqloom.data.store._encode", never("the slow way"))
        materials = prepare_text(config)
        assert materials.tokenizer.to_json() == tokenizer.to_json()
        assert materials.train.tokens.tolist() == store.tokens.tolist()
        monkeypatch.setattr("seqloom.data.materials.learn_words", never("learning again"))
        assert tokenizer_for(config.text, corpus).to_json() == tokenizer.to_json()
        assert len(list((cache_folder() / "tokenizers").iterdir())) == 1
