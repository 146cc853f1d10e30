"""Captioners: an encoder reads an image, a decoder writes what is there."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from seqloom.config.schema.captioner import CaptionerConfig
from seqloom.data.caption_batches import CaptionBatch
from seqloom.models.conditional import Conditional
from seqloom.nn import Embedding
from seqloom.nn.build import build_decoder
from seqloom.nn.encoders import Encoding
from seqloom.nn.image_encoders import build_image_encoder
from seqloom.nn.image_layers import Shape
from seqloom.nn.output import OutputLayout, build_output


class Captioner(Conditional):
    """p(y | x) of a caption y given an image x (Vinyals et al. 2015, https://arxiv.org/abs/1411.4555; with attention
    over the places of the image, Xu et al. 2015, https://arxiv.org/abs/1502.03044).

    Sources are images [batch, channels, height, width] from 0 to 1, or features, which are pictures of many channels.
    """

    def __init__(
        self, config: CaptionerConfig, shape: Shape, vocabulary_size: int, layout: OutputLayout | None = None
    ) -> None:
        """For images or features of a shape; `layout`: as for `build_output`."""
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.encoder = build_image_encoder(config.encoder, shape)
        self.embedding = Embedding(config.embedding, vocabulary_size)
        self.decoder = build_decoder(config.decoder, config.embedding.size, self.encoder.output_size)
        matrix = self.embedding.weight
        self.output = build_output(config.output, self.decoder.output_size, vocabulary_size, layout, matrix)

    def source_of(self, batch: CaptionBatch) -> Tensor:
        return batch.images

    def encode(self, source: Tensor) -> Encoding:
        return self.encoder(source)

    def checked(self, source: Any, size: int) -> Tensor:
        if not isinstance(source, Tensor) or source.shape != (size, *self.encoder.shape):
            shape = "×".join(map(str, self.encoder.shape))
            raise ValueError(f"a captioner starts from a tensor of images of {shape}, one for each sequence")
        return source.to(self.device, self.dtype)
