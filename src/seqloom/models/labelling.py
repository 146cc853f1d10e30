"""Models that label: the words of a sentence, or the whole of it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema import ClassifierConfig, StaticFeatures, TaggerConfig
from seqloom.data.labelled_batches import LabelledBatch
from seqloom.nn import Embedding
from seqloom.nn.dropout import Dropout
from seqloom.nn.encoders import RecurrentEncoder
from seqloom.nn.scalar_mix import ScalarMix
from seqloom.nn.tags import Crf, IndependentTags


class WordFeatures(nn.Module):
    """What a head knows of each word: a static vector, contextual layers mixed with learned weights, or both."""

    def __init__(self, static: Embedding | None, mix: ScalarMix | None, width: int, dropout: float) -> None:
        super().__init__()
        self.static, self.mix = static, mix
        self.output_size = (static.output_size if static else 0) + (width if mix else 0)
        self.dropout = Dropout(dropout)

    def forward(self, batch: LabelledBatch) -> Tensor:
        """[rows, time, output_size]"""
        vectors = []
        if self.mix is not None:
            assert batch.layers is not None
            vectors.append(self.mix(batch.layers))
        if self.static is not None:
            vectors.append(self.static(batch.ids))
        dropped: Tensor = self.dropout(torch.cat(vectors, dim=-1))
        return dropped


class Labeller(nn.Module):
    """What all models that label share."""

    features: WordFeatures

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return next(self.parameters()).device

    @property
    def parameter_count(self) -> int:
        """How many weights there are."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def mixing_weights(self) -> list[float]:
        """How much each layer of the contextual vectors counts; none where there are no such vectors."""
        mix = self.features.mix
        return mix.weights.tolist() if mix is not None else []


class Tagger(Labeller):
    """p(tags | words): features, a bidirectional LSTM, scores of tags, and the probability of sequences of them."""

    def __init__(self, features: WordFeatures, encoder: RecurrentEncoder, output: IndependentTags | Crf, tags: int):
        super().__init__()
        self.features, self.encoder, self.output = features, encoder, output
        self.score = nn.Linear(encoder.output_size, tags)

    def scores(self, batch: LabelledBatch) -> Tensor:
        """[rows, time, tags]"""
        scores: Tensor = self.score(self.encoder(self.features(batch), batch.lengths).memory)
        return scores

    def loss(self, batch: LabelledBatch) -> Tensor:
        """-log p of the tags, summed over the sentences."""
        return self.output.loss(self.scores(batch), batch.targets, batch.mask)

    def best(self, batch: LabelledBatch) -> Tensor:
        """The likeliest tags, [rows, time]."""
        return self.output.best(self.scores(batch), batch.mask)


class Classifier(Labeller):
    """p(label | words): features, LSTM layers if any, all words as one vector, and a softmax over labels."""

    def __init__(
        self,
        features: WordFeatures,
        encoder: RecurrentEncoder | None,
        pooling: Literal["max", "mean"],
        dropout: float,
        labels: int,
    ) -> None:
        super().__init__()
        self.features, self.encoder, self.pooling = features, encoder, pooling
        self.dropout = Dropout(dropout)
        self.score = nn.Linear(encoder.output_size if encoder else features.output_size, labels)

    def log_probs(self, batch: LabelledBatch) -> Tensor:
        """log p of every label, [rows, labels]."""
        vectors = self.features(batch)
        if self.encoder is not None:
            vectors = self.encoder(vectors, batch.lengths).memory
        padding = ~batch.mask.unsqueeze(2)
        if self.pooling == "max":
            pooled = vectors.masked_fill(padding, float("-inf")).amax(1)
        else:
            pooled = vectors.masked_fill(padding, 0.0).sum(1) / batch.lengths.unsqueeze(1)
        return F.log_softmax(self.score(self.dropout(pooled)).float(), dim=-1)

    def loss(self, batch: LabelledBatch) -> Tensor:
        """-log p of the labels, summed over the sentences."""
        return F.nll_loss(self.log_probs(batch), batch.targets, reduction="sum")


def build_labeller(
    config: TaggerConfig | ClassifierConfig, vocabulary_size: int, labels: int, depth: int = 0, width: int = 0
) -> Tagger | Classifier:
    """The model that a configuration describes, with fresh weights; `depth` and `width` are those of ELMo's layers."""
    wanted = config.features if isinstance(config.features, StaticFeatures) else config.features.static
    static = Embedding(vocabulary_size, wanted.size) if wanted else None
    if static is not None and wanted is not None and wanted.frozen:
        static.weight.requires_grad_(False)
    features = WordFeatures(static, ScalarMix(depth) if depth else None, width, config.dropout)
    encoder = None
    if config.layers:
        encoder = RecurrentEncoder("lstm", features.output_size, config.size, config.layers, True, config.dropout)
    if isinstance(config, ClassifierConfig):
        return Classifier(features, encoder, config.pooling, config.dropout, labels)
    assert encoder is not None
    return Tagger(features, encoder, Crf(labels) if config.output == "crf" else IndependentTags(labels), labels)
