"""Tokenisers that others trained: a `tokenizer.json` of Hugging Face's `tokenizers` library."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Self

import numpy as np
from tokenizers import Encoding
from tokenizers import Tokenizer as LibraryTokenizer

from seqloom.errors import DataError
from seqloom.text.special import BOS, EOS, PAD, SPECIALS, UNK
from seqloom.text.subwords import BYTE_OF
from seqloom.text.tokenizer import Ids, Tokenizer, visible

MOST_ROWS = 10_000_000  # far beyond any vocabulary
NOWHERE = "\uffff"  # no character: before the name of a symbol, it keeps texts from spelling it


class HuggingFaceTokenizer(Tokenizer):
    """The library's tokeniser, and how its ids and ours correspond.

    A symbol of theirs plays the part of each of `<unk>`, `<pad>`, `<bos>` and `<eos>`, and has our id 0 to 3; all other
    ids of theirs follow in their order. Where they have no such symbol, or where it is `<eos>` already (GPT-2's
    `<|endoftext|>` is the beginning, too), our id stands for nothing of theirs: it is never made out of text, and a
    model has to leave it out (`embedding.begin_as_end`, `output.absent`).

    Texts cannot spell the symbols that play a part, nor those that lead texts in: `<|endoftext|>` in a text is cut into
    pieces like any other word, or is unknown where there are no pieces for it. Other symbols, such as `<extra_id_0>`,
    can be written in texts. Unknown words read as they are written there.
    """

    kind = "huggingface"
    lowercase = False  # the library does it, where it is to be done

    def __init__(
        self,
        text: str,
        rows: int,
        symbols: Sequence[int | None],
        lead: Sequence[int] = (),
        without: Sequence[int] = (),
    ) -> None:
        """text: the `tokenizer.json`. rows: how many ids there are, of tokens and beyond (vocabularies are often made
        larger than their tokens). symbols: their ids of our four symbols. lead: their ids of what stands before every
        text, besides a symbol that plays `<bos>` (BART's `<s>`). without: ids that have none of ours: marks, which a
        `MarkedTokenizer` numbers after all others."""
        self.text, self.rows, self.symbols, self.lead = text, rows, list(symbols), list(lead)
        self.without = list(without)
        self.library = as_library(text)
        played = [*(id for id in self.symbols if id is not None), *self.without]
        first = [-1 if id is None else id for id in self.symbols]
        self.theirs = np.concatenate([np.array(first, np.int64), np.delete(np.arange(rows, dtype=np.int64), played)])
        """Their id of each of ours; -1 for none."""
        self.ours = np.zeros(rows, np.int64)
        """Our id of each of theirs."""
        known = self.theirs >= 0
        self.ours[self.theirs[known]] = np.flatnonzero(known)
        self._lead = [int(self.ours[id]) for id in self.lead]
        parts = (self.symbols[ours] for ours in (PAD, BOS, EOS))
        hidden = [id for id in (*parts, *self.lead, *self.without) if id is not None]
        self._reader = without_symbols(self.library, hidden)
        self._of_text = self.ours.astype(np.uint32)
        self._of_text[hidden] = UNK  # what is left of them, where they are pieces of the library's model

    @property
    def size(self) -> int:
        return len(self.theirs)

    @cached_property
    def names(self) -> list[str]:
        """Each of our ids as a piece a person can read."""
        added = {token.content for token in self.library.get_added_tokens_decoder().values()}
        in_bytes = '"ByteLevel"' in json.dumps(json.loads(self.library.to_str())["decoder"])
        names = list(SPECIALS)
        for id in self.theirs[len(SPECIALS) :].tolist():
            name = self.library.id_to_token(id)
            if name is not None and in_bytes and name not in added and BYTE_OF.keys() >= set(name):
                name = bytes(map(BYTE_OF.__getitem__, name)).decode("utf-8", errors="backslashreplace")
            names.append(f"<unused-{id}>" if name is None else name)
        return names

    def mark(self, name: str) -> int:
        """The id of a symbol that texts may hold, such as `[MASK]`."""
        id = self.library.token_to_id(name)
        if id is None:
            raise DataError(f"the tokeniser has no symbol {name}")
        return int(self.ours[id])

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0].tolist()

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        lead = np.array(self._lead, np.uint32)
        found = (self._of_text[encoding.ids] for encoding in self._encodings(self._reader.encode_batch_fast, texts))
        return [np.concatenate([lead, ids]) if len(lead) else ids for ids in found]

    def _encodings(self, encode: Callable[..., list[Encoding]], texts: Sequence[str]) -> list[Encoding]:
        try:
            return encode(list(texts), add_special_tokens=False)
        except TypeError:  # the library's word for a string that has no UTF-8
            raise DataError("a text holds half of a surrogate pair, which stands for no character; remove it") from None

    def pieces(self, text: str) -> list[str]:
        (encoding,) = self._encodings(self._reader.encode_batch, [text])
        ids = self._of_text[encoding.ids].tolist()
        read = [
            text[begin:end] if id == UNK else self.names[id]
            for id, (begin, end) in zip(ids, encoding.offsets, strict=True)
        ]
        return [*self.tokens(self._lead), *read]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self.names[id] for id in ids]

    @staticmethod
    def join(pieces: Iterable[str]) -> str:
        return "".join(pieces)

    def decode(self, ids: Iterable[int]) -> str:
        theirs = [int(self.theirs[id]) for id in visible(ids) if id not in self._lead]
        return self.library.decode([id for id in theirs if id >= 0], skip_special_tokens=False)

    def settled(self, ids: Sequence[int]) -> int:
        # Up to the last piece that does not end in the middle of a character.
        count = len(ids)
        while count and self.decode(ids[:count]).endswith("\ufffd"):
            count -= 1
        return count

    def contents(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "rows": self.rows,
            "symbols": self.symbols,
            "lead": self.lead,
            "without": self.without,
        }

    @classmethod
    def from_contents(cls, contents: dict[str, Any]) -> Self:
        rows, symbols, others = contents["rows"], contents["symbols"], [contents["lead"], contents["without"]]
        if type(rows) is not int or not 0 < rows <= MOST_ROWS:
            raise ValueError(f"it has {rows!r} ids")
        if not isinstance(symbols, list) or len(symbols) != len(SPECIALS) or symbols[EOS] is None:
            raise ValueError("it does not say which symbols are <unk>, <pad>, <bos> and <eos>")
        if not all(isinstance(several, list) for several in others):
            raise ValueError("symbols that lead texts in, or are left out, are no lists")
        played = [id for several in (symbols, *others) for id in several if id is not None]
        if not all(type(id) is int and 0 <= id < rows for id in played):
            raise ValueError("an id of a symbol is none of the vocabulary")
        if len(set(played)) != len(played):
            raise ValueError("one id plays two parts")
        tokenizer = cls(contents["text"], rows, symbols, *others)
        check_ids(tokenizer.library, contents["text"], rows)
        return tokenizer


def as_library(text: str) -> LibraryTokenizer:
    """The library's tokeniser of a document; a ValueError where it describes none. Nothing is cut off or filled up."""
    with library_errors():
        library = LibraryTokenizer.from_str(text)
        library.no_truncation()
        library.no_padding()
        return library


@contextmanager
def library_errors() -> Iterator[None]:
    """Whatever the library says against a document is a ValueError of one line."""
    try:
        yield
    except BaseException as error:  # its panics are no exceptions
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(" ".join(str(error).split())) from None


def check_ids(library: LibraryTokenizer, text: str, rows: int) -> None:
    """Refuse, with a ValueError, a tokeniser whose ids are not those that its document names, or beyond `rows`."""
    ids = library.get_vocab(with_added_tokens=True)
    beyond = next((token for token, id in ids.items() if id >= rows), None)
    if beyond is not None:
        raise ValueError(f"its token {beyond!r} has the id {ids[beyond]:,}, and there are {rows:,}")
    if len(set(ids.values())) != len(ids):
        raise ValueError("two of its tokens have one id")
    for token in json.loads(text).get("added_tokens") or []:
        if ids.get(token["content"]) != token["id"]:
            raise ValueError(f"its added token {token['content']!r} should have the id {token['id']}, and has not")


def without_symbols(library: LibraryTokenizer, hidden: Iterable[int]) -> LibraryTokenizer:
    """The same tokeniser, which finds no symbol of these ids in texts; all other ids are as they were."""
    document = json.loads(library.to_str())
    names = {id: library.id_to_token(id) for id in hidden}
    pieces = library.get_vocab(with_added_tokens=False)
    kept = []
    for token in document["added_tokens"]:
        if token["id"] not in names:
            kept.append(token)
        elif token["content"] not in pieces:  # it has an id by being here, and so have those after it
            kept.append({**token, "content": NOWHERE + token["content"]})
    reader = as_library(json.dumps({**document, "added_tokens": kept, "post_processor": None}))
    before, after = library.get_vocab(with_added_tokens=True), reader.get_vocab(with_added_tokens=True)
    if any(after.get(token) != id for token, id in before.items() if id not in names):
        raise ValueError("its added tokens have no ids of their own")
    return reader
