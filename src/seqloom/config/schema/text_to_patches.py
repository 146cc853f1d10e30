"""Images from text, patch by patch: a codebook, a text encoder, and a decoder that writes codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from seqloom.config.schema.base import Size
from seqloom.config.schema.data import CaptionData
from seqloom.config.schema.language import EmbeddingConfig
from seqloom.config.schema.seq2seq import (
    ConditionalConfig,
    DecoderConfig,
    EncoderConfig,
    RecurrentEncoderConfig,
    TransformerDecoderConfig,
)

if TYPE_CHECKING:
    from seqloom.config.schema.run import RunConfig


class TextToPatchesConfig(ConditionalConfig):
    learns_from = CaptionData

    kind: Literal["text-to-patches"] = "text-to-patches"
    """p(image | sentence): a decoder that writes an image as a sentence of small patches, one after another."""
    patch: Size = 4
    """Width and height of a patch in pixels; a divisor of the image's."""
    codes: Size = 512
    """Patches in the codebook, which stand for all others."""
    embedding: EmbeddingConfig = EmbeddingConfig(size=64)
    """Of the words; codes have vectors of the decoder's size."""
    encoder: EncoderConfig = RecurrentEncoderConfig(kind="gru", size=128)
    """What reads the sentence."""
    decoder: DecoderConfig = TransformerDecoderConfig(size=128, layers=3, positions="relative")
    """What writes the codes, row after row; it is told the row and the column of each."""

    def check(self, run: RunConfig) -> None:
        super().check(run)
        run.data.check_pixels()
