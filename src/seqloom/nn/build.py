"""From a configuration to the feature layer it describes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seqloom.nn.averages import AttentionAverage, Average
from seqloom.nn.convolution import Convolution
from seqloom.nn.features import FeatureLayer
from seqloom.nn.feedforward import FeedForward
from seqloom.nn.recurrent import CoupledLstm, Gru, Lstm, PeepholeLstm, Rnn
from seqloom.nn.transformer import Transformer

if TYPE_CHECKING:
    from seqloom.config.schema import FeaturesConfig

FEATURES: dict[str, Callable[..., FeatureLayer]] = {
    "average": Average,
    "attention-average": AttentionAverage,
    "feedforward": FeedForward,
    "convolution": Convolution,
    "rnn": Rnn,
    "lstm": Lstm,
    "lstm-peephole": PeepholeLstm,
    "lstm-coupled": CoupledLstm,
    "gru": Gru,
    "transformer": Transformer,
}


def build_features(config: FeaturesConfig, input_size: int) -> FeatureLayer:
    """The feature layer of a configuration, reading vectors of `input_size`."""
    return FEATURES[config.kind](input_size, **config.model_dump(exclude={"kind"}))
