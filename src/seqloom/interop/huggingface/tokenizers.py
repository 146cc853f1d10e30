"""Tokenisers: that of a folder as one of ours, and ours as the `tokenizer.json` that the library reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as LibraryTokenizer

from seqloom.errors import DataError, UserError, quoted
from seqloom.interop.huggingface.folder import MAKE_FAST, TOKENIZER, TOKENIZER_CONFIG, Folder
from seqloom.text.characters import CharacterTokenizer
from seqloom.text.huggingface import HuggingFaceTokenizer, as_library, check_ids, library_errors
from seqloom.text.marks import MarkedTokenizer
from seqloom.text.special import BOS, EOS, PAD, SPECIALS, UNK
from seqloom.text.subwords import SPACE, BpeTokenizer, UnigramTokenizer
from seqloom.text.tokenizer import Tokenizer, VocabularyTokenizer
from seqloom.text.words import IDEOGRAPH, WhitespaceTokenizer, WordTokenizer

TRIED = "Hello, world! 你好"
"""Any text, to see what the library puts before and after one."""
SPACES = r"[\t-\r\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"  # where Python splits
LETTERS = rf"[\p{{L}}\p{{M}}\p{{N}}_\u200c\u200d&&[^{IDEOGRAPH}]]"
WORDS = "|".join(  # `text.words.WORD` in the language of the library, which knows fewer characters of recent years
    [
        "<unk>",
        rf"[{IDEOGRAPH}]\p{{M}}*+",
        r"\p{Nd}++(?:[.,:]\p{Nd}++)++",
        rf"{LETTERS}++(?:['’]{LETTERS}++)*+",
        r"\.\.\.|--",
        r"[^\s\u001c-\u001f\u0085]",
    ]
)

# --------------------------------------------------------------------------------------------------------- reading


def read_tokenizer(
    folder: Folder, rows: int, symbols: Mapping[int, int | None], marks: Sequence[str] = ()
) -> HuggingFaceTokenizer | MarkedTokenizer:
    """The tokeniser of a folder, for a model with so many rows of words. symbols: their ids of our `<pad>`, `<bos>` and
    `<eos>`, as the configuration names them; what it does not name is taken from what the library puts around texts.
    marks: those that the model needs, as a `MarkedTokenizer` has them."""
    where = folder.path / TOKENIZER
    text = folder.text(TOKENIZER, MAKE_FAST)
    try:
        library = as_library(text)
        check_ids(library, text, rows)
        before, after = _around(library)
        played = dict(symbols)
        if played[BOS] is None and before:
            played[BOS] = before[0]
        if played[EOS] is None and after:
            played[EOS] = after[-1]
        played[UNK] = _unknown(library)
        if played[UNK] is not None and played[UNK] in (played[BOS], played[EOS]):
            raise ValueError(f"its token {played[UNK]} is for unknown words, and begins or ends texts as well")
        if played[UNK] is None:
            played[UNK] = _named_unknown(library, folder)
        ids = _parts(played, rows)
        lead = before[1:] if before[:1] == [played[BOS]] else before
        if after not in ([], [played[EOS]]):
            raise ValueError(f"it ends texts with the tokens {after}, and seqloom with one, {played[EOS]}")
        without = [library.token_to_id(mark) for mark in marks]
        if None in without:
            raise ValueError(f"it has no {marks[without.index(None)]}, which the model needs")
        contents = {"text": text, "rows": rows, "symbols": ids, "lead": lead, "without": without}
        inner = HuggingFaceTokenizer.from_contents(contents)
        return MarkedTokenizer(inner, marks) if marks else inner
    except ValueError as error:
        raise DataError(f"{where} cannot be used: {quoted(str(error))}") from None


def foreign(tokenizer: Tokenizer) -> HuggingFaceTokenizer | None:
    """The tokeniser of a folder that a run has, with marks or without; None where it has one of ours."""
    inner = tokenizer.inner if isinstance(tokenizer, MarkedTokenizer) else tokenizer
    return inner if isinstance(inner, HuggingFaceTokenizer) else None


def numbering(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """Their id of each of ours; -1 for none."""
    theirs = foreign(tokenizer)
    return np.arange(tokenizer.size) if theirs is None else np.array([*theirs.theirs, *theirs.without])


def of_words(tokenizer: Tokenizer) -> dict[str, Any]:
    """The keys of a model's configuration that follow from which of our symbols its words have."""
    theirs = foreign(tokenizer)
    symbols = range(len(SPECIALS)) if theirs is None else theirs.symbols
    absent = [SPECIALS[ours] for ours, id in enumerate(symbols) if id is None]
    return {"embedding.begin_as_end": symbols[BOS] is None, "output.absent": absent}


def _around(library: LibraryTokenizer) -> tuple[list[int], list[int]]:
    """What the library puts before and after every text."""
    with library_errors():
        encoding = library.encode(TRIED)
    real = [place for place, added in enumerate(encoding.special_tokens_mask) if not added]
    first, last = (real[0], real[-1] + 1) if real else (len(encoding.ids), len(encoding.ids))
    return encoding.ids[:first], encoding.ids[last:]


def _unknown(library: LibraryTokenizer) -> int | None:
    """The id of what the library's model does not know; none where it knows everything, as models of bytes do."""
    model = json.loads(library.to_str())["model"]
    if model.get("unk_id") is not None:
        return int(model["unk_id"])
    return library.token_to_id(model["unk_token"]) if model.get("unk_token") is not None else None


