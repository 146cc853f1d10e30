"""Images from text: a variational autoencoder given a sentence."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqloom.config.schema.text_to_image import TextToImageConfig
from seqloom.data.caption_batches import DescribedBatch
from seqloom.models.latent.likelihoods import BernoulliPixels, GaussianPixels
from seqloom.models.latent.variational import Variational, at_least_single, normal_head
from seqloom.models.seq2seq import Source
from seqloom.nn import Embedding
from seqloom.nn.attending_decoder import AttendingDecoder
from seqloom.nn.build import build_encoder
from seqloom.nn.encoders import Encoding
from seqloom.nn.image_layers import ACTIVATIONS, ImageConvolutionEncoder, Shape


class TextToImage(Variational):
    """p(x | c) = ∫ N(z; 0, I) p(x | z, c) dz of an image x given a sentence c (Sohn et al. 2015, with z independent of
    c): the sentence says what is seen, z what it leaves open.

        ELBO(x | c) = E_q[log p(x | z, c)] - KL(q(z | x, c) ‖ N(0, I))  <=  log p(x | c)

    q knows the sentence by its summary vector. The decoder begins with a hidden layer of the summary and z, and each
    place of its smallest image attends to the words (`AttendingDecoder`).
    """

    def __init__(self, config: TextToImageConfig, shape: Shape, vocabulary_size: int) -> None:
        super().__init__()
        self.config, self.shape = config, shape
        self.embedding = Embedding(config.embedding, vocabulary_size)
        self.reader = build_encoder(config.encoder, config.embedding.size)
        summary = self.reader.output_size
        self.encoder = ImageConvolutionEncoder(shape, config.channels, config.activation)
        self.seen = _meeting(self.encoder.output_size + summary, config)
        self.head = nn.Linear(config.hidden, 2 * config.size)
        self.meant = _meeting(config.size + summary, config)
        self.decoder = AttendingDecoder(config.hidden, summary, config.heads, config.channels, shape, config.activation)
        self.pixels = BernoulliPixels() if config.pixels == "bernoulli" else GaussianPixels()

    def begin(self, mean: Tensor) -> None:
        """Begin with the mean image [channels, height, width]."""
        self.decoder.begin_at(self.pixels.decoded(mean))

    def read(self, source: Source) -> Encoding:
        """What the text encoder knows of sentences."""
        return self.reader(self.embedding(source.tokens), source.lengths)

    def posterior(self, batch: DescribedBatch) -> tuple[Tensor, Tensor]:
        summary = self.read(Source(batch.words, batch.lengths)).last
        features = torch.cat([self.encoder(batch.images), summary], dim=-1)
        return normal_head(self.head(self.seen(features)), self.config.head)

    def likelihood(self, batch: DescribedBatch, codes: Tensor) -> Tensor:
        return self.pixels.log_prob(self.decode(codes, self.read(Source(batch.words, batch.lengths))), batch.images)

    def decode(self, codes: Tensor, encoding: Encoding) -> Tensor:
        """What the decoder gives for codes [draws, sentences, size]: [draws, sentences, channels, height, width]"""
        summary = encoding.last.expand(*codes.shape[:-1], -1)
        vectors = self.meant(torch.cat([codes, summary], dim=-1)).transpose(0, 1)  # the draws of a sentence together
        decoded = at_least_single(self.decoder(vectors.flatten(0, 1), encoding))
        return decoded.unflatten(0, vectors.shape[:2]).transpose(0, 1)


def _meeting(size: int, config: TextToImageConfig) -> nn.Sequential:
    """A hidden layer of what two networks say, side by side."""
    return nn.Sequential(nn.Linear(size, config.hidden), ACTIVATIONS[config.activation]())
