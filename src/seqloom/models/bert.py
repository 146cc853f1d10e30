"""BERT: vectors of words in context, and the words that were hidden from them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.bert import BertConfig
from seqloom.config.schema.outputs import SoftmaxOutput
from seqloom.config.schema.transformer import TransformerShape
from seqloom.data.masked_texts import MaskedBatch
from seqloom.models.network import Network
from seqloom.nn import Embedding
from seqloom.nn.activations import ACTIVATIONS
from seqloom.nn.encoders import TransformerEncoder, real_places
from seqloom.nn.linear import Linear
from seqloom.nn.norms import make_norm
from seqloom.nn.output import OutputLayout, build_output
from seqloom.nn.starts import start_evenly


class Bert(Network):
    """From tokens to a vector for each, in which every token sees all others of its row (Devlin et al. 2019,
    https://arxiv.org/abs/1810.04805, section 3):

        h_0 = norm(E[x_t] + S[segment of t] + P[t]),   h_l = layer_l(h_{l-1})

    `<bos>` plays the paper's [CLS] and `<eos>` its [SEP]: a row is `<bos> A <eos>`, or `<bos> A <eos> B <eos>`, whose
    first segment ends with its first `<eos>`.
    """

    rate_factor = 1.0
    """How fast it learns beside all else: less, where it is fine-tuned below another model."""

    def __init__(self, config: BertConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.embedding = Embedding(config.embedding, vocabulary_size)
        self.segments = nn.Embedding(2, config.embedding.size) if config.segments else None
        if self.segments is not None:
            nn.init.normal_(self.segments.weight, std=0.02)
        self.reader = TransformerEncoder(config.encoder, config.embedding.size)

    def forward(self, tokens: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """The vectors of the last layer, [rows, time, size].

        tokens [rows, time]: of row r the first lengths[r] are real, all of them where no lengths are given.
        segments [rows, time]: 0 or 1; all 0 where they are not given.
        """
        return self.reader.read(self._vectors(tokens, segments), _mask(tokens, lengths))

    def layers(self, tokens: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """h_0, ..., h_L, [layers + 1, rows, time, size]; else as above."""
        return self.reader.read_layers(self._vectors(tokens, segments), _mask(tokens, lengths))

    def _vectors(self, tokens: Tensor, segments: Tensor | None) -> Tensor:
        vectors = self.embedding(tokens)
        if self.segments is None:
            return vectors
        return vectors + (self.segments.weight[0] if segments is None else self.segments(segments))


class PredictionHead(nn.Module):
    """norm(φ(W h + b)): what the words of a masked language model are predicted from."""

    def __init__(self, config: TransformerShape) -> None:
        super().__init__()
        self.transform = Linear(config.size, config.size)
        self.activation = ACTIVATIONS[config.activation]()
        self.norm = make_norm(config, config.size)
        start_evenly(self.transform)

    def forward(self, hidden: Tensor) -> Tensor:
        """[..., size] -> [..., size]"""
        return self.norm(self.activation(self.transform(hidden)))


class MaskedLanguageModel(Bert):
    """p(x_t | what is read of x), for the places t that were chosen: a softmax over E · head(h_L[t]) + b, whose matrix
    is that of the token vectors.

    With next-sentence prediction there is p(B follows A) as well, a softmax over W · tanh(V h_L[0] + c) + d, of which
    0 is that it follows.
    """

    def __init__(self, config: BertConfig, vocabulary_size: int, layout: OutputLayout | None = None) -> None:
        """`layout`: as for `build_output`."""
        super().__init__(config, vocabulary_size)
        size = config.encoder.size
        self.head = PredictionHead(config.encoder)
        self.output = build_output(SoftmaxOutput(), size, vocabulary_size, layout, self.embedding.weight)
        self.pooler = Linear(size, size) if config.next_sentence else None
        self.relation = Linear(size, 2) if config.next_sentence else None
        for layer in (self.pooler, self.relation):
            if layer is not None:
                start_evenly(layer)

    def read(self, batch: MaskedBatch) -> Tensor:
        """The vectors of the last layer, [rows, time, size]."""
        return self(batch.inputs, batch.lengths, batch.segments)

    def log_probs(self, batch: MaskedBatch) -> Tensor:
        """log p of every token at each place where one is to be found, [places, vocabulary]."""
        return self.output.log_probs(self.features(self.read(batch), batch.places))

    def features(self, hidden: Tensor, places: Tensor) -> Tensor:
        """What tokens are predicted from, [places, size], at some places of hidden [rows, time, size], counted row
        after row: only there the head is computed."""
        return self.head(hidden.flatten(0, 1).index_select(0, places))

    def relation_log_probs(self, hidden: Tensor) -> Tensor:
        """log p that the second segment follows the first, and that it does not, [rows, 2], of hidden [rows, time,
        size]."""
        assert self.pooler is not None
        assert self.relation is not None
        return F.log_softmax(self.relation(torch.tanh(self.pooler(hidden[:, 0]))).float(), dim=-1)


def _mask(tokens: Tensor, lengths: Tensor | None) -> Tensor | None:
    return None if lengths is None else real_places(tokens.size(1), lengths)