def _named_unknown(library: LibraryTokenizer, folder: Folder) -> int | None:
    """A symbol for unknown words that there is though the model has no use for it."""
    name = folder.document(TOKENIZER_CONFIG).get("unk_token") if folder.has(TOKENIZER_CONFIG) else None
    name = name.get("content") if isinstance(name, dict) else name
    return library.token_to_id(name) if isinstance(name, str) else None


def _parts(played: Mapping[int, int | None], rows: int) -> list[int | None]:
    """Their ids of our symbols, each once: of those that are the same, `<eos>` has it, then `<bos>`, `<unk>`, `<pad>`.

    Where `<bos>` is `<eos>`, its vector is (`embedding.begin_as_end`); padding is never looked at, whatever its row.
    """
    if played[EOS] is None:
        raise ValueError("nothing says which token ends a text: give config.json an eos_token_id")
    for ours, id in played.items():
        if id is not None and id >= rows:
            raise ValueError(f"{SPECIALS[ours]} should be the token {id:,}, and there are {rows:,}")
    found: dict[int, int | None] = {}
    for ours in (EOS, BOS, UNK, PAD):
        id = played[ours]
        found[ours] = None if id in found.values() else id
    return [found[ours] for ours in range(len(SPECIALS))]


# --------------------------------------------------------------------------------------------------------- writing


def written_tokenizer(tokenizer: Tokenizer, around: Sequence[str]) -> str:
    """A tokeniser as a `tokenizer.json`; one of the library is given back as it was read.

    around: what a text is put between, as the library's templates say it: `<bos> $A`, `$A <eos>`. The same text gets
    the same ids, with these exceptions: the library takes `<eos>` in a text for the symbol; it lowers a Greek Σ
    wherever it stands to σ; with marks, it leaves out the space that a text begins with, where pieces are those of a
    unigram model. It puts whole words together with spaces, also before a full stop.
    """
    theirs = foreign(tokenizer)
    if theirs is not None:
        return theirs.text
    inner, marks = (tokenizer.inner, tokenizer.marks) if isinstance(tokenizer, MarkedTokenizer) else (tokenizer, [])
    library = _written(inner, bool(marks))
    library.add_special_tokens([AddedToken(symbol, normalized=False) for symbol in SPECIALS])
    spaces = not isinstance(inner, CharacterTokenizer)  # before a mark, which belong to it
    library.add_special_tokens([AddedToken(mark, lstrip=spaces, normalized=False) for mark in marks])
    single, ids = " ".join(around), [(symbol, id) for id, symbol in enumerate(SPECIALS)]
    library.post_processor = processors.TemplateProcessing(single, PAIRS[single], ids)
    return library.to_str(pretty=True)


PAIRS = {"<bos> $A": "<bos> $A $B", "$A <eos>": "$A $B <eos>", "<bos> $A <eos>": "<bos> $A <eos> $B:1 <eos>:1"}
"""What two texts are put between."""


def _written(tokenizer: Tokenizer, marked: bool) -> LibraryTokenizer:
    first: list[normalizers.Normalizer] = [normalizers.Lowercase()] if tokenizer.lowercase else []
    match tokenizer:
        case BpeTokenizer():
            pieces = {piece: id for id, piece in enumerate([*SPECIALS, *tokenizer.byte_pieces])}
            library = LibraryTokenizer(models.BPE(vocab=pieces, merges=tokenizer.merges))
            library.pre_tokenizer = tokenizer.library.pre_tokenizer
            library.decoder = decoders.ByteLevel()
        case UnigramTokenizer():
            symbols = [(symbol, 0.0) for symbol in SPECIALS]
            library = LibraryTokenizer(models.Unigram([*symbols, *tokenizer.scored_pieces], unk_id=UNK))
            words = tokenizer.library.pre_tokenizer
            if marked:  # normalisers, which see what stands between marks, do not know what is first in a text
                spaces = pre_tokenizers.Metaspace(SPACE, prepend_scheme="first", split=False)
                library.pre_tokenizer = pre_tokenizers.Sequence([spaces, words])
            else:
                first += [normalizers.Replace(" ", SPACE), normalizers.Prepend(SPACE)]
                library.pre_tokenizer = words
            joined = [decoders.Replace(SPACE, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
            library.decoder = decoders.Sequence(joined)
        case CharacterTokenizer():
            library = _of_words(tokenizer, pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated"))
            library.decoder = decoders.Fuse()
        case WhitespaceTokenizer():
            library = _of_words(tokenizer, pre_tokenizers.Split(Regex(SPACES), "removed"))
        case WordTokenizer():
            library = _of_words(tokenizer, pre_tokenizers.Split(Regex(WORDS), "removed", invert=True))
        case _:
            raise UserError(f"a tokeniser of kind {tokenizer.kind!r} cannot be written as a {TOKENIZER}")
    if first:
        library.normalizer = normalizers.Sequence(first)
    return library


def _of_words(tokenizer: VocabularyTokenizer, split: pre_tokenizers.PreTokenizer) -> LibraryTokenizer:
    words = {word: id for id, word in enumerate([*SPECIALS, *tokenizer.vocabulary.ordinary])}
    library = LibraryTokenizer(models.WordLevel(words, unk_token=SPECIALS[UNK]))
    library.pre_tokenizer = split
    return library
