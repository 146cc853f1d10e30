"""What a configuration needs before training can begin: the tokeniser and the token stores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from seqloom.config import RunConfig
from seqloom.config.schema import RunText, SparkEngine, TextConfig, TextData, WhitespaceText
from seqloom.data.corpus import Corpus
from seqloom.data.store import TokenStore, cache_folder
from seqloom.data.word_store import learn_words
from seqloom.errors import ConfigError, DataError
from seqloom.text import Tokenizer, load_tokenizer, train_tokenizer

LARGE = 1 << 22  # bytes of text from which on loading compiled code takes less time than it saves


@dataclass(frozen=True)
class Materials:
    """A tokeniser with the training and validation text under it."""

    tokenizer: Tokenizer
    train: TokenStore
    valid: TokenStore | None
    """None where nothing was to be held out."""

    def validation(self) -> TokenStore:
        """The validation text, where there must be one."""
        if self.valid is None:
            raise ConfigError("there is no validation text: name one with data.valid, or raise data.valid_fraction")
        return self.valid


def settled(config: RunConfig) -> RunConfig:
    """The configuration with `data.unit` decided, where there is one."""
    if not isinstance(config.data, TextData):
        return config
    if isinstance(config.engine, SparkEngine):  # reads lines, and files that may be on no disk of ours
        unit = "line" if config.text_data.unit == "auto" else config.text_data.unit
    else:
        unit = Corpus.open(config.text_data.train, config.text_data.unit, config.text_data.field).unit
    return config.model_copy(update={"data": config.text_data.model_copy(update={"unit": unit})})


def prepare(config: RunConfig, tokenizer: Tokenizer | None = None) -> Materials:
    """Read the corpora, train a tokeniser unless one is given, and encode. Unchanged parts come from the cache."""
    train, valid = corpora(config)
    tokenizer = tokenizer or tokenizer_for(config, train)
    return Materials(tokenizer, TokenStore.of(train, tokenizer), _validation_store(config, valid, tokenizer))


def _validation_store(config: RunConfig, valid: Corpus | None, tokenizer: Tokenizer) -> TokenStore | None:
    if valid is None:
        return None
    data = config.text_data
    try:
        return TokenStore.of(valid, tokenizer)
    except DataError as error:
        if data.valid is not None:
            raise
        shorter = "" if data.unit == "line" else "set data.unit=line if each line is a text of its own, "
        raise DataError(
            f"{valid}: the last {data.valid_fraction:.0%} hold no whole {data.unit} to validate on; "
            f"{shorter}name a validation text with data.valid, raise data.valid_fraction or give more text"
        ) from error


def corpora(config: RunConfig) -> tuple[Corpus, Corpus | None]:
    """Training and validation text; the end of the training text is held out when no validation text is named."""
    data = config.text_data
    train = Corpus.open(data.train, data.unit, data.field)
    if data.valid is not None:
        return train, Corpus.open(data.valid, data.unit, data.field)
    if data.valid_fraction == 0:
        return train, None
    return train.hold_out(data.valid_fraction)


def tokenizer_for(config: RunConfig, corpus: Corpus) -> Tokenizer:
    """The tokeniser of `config.text` trained on a corpus; trained once for each content of both."""

    def learn() -> Tokenizer:
        if isinstance(config.text, WhitespaceText) and sum(path.stat().st_size for path in corpus.paths) >= LARGE:
            return learn_words(corpus, config.text)[0]  # the store is in the cache for `prepare`
        return train_tokenizer(config.text, corpus)

    return cached_tokenizer(config.text, corpus.fingerprint, learn, corpus)


def cached_tokenizer(text: TextConfig, fingerprint: str, learn: Callable[[], Tokenizer], where: object) -> Tokenizer:
    """The tokeniser that `learn` gives, from the cache where the same was learned from the same text before."""
    if isinstance(text, RunText):  # nothing to learn, and the run may have been trained anew
        return learn()
    recipe = json.dumps([fingerprint, text.model_dump()], sort_keys=True)
    path = cache_folder() / "tokenizers" / (hashlib.sha256(recipe.encode()).hexdigest()[:32] + ".json")
    if path.is_file():
        return load_tokenizer(path)
    try:
        tokenizer = learn()
    except DataError as error:
        raise error.located(where) from error
    tokenizer.save(path)
    return tokenizer
