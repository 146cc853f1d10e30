"""Building blocks of neural sequence models: embedding, feature and output layers."""

from seqloom.nn.attention import MultiHeadAttention, attend, causal_mask
from seqloom.nn.averages import AttentionAverage, Average
from seqloom.nn.build import build_features
from seqloom.nn.convolution import Convolution
from seqloom.nn.dropout import Dropout, VariationalDropout, choose_dropout, drop_values, drop_weight, drop_words
from seqloom.nn.embedding import Embedding
from seqloom.nn.features import FeatureLayer
from seqloom.nn.feedforward import FeedForward
from seqloom.nn.gradients import scale_gradient
from seqloom.nn.output import OutputLayer, Softmax
from seqloom.nn.recurrent import CoupledLstm, Gru, Lstm, PeepholeLstm, Recurrent, Rnn
from seqloom.nn.state import State
from seqloom.nn.transformer import Transformer

__all__ = [
    "AttentionAverage",
    "Average",
    "Convolution",
    "CoupledLstm",
    "Dropout",
    "Embedding",
    "FeatureLayer",
    "FeedForward",
    "Gru",
    "Lstm",
    "MultiHeadAttention",
    "OutputLayer",
    "PeepholeLstm",
    "Recurrent",
    "Rnn",
    "Softmax",
    "State",
    "Transformer",
    "VariationalDropout",
    "attend",
    "build_features",
    "causal_mask",
    "choose_dropout",
    "drop_values",
    "drop_weight",
    "drop_words",
    "scale_gradient",
]
