"""What a configuration of images with captions needs before training can begin: a tokeniser, images and captions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seqloom.config import RunConfig
from seqloom.data.captions import CaptionedImages, load_captions
from seqloom.errors import ConfigError, DataError
from seqloom.text import Tokenizer, train_tokenizer


@dataclass(frozen=True)
class CaptionMaterials:
    """A tokeniser of captions, with the training and validation images."""

    tokenizer: Tokenizer
    train: CaptionedImages
    valid: CaptionedImages


def prepare_captions(config: RunConfig, tokenizer: Tokenizer | None = None) -> CaptionMaterials:
    """Read the images with their captions, and train a tokeniser on those of training unless one is given."""
    train, valid = captioned_images(config)
    return CaptionMaterials(tokenizer or _tokenizer(config, train), train, valid)


def captioned_images(config: RunConfig) -> tuple[CaptionedImages, CaptionedImages]:
    """Training and validation images; some of the training images are held out, with all their captions, when none are
    named."""
    data = config.caption_data
    train = open_captions(config, data.train)
    if data.valid is not None:
        valid = open_captions(config, data.valid)
        if train.shape != valid.shape:
            raise ConfigError(f"the images of {data.train} and {data.valid} have different sizes: set data.size")
        return train, valid
    held = max(1, round(data.valid_fraction * len(train)))
    if held >= len(train):
        raise ConfigError(f"{data.train} has {len(train)} images: too few to hold some out; name data.valid")
    order = np.random.default_rng(0).permutation(len(train))
    return train.chosen(np.sort(order[held:])), train.chosen(np.sort(order[:held]))


def held_out_captions(config: RunConfig, source: str | None = None) -> CaptionedImages:
    """The images of `source`; without one, the run's test or validation images."""
    data = config.caption_data
    if source is not None or data.test is not None:
        return open_captions(config, source or data.test or "")
    return captioned_images(config)[1]


def open_captions(config: RunConfig, source: str) -> CaptionedImages:
    """Images with captions by their name, in the size and the channels of the configuration."""
    return load_captions(source, config.caption_data.size, config.caption_data.colour)


def _tokenizer(config: RunConfig, train: CaptionedImages) -> Tokenizer:
    try:
        return train_tokenizer(config.text, (caption for several in train.captions for caption in several))
    except DataError as error:
        raise error.located(config.caption_data.train) from error
