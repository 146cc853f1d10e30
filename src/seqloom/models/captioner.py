"""Captioners: an encoder reads an image, a decoder writes what is there."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from seqloom.config.schema import CaptionerConfig
from seqloom.data.caption_batches import CaptionBatch
from seqloom.models.conditional import Conditional
from seqloom.nn import Embedding, OutputLayer
from seqloom.nn.build import build_decoder
from seqloom.nn.decoders import Decoder
from seqloom.nn.encoders import Encoding
from seqloom.nn.image_encoders import CnnEncoder, ImageEncoder, VitEncoder
from seqloom.nn.image_layers import Shape
from seqloom.nn.output import Plan, build_output


class Captioner(Conditional):
    """p(y | x) of a caption y given an image x (Vinyals et al. 2015, https://arxiv.org/abs/1411.4555; with attention
    over the places of the image, Xu et al. 2015, https://arxiv.org/abs/1502.03044).

    Sources are images [batch, channels, height, width] from 0 to 1.
    """

    def __init__(self, encoder: ImageEncoder, embedding: Embedding, decoder: Decoder, output: OutputLayer) -> None:
        super().__init__()
        self.encoder, self.embedding, self.decoder, self.output = encoder, embedding, decoder, output
        self.vocabulary_size = output.vocabulary_size

    def source_of(self, batch: CaptionBatch) -> Tensor:
        return batch.images

    def encode(self, source: Tensor) -> Encoding:
        encoding: Encoding = self.encoder(source)
        return encoding

    def checked(self, source: Any, size: int) -> Tensor:
        if not isinstance(source, Tensor) or source.shape != (size, *self.encoder.shape):
            shape = "×".join(map(str, self.encoder.shape))
            raise ValueError(f"a captioner starts from a tensor of images of {shape}, one for each sequence")
        return source.to(self.device)


def build_captioner(config: CaptionerConfig, shape: Shape, vocabulary_size: int, plan: Plan | None = None) -> Captioner:
    """The model that a configuration describes for images of a shape, with fresh weights; `plan`: as for
    `build_output`."""
    options = config.encoder.model_dump(exclude={"kind"})
    encoder: ImageEncoder = (
        CnnEncoder(shape, **options) if config.encoder.kind == "cnn" else VitEncoder(shape, **options)
    )
    embedding = Embedding(vocabulary_size, **config.embedding.model_dump(exclude={"vectors"}))
    decoder = build_decoder(config.decoder, config.embedding.size, encoder.output_size)
    output = build_output(config.output, decoder.output_size, vocabulary_size, plan, embedding.weight)
    return Captioner(encoder, embedding, decoder, output)
