"""Models that label: the words of a sentence, or the whole of it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.labelling import ClassifierConfig, RunFeatures, StaticFeatures, TaggerConfig
from seqloom.config.schema.language import EmbeddingConfig
from seqloom.config.schema.seq2seq import RecurrentEncoderConfig
from seqloom.data.labelled_batches import LabelledBatch
from seqloom.data.word_pieces import at_words
from seqloom.models.bert import Bert
from seqloom.models.network import Network
from seqloom.nn import Embedding
from seqloom.nn.dropout import Dropout
from seqloom.nn.encoders import RecurrentEncoder
from seqloom.nn.linear import Linear
from seqloom.nn.scalar_mix import ScalarMix
from seqloom.nn.tags import Crf, IndependentTags


class WordFeatures(nn.Module):
    """What a head knows of each word: a static vector, a vector in context, or both.

    Vectors in context are layers of a network that stays as it is, mixed with learned weights, or the last layer of one
    that is trained along.
    """

    def __init__(
        self, config: TaggerConfig | ClassifierConfig, vocabulary_size: int, depth: int, width: int, below: Bert | None
    ) -> None:
        """`depth` and `width` are those of the layers to mix; both are 0 where there are none. `below` is the network
        that is trained along."""
        super().__init__()
        features = config.features
        words = features if isinstance(features, StaticFeatures) else features.static
        self.static = None
        if words is not None:
            self.static = Embedding(EmbeddingConfig(size=words.size), vocabulary_size)
            self.static.weight.requires_grad_(not words.frozen)
        self.mix = ScalarMix(depth) if depth else None
        self.below = below
        if below is not None:
            assert isinstance(features, RunFeatures)
            below.rate_factor = features.rate
            width = below.reader.output_size
        self.output_size = (words.size if words else 0) + width
        self.dropout = Dropout(config.dropout)

    def forward(self, batch: LabelledBatch) -> Tensor:
        """[rows, time, output_size]"""
        vectors = []
        if self.mix is not None:
            assert batch.layers is not None
            vectors.append(self.mix(batch.layers))
        if self.below is not None:
            assert batch.firsts is not None
            vectors.append(at_words(self.below(batch.pieces, batch.piece_lengths), batch.firsts))
        if self.static is not None:
            vectors.append(self.static(batch.ids))
        return self.dropout(torch.cat(vectors, dim=-1))


class Labeller(Network, ABC):
    """What all models that label share: features, and bidirectional LSTM layers if any."""

    def __init__(
        self, config: TaggerConfig | ClassifierConfig, vocabulary_size: int, depth: int, width: int, below: Bert | None
    ) -> None:
        """Depth, width and the network below: as for `WordFeatures`."""
        super().__init__()
        self.features = WordFeatures(config, vocabulary_size, depth, width, below)
        self.encoder = None
        self.output_size = self.features.output_size
        if config.layers:
            lstm = RecurrentEncoderConfig(
                kind="lstm", size=config.size, layers=config.layers, bidirectional=True, dropout=config.dropout
            )
            self.encoder = RecurrentEncoder(lstm, self.output_size)
            self.output_size = self.encoder.output_size

    def vectors(self, batch: LabelledBatch) -> Tensor:
        """[rows, time, output_size]"""
        features = self.features(batch)
        return features if self.encoder is None else self.encoder(features, batch.lengths).memory

    @abstractmethod
    def loss(self, batch: LabelledBatch) -> Tensor:
        """-log p of the labels, summed over the sentences."""

    @abstractmethod
    def right(self, batch: LabelledBatch) -> Tensor:
        """How many labels are predicted as they are."""

    @property
    def mixing_weights(self) -> list[float]:
        """How much each layer of the contextual vectors counts; none where there are no such vectors."""
        mix = self.features.mix
        return mix.weights.tolist() if mix is not None else []


class Tagger(Labeller):
    """p(tags | words): features, LSTM layers if any, scores of tags, and the probability of sequences of them."""

    def __init__(
        self,
        config: TaggerConfig,
        vocabulary_size: int,
        tags: int,
        depth: int = 0,
        width: int = 0,
        below: Bert | None = None,
    ) -> None:
        super().__init__(config, vocabulary_size, depth, width, below)
        self.output = Crf(tags) if config.output == "crf" else IndependentTags(tags)
        self.score = Linear(self.output_size, tags)

    def scores(self, batch: LabelledBatch) -> Tensor:
        """[rows, time, tags]"""
        return self.score(self.vectors(batch))

    def loss(self, batch: LabelledBatch) -> Tensor:
        return self.output.loss(self.scores(batch), batch.targets, batch.mask)

    def best(self, batch: LabelledBatch) -> Tensor:
        """The likeliest tags, [rows, time]."""
        return self.output.best(self.scores(batch), batch.mask)

    def right(self, batch: LabelledBatch) -> Tensor:
        return ((self.best(batch) == batch.targets) & batch.mask).sum()


class Classifier(Labeller):
    """p(label | words): features, LSTM layers if any, all words as one vector, and a softmax over labels."""

    def __init__(
        self,
        config: ClassifierConfig,
        vocabulary_size: int,
        labels: int,
        depth: int = 0,
        width: int = 0,
        below: Bert | None = None,
    ) -> None:
        super().__init__(config, vocabulary_size, depth, width, below)
        self.pooling = config.pooling
        self.dropout = Dropout(config.dropout)
        self.score = Linear(self.output_size, labels)

    def log_probs(self, batch: LabelledBatch) -> Tensor:
        """log p of every label, [rows, labels]."""
        vectors = self.vectors(batch)
        padding = ~batch.mask.unsqueeze(2)
        if self.pooling == "max":
            pooled = vectors.masked_fill(padding, float("-inf")).amax(1)
        else:
            pooled = vectors.masked_fill(padding, 0.0).sum(1) / batch.lengths.unsqueeze(1)
        return F.log_softmax(self.score(self.dropout(pooled)).float(), dim=-1)

    def loss(self, batch: LabelledBatch) -> Tensor:
        return F.nll_loss(self.log_probs(batch), batch.targets, reduction="sum")

    def right(self, batch: LabelledBatch) -> Tensor:
        return (self.log_probs(batch).argmax(1) == batch.targets).sum()
