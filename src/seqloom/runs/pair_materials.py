"""What a sequence-to-sequence configuration needs before training can begin: tokenisers and stores of pairs."""

from __future__ import annotations

from dataclasses import dataclass

from seqloom.config import RunConfig
from seqloom.config.schema import Seq2SeqConfig
from seqloom.data.pair_encoders import ClosedPairs, OpenPairs, PairEncoder
from seqloom.data.pair_store import PairLimits, PairStore
from seqloom.data.pairs import PairCorpus
from seqloom.runs.materials import cached_tokenizer
from seqloom.text import Tokenizer, train_tokenizer


@dataclass(frozen=True)
class PairMaterials:
    """Tokenisers, with the training and validation pairs under them."""

    tokenizer: Tokenizer
    target_tokenizer: Tokenizer | None
    """None where both sides share one."""
    train: PairStore
    valid: PairStore
    valid_corpus: PairCorpus
    """The texts of `valid`, with all references."""


def prepare_pairs(
    config: RunConfig, tokenizer: Tokenizer | None = None, target_tokenizer: Tokenizer | None = None
) -> PairMaterials:
    """Read the pairs, train tokenisers unless they are given, and encode. Unchanged parts come from the cache."""
    data = config.pair_data
    train, valid = pair_corpora(config)
    if tokenizer is None:
        tokenizer, target_tokenizer = _tokenizers(config, train)
    encoder = pair_encoder(config, tokenizer, target_tokenizer)
    store = PairStore.of(train, encoder, PairLimits(data.max_length, data.max_ratio))
    return PairMaterials(tokenizer, target_tokenizer, store, PairStore.of(valid, encoder), valid)


def pair_corpora(config: RunConfig) -> tuple[PairCorpus, PairCorpus]:
    """Training and validation pairs; the last of the training pairs are held out when none are named."""
    data = config.pair_data
    train = open_pairs(config, data.train)
    if data.valid is not None:
        return train, open_pairs(config, data.valid)
    return train.hold_out(data.valid_fraction)


def open_pairs(config: RunConfig, names: str | list[str]) -> PairCorpus:
    """Pairs by the names of their files, with the fields of the configuration."""
    return PairCorpus.open(names, config.pair_data.source_field, config.pair_data.target_field)


def pair_encoder(config: RunConfig, tokenizer: Tokenizer, target_tokenizer: Tokenizer | None) -> PairEncoder:
    """How the model of a configuration wants its pairs."""
    assert isinstance(config.model, Seq2SeqConfig)
    if config.model.copying.kind != "none":
        return OpenPairs(tokenizer)
    return ClosedPairs(tokenizer, target_tokenizer or tokenizer)


def _tokenizers(config: RunConfig, train: PairCorpus) -> tuple[Tokenizer, Tokenizer | None]:
    """One for each side, or one for both, trained on all of their text."""
    text, target = config.text, config.target_text
    if target is None:
        joint = cached_tokenizer(text, f"{train.fingerprint} both", lambda: train_tokenizer(text, train.texts()), train)
        return joint, None
    source = cached_tokenizer(
        text, f"{train.fingerprint} source", lambda: train_tokenizer(text, train.sources()), train
    )
    return source, cached_tokenizer(
        target, f"{train.fingerprint} target", lambda: train_tokenizer(target, train.targets()), train
    )
