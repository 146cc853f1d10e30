"""Trained models that draw what sentences say: what all kinds of them share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seqloom.data.captions import CaptionedImages
from seqloom.data.image_format import ImageFormat
from seqloom.data.materials import held_out_captions
from seqloom.data.ragged import Ragged, padded
from seqloom.errors import DataError, did_you_mean
from seqloom.metrics.corpus_scores import Scored
from seqloom.models.seq2seq import Source
from seqloom.reports.html import Markup
from seqloom.runs.capabilities import Captions, Draws, DrawsTexts, Pixels
from seqloom.runs.trained import Trained
from seqloom.text.special import SPECIALS, UNK
from seqloom.text.tokenizer import Tokenizer

MEASURED = 200  # held-out images of the report's figures; `evaluate` takes them all
PROMPTS = 8  # captions whose drawings the report shows
DRAWS = 8  # drawings of each of them


class TrainedPainter(Trained, Draws, DrawsTexts):
    """A model of images given sentences: texts in, pictures out."""

    @property
    def tokenizer(self) -> Tokenizer:
        """How sentences become tokens."""
        return self.assets.tokenizer

    @property
    def images(self) -> ImageFormat:
        """What images the run learned from."""
        return self.assets.images

    @abstractmethod
    def draw_each(self, texts: Sequence[str], seed: int = 0, temperature: float = 1.0) -> Pixels:
        """One image of each text, each drawn by itself; what is unknown reads `<unk>`."""

    def sample(self, size: int, seed: int = 0) -> Pixels:
        """Draw held-out captions, in their order, over again if there are fewer."""
        captions = first_captions(self.captioned())
        return self.draw_each([captions[number % len(captions)] for number in range(size)], seed)

    def known(self, texts: str | Sequence[str]) -> list[str]:
        """Texts as a list; an error names the first word that the model has never read."""
        several = [texts] if isinstance(texts, str) else list(texts)
        for text in several:
            ids = self.tokenizer.encode(text)
            if not ids:
                raise DataError("an empty text says nothing: what shall be drawn?")
            if UNK in ids:
                word = self.tokenizer.pieces(text)[ids.index(UNK)]
                tokens = self.tokenizer.tokens(range(len(SPECIALS), self.tokenizer.size))
                known = [token for token in tokens if any(map(str.isalnum, token))]
                raise DataError(
                    f"{self.path} does not know the word {word!r} in {text!r}{did_you_mean(word, known)}: "
                    "it draws what the captions of its training told of"
                )
        return several

    def source_of(self, texts: Sequence[str]) -> Source:
        """Sentences as the text encoder reads them."""
        tokens, lengths = padded(Ragged.encoded(list(texts), self.tokenizer), np.arange(len(texts)))
        return Source(tokens.to(self.device), lengths.to(self.device))

    def captioned(self, source: str | None = None) -> CaptionedImages:
        """The images of `source` with their captions, or the run's test or validation images."""
        captioned = held_out_captions(self.config.data, source)
        if captioned.shape != self.images.shape:
            own, other = (f"{width}×{height}" for _, height, width in (self.images.shape, captioned.shape))
            raise DataError(f"{self.path} draws images of {own} pixels, and those of {source} are {other}")
        return captioned

    def read_back(self, captioner: Captions, source: str | None = None) -> dict[str, Scored]:
        """Per cent of the captions that a captioner reads off what was drawn of them, and off the real images."""
        captioned = self.captioned(source)
        captions, words = first_captions(captioned), captioner.tokenizer
        expected = [words.decode(words.encode(caption)) for caption in captions]
        figures = {}
        for name, images, which in (
            ("", self.draw_each(captions), "one draw for each caption, seed 0"),
            ("real_", captioned.images, "the real images"),
        ):
            texts = [several[0].text for several in captioner.generate(images)]
            right = [text == caption for text, caption in zip(texts, expected, strict=True)]
            signature = self.signed(f"per cent read back word for word by {captioner.path.name}", which)
            figures[f"{name}captions_right"] = Scored(100 * float(np.mean(right)), signature)
        return figures


def first_captions(captioned: CaptionedImages) -> list[str]:
    """Of each image."""
    return [several[0] for several in captioned.captions]


class Shown(NamedTuple):
    """What the page of a run shows of held-out images."""

    measured: CaptionedImages
    """Those that its figures are of."""
    captions: list[str]
    images: Pixels
    """The real images of these captions."""
    section: Markup
    """They with what the model draws."""


def shown(trained: TrainedPainter) -> Shown:
    """The first held-out captions, and drawings of each."""
    from seqloom.reports.text_to_image import drawn_section

    captioned = trained.captioned()
    few, some = (captioned.chosen(np.arange(min(most, len(captioned)))) for most in (PROMPTS, MEASURED))
    captions = first_captions(few)
    drawings = [trained.draw_each([caption] * DRAWS) for caption in captions]
    return Shown(some, captions, few.images, drawn_section(captions, few.images, drawings))
