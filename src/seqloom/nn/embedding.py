"""The embedding layer: a vector for each word of the vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.language import EmbeddingConfig
from seqloom.nn.dropout import choose_dropout, drop_words
from seqloom.text.special import BOS, EOS


class Embedding(nn.Module):
    """e = E[x], one row of E per word.

    Rows start with values from N(0, 1/size), so that their length is about 1 whatever the size, and a softmax layer
    that shares the matrix starts with scores of about unit variance; or with another deviation, where one is given.
    """

    def __init__(self, config: EmbeddingConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.output_size = config.size
        self.word_dropout = config.word_dropout
        self.begin_as_end = config.begin_as_end
        self.weight = nn.Parameter(torch.empty(vocabulary_size, config.size))
        self.dropout = choose_dropout(config.dropout, config.variational)
        nn.init.normal_(self.weight, std=config.deviation or config.size**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [batch, time] -> vectors [batch, time, size]."""
        if self.begin_as_end:
            tokens = tokens.masked_fill(tokens == BOS, EOS)
        vectors = F.embedding(tokens, self.weight)
        vectors = drop_words(vectors, tokens, self.vocabulary_size, self.word_dropout, self.training)
        return self.dropout(vectors)
