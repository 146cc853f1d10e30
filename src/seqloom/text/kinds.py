"""The kinds of tokenisers: learning one from a configuration, and reading one from a file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from seqloom.config.schema.text import RunText, TextConfig
from seqloom.errors import DataError, did_you_mean
from seqloom.text.characters import CharacterTokenizer
from seqloom.text.huggingface import HuggingFaceTokenizer
from seqloom.text.marks import MarkedTokenizer
from seqloom.text.subwords import BpeTokenizer, UnigramTokenizer
from seqloom.text.tokenizer import LearnedTokenizer, Tokenizer
from seqloom.text.words import WhitespaceTokenizer, WordTokenizer

KINDS: dict[str, type[LearnedTokenizer]] = {
    kind.kind: kind for kind in (WordTokenizer, WhitespaceTokenizer, CharacterTokenizer, BpeTokenizer, UnigramTokenizer)
}
"""Those that learn from text, as configurations name them."""
READ: dict[str, type[Tokenizer]] = {**KINDS, **{kind.kind: kind for kind in (MarkedTokenizer, HuggingFaceTokenizer)}}
"""Those that a file may hold."""


def train_tokenizer(config: TextConfig, texts: Iterable[str]) -> Tokenizer:
    """Learn the tokeniser that `config` describes, in one pass over `texts`; that of a run is there already."""
    if isinstance(config, RunText):
        path = Path(config.path)
        return load_tokenizer(path if path.suffix == ".json" else path / "assets" / "tokenizer.json")
    return KINDS[config.kind].train(texts, **config.model_dump(exclude={"kind"}))


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokeniser that `Tokenizer.save` wrote."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"no such file: {path}; a tokeniser is written when a model is trained") from None
    except OSError as error:
        raise DataError(f"cannot read the tokeniser {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a tokeniser: it is not JSON ({error})") from None
    try:
        return tokenizer_of(document)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def tokenizer_of(document: Any) -> Tokenizer:
    """The tokeniser that a document describes, which `Tokenizer.to_json` made."""
    kind = document.get("kind") if isinstance(document, dict) else None
    if not isinstance(kind, str):
        raise DataError("it is not a tokeniser: it has no kind")
    if kind not in READ:
        raise DataError(f"no tokeniser is of kind {kind!r}" + did_you_mean(kind, READ))
    return READ[kind].from_json(document)
