"""What a configuration needs before training can begin: its data, read and encoded, and what is held out of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from seqloom.config import RunConfig
from seqloom.config.schema.data import (
    CaptionData,
    ImageData,
    LabelledData,
    PairData,
    PairFiles,
    TaggedData,
    TextData,
    TextFiles,
)
from seqloom.config.schema.text import RunText, TextConfig, WhitespaceText
from seqloom.data.cache import About, cached
from seqloom.data.captions import CaptionedImages, load_captions, load_featured
from seqloom.data.corpus import Corpus
from seqloom.data.image_format import ImageFormat
from seqloom.data.images import Images, ImageSet, load_images, look
from seqloom.data.labelled import hold_out, read_labelled, read_tagged
from seqloom.data.pairs import PairCorpus
from seqloom.data.store import TokenStore
from seqloom.data.word_store import learn_words
from seqloom.errors import ConfigError, DataError
from seqloom.text.kinds import load_tokenizer, train_tokenizer
from seqloom.text.tokenizer import VERSION, Tokenizer

if TYPE_CHECKING:  # what makes tensors is imported where it is needed: text is counted without torch
    from seqloom.data.caption_batches import CaptionStore
    from seqloom.data.pair_encoders import PairEncoder
    from seqloom.data.pair_store import PairStore

LARGE = 1 << 22  # bytes of text from which on loading compiled code takes less time than it saves

Examples = TypeVar("Examples")
Pictures = TypeVar("Pictures", bound=Images)


@dataclass(frozen=True)
class Split(Generic[Examples]):
    """What is learned from, and what is held out to validate on."""

    train: Examples
    valid: Examples


# -------------------------------------------------------------------------------------------------------------- text


@dataclass(frozen=True)
class TextMaterials:
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


def prepare_text(config: RunConfig, tokenizer: Tokenizer | None = None) -> TextMaterials:
    """Read the corpora, train a tokeniser unless one is given, and encode. Unchanged parts come from the cache."""
    train, valid = text_corpora(config.data)
    tokenizer = tokenizer or tokenizer_for(config.text, train)
    return TextMaterials(tokenizer, TokenStore.of(train, tokenizer), _validation_store(config.data, valid, tokenizer))


def text_corpora(data: TextFiles) -> tuple[Corpus, Corpus | None]:
    """Training and validation text; the end of the training text is held out when no validation text is named."""
    train = open_text(data, data.train)
    if data.valid is not None:
        return train, open_text(data, data.valid)
    return train.hold_out(data.valid_fraction) if data.valid_fraction else (train, None)


def held_out_text(data: TextData, test: bool = True) -> Corpus | None:
    """The test text, if there is one and it may be used, or the validation text; none where neither was held out."""
    if test and data.test:
        return open_text(data, data.test)
    if data.valid is None and data.valid_fraction == 0:  # and the training text may be gone
        return None
    return text_corpora(data)[1]


def open_text(data: TextFiles, names: str | list[str]) -> Corpus:
    """A text by the names of its files, in the units of the configuration."""
    return Corpus.open(names, data.unit, data.field)


def with_unit(config: RunConfig) -> RunConfig:
    """The configuration with `data.unit` decided."""
    data: TextData = config.data
    if config.engine.kind == "spark":  # reads lines, and files that may be on no disk of ours
        unit = "line" if data.unit == "auto" else data.unit
    else:
        unit = open_text(data, data.train).unit
    return config.model_copy(update={"data": data.model_copy(update={"unit": unit})})


def remark_on_text(config: RunConfig) -> str | None:
    """What to know of how text will be read, where the configuration leaves that to the text."""
    data = config.data
    if not isinstance(data, TextData) or data.unit != "auto" or config.engine.kind == "spark":
        return None
    return open_text(data, data.train).remark


def tokenizer_for(text: TextConfig, corpus: Corpus) -> Tokenizer:
    """The tokeniser of a configuration trained on a corpus; trained once for each content of both."""

    def learn() -> Tokenizer:
        if isinstance(text, WhitespaceText) and sum(path.stat().st_size for path in corpus.paths) >= LARGE:
            return learn_words(corpus, text)[0]  # the store is in the cache for `prepare_text`
        return train_tokenizer(text, corpus)

    return cached_tokenizer(text, corpus.fingerprint, learn, corpus)


def cached_tokenizer(text: TextConfig, fingerprint: str, learn: Callable[[], Tokenizer], where: object) -> Tokenizer:
    """The tokeniser that `learn` gives, from the cache where the same was learned from the same text before."""
    if isinstance(text, RunText):  # nothing to learn, and the run may have been trained anew
        return learn()
    recipe = json.dumps([VERSION, fingerprint, text.model_dump()], sort_keys=True)
    learned = []

    def fill(folder: Path) -> About:
        learned.append(learn())
        learned[0].save(folder / "tokenizer.json")
        return {}

    try:
        entry = cached("tokenizers", recipe, fill)
        return learned[0] if learned else load_tokenizer(entry.folder / "tokenizer.json")
    except DataError as error:
        raise error.located(where) from error


def _validation_store(data: TextData, valid: Corpus | None, tokenizer: Tokenizer) -> TokenStore | None:
    if valid is None:
        return None
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


# ------------------------------------------------------------------------------------------------------------- pairs


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
    from seqloom.data.pair_store import PairLimits, PairStore

    data: PairData = config.data
    train, valid = pair_corpora(data)
    if tokenizer is None:
        tokenizer, target_tokenizer = _pair_tokenizers(config, train)
    encoder = pair_encoder(config, tokenizer, target_tokenizer)
    store = PairStore.of(train, encoder, PairLimits(data.max_length, data.max_ratio))
    return PairMaterials(tokenizer, target_tokenizer, store, PairStore.of(valid, encoder), valid)


def pair_corpora(data: PairFiles) -> tuple[PairCorpus, PairCorpus]:
    """Training and validation pairs; the last of the training pairs are held out when none are named."""
    train = open_pairs(data, data.train)
    if data.valid is not None:
        return train, open_pairs(data, data.valid)
    return train.hold_out(data.valid_fraction)


def held_out_pairs(data: PairData, files: str | list[str] | None = None) -> PairCorpus:
    """The pairs of files; without files, the test or validation pairs."""
    named = files if files is not None else data.test
    return open_pairs(data, named) if named is not None else pair_corpora(data)[1]


def open_pairs(data: PairFiles, names: str | list[str]) -> PairCorpus:
    """Pairs by the names of their files, with the fields of the configuration; those of conversations if it says so."""
    if data.history is not None:
        return PairCorpus.open_conversations(names, data.history, data.turns_field)
    return PairCorpus.open(names, data.source_field, data.target_field, data.target_list)


def pair_encoder(config: RunConfig, tokenizer: Tokenizer, target_tokenizer: Tokenizer | None) -> PairEncoder:
    """How the model of a configuration reads pairs: words that it can copy need numbers of their own."""
    from seqloom.data.pair_encoders import ClosedPairs, OpenPairs

    if config.model.copying.kind != "none":
        return OpenPairs(tokenizer)
    return ClosedPairs(tokenizer, target_tokenizer or tokenizer)


def _pair_tokenizers(config: RunConfig, train: PairCorpus) -> tuple[Tokenizer, Tokenizer | None]:
    """One for each side, or one for both, trained on all of their text."""

    def learned(text: TextConfig, side: str, texts: Callable[[], Iterator[str]]) -> Tokenizer:
        return cached_tokenizer(text, f"{train.fingerprint} {side}", lambda: train_tokenizer(text, texts()), train)

    if config.target_text is None:
        return learned(config.text, "both", train.texts), None
    return learned(config.text, "source", train.sources), learned(config.target_text, "target", train.targets)


# ------------------------------------------------------------------------------------------------------------ images


def prepare_images(data: ImageData) -> Split[ImageSet]:
    """Training and validation images; some of the training images are held out when no others are named."""
    return _split_images(data, partial(open_images, data))


def held_out_images(data: ImageData, source: str | None = None) -> ImageSet:
    """The images of `source`; without one, the test or validation images."""
    named = source if source is not None else data.test
    return open_images(data, named) if named is not None else prepare_images(data).valid


def open_images(data: ImageData, source: str) -> ImageSet:
    """Images by their name, brought to the size of the configuration."""
    images = load_images(source)
    return images if data.size is None else images.resized(data.size)


def _split_images(data: ImageData | CaptionData, opened: Callable[[str], Pictures]) -> Split[Pictures]:
    train = opened(data.train)
    if data.valid is None:
        held = max(1, round(data.valid_fraction * len(train)))
        if held >= len(train):
            raise ConfigError(f"{data.train} has {len(train)} images: too few to hold some out; name data.valid")
        order = np.random.default_rng(0).permutation(len(train))  # the same every time
        return Split(train.chosen(np.sort(order[held:])), train.chosen(np.sort(order[:held])))
    valid = opened(data.valid)
    if train.shape != valid.shape:
        shapes = f"{look(train.shape)}, and those of {data.valid} {look(valid.shape)}"
        raise ConfigError(f"images of {data.train} are {shapes}: set data.size")
    return Split(train, valid)


# ---------------------------------------------------------------------------------------------- images with captions


@dataclass(frozen=True)
class CaptionMaterials:
    """A tokeniser of captions, what the images are like, and the training and validation images with their captions."""

    tokenizer: Tokenizer
    images: ImageFormat
    train: CaptionStore
    valid: CaptionStore


def prepare_captions(config: RunConfig, tokenizer: Tokenizer | None = None) -> CaptionMaterials:
    """Read the images with their captions, train a tokeniser on those of training unless one is given, and encode."""
    from seqloom.data.caption_batches import AugmentedCaptions, CaptionStore

    images = captioned_images(config.data)
    tokenizer = tokenizer or _caption_tokenizer(config, images.train)
    data: CaptionData = config.data
    train = CaptionStore(images.train, tokenizer)
    if data.margin or data.flip:
        train = AugmentedCaptions(images.train, tokenizer, data.margin, data.flip)
    return CaptionMaterials(tokenizer, ImageFormat(images.valid.shape), train, CaptionStore(images.valid, tokenizer))


def captioned_images(data: CaptionData) -> Split[CaptionedImages]:
    """Training images, with `data.margin`, and validation images; when no others are named, some of the training images
    are held out, with all their captions."""
    images = _split_images(data, partial(open_captions, data))
    return Split(images.train, images.valid.without(data.margin))


def held_out_captions(data: CaptionData, source: str | None = None) -> CaptionedImages:
    """The images of `source` with their captions; without one, the test or validation images."""
    named = source if source is not None else data.test
    return captioned_images(data).valid if named is None else open_captions(data, named).without(data.margin)


def open_captions(data: CaptionData, source: str) -> CaptionedImages:
    """Images with captions by their name: in the size and the channels of the configuration, and its margin around
    them, or as the features that it names."""
    if data.features is not None:
        return load_featured(source, data.features)
    return load_captions(source, None if data.size is None else data.size + data.margin, data.colour)


def _caption_tokenizer(config: RunConfig, train: CaptionedImages) -> Tokenizer:
    try:
        return train_tokenizer(config.text, (caption for several in train.captions for caption in several))
    except DataError as error:
        raise error.located(config.data.train) from error


# --------------------------------------------------------------------------------------------- texts with labels, tags


def prepare_labelled(data: TaggedData | LabelledData) -> Split[list[Any]]:
    """Training and validation examples; some of the training examples are held out when none are named."""
    train = read_examples(data, data.train)
    if data.valid is not None:
        return Split(train, read_examples(data, data.valid))
    return Split(*hold_out(train, data.valid_fraction))


def held_out_labelled(data: TaggedData | LabelledData, files: str | list[str] | None = None) -> list[Any]:
    """The examples of files; without files, the test or validation examples."""
    named = files or data.test
    return read_examples(data, named) if named is not None else prepare_labelled(data).valid


def read_examples(data: TaggedData | LabelledData, names: str | list[str]) -> list[Any]:
    """Examples by the names of their files, with the columns and fields of the configuration."""
    if isinstance(data, TaggedData):
        return read_tagged(names, data.word_column, data.tag_column)
    return read_labelled(names, data.label_field, data.text_field)
