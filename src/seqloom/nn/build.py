"""From a configuration to the layers it describes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seqloom.nn.alignment import (
    AdditiveAlignment,
    Alignment,
    BilinearAlignment,
    ContextAttention,
    CoverageAlignment,
    DotAlignment,
    LocationAlignment,
    ScaledDotAlignment,
)
from seqloom.nn.averages import AttentionAverage, Average
from seqloom.nn.convolution import Convolution
from seqloom.nn.decoders import (
    AttentiveDecoder,
    ConvolutionDecoder,
    Decoder,
    PlainDecoder,
    SecondLook,
    TransformerDecoder,
)
from seqloom.nn.encoders import ConvolutionEncoder, Encoder, RecurrentEncoder, TransformerEncoder
from seqloom.nn.features import FeatureLayer
from seqloom.nn.feedforward import FeedForward
from seqloom.nn.recurrent import CoupledLstm, Gru, Lstm, PeepholeLstm, Rnn
from seqloom.nn.transformer import Transformer

if TYPE_CHECKING:
    from seqloom.config.schema import DecoderConfig, EncoderConfig, FeaturesConfig, SomeAttention

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


ALIGNMENTS: dict[str, Callable[..., Alignment]] = {
    "dot": DotAlignment,
    "scaled-dot": ScaledDotAlignment,
    "bilinear": BilinearAlignment,
    "additive": AdditiveAlignment,
    "coverage": CoverageAlignment,
    "location": LocationAlignment,
}


def build_encoder(config: EncoderConfig, input_size: int) -> Encoder:
    """The encoder of a configuration, reading vectors of `input_size`."""
    options = config.model_dump(exclude={"kind"})
    match config.kind:
        case "convolution":
            return ConvolutionEncoder(input_size, **options)
        case "transformer":
            return TransformerEncoder(input_size, **options)
        case _:
            return RecurrentEncoder(config.kind, input_size, **options)


def build_decoder(config: DecoderConfig, input_size: int, memory_size: int) -> Decoder:
    """The decoder of a configuration, reading vectors of `input_size` and a memory of vectors of `memory_size`."""

    def attention(query_size: int) -> ContextAttention:
        assert config.attention.kind != "none"
        return build_attention(config.attention, query_size, memory_size)

    options = config.model_dump(exclude={"kind", "attention"})
    match config.kind:
        case "convolution":
            return ConvolutionDecoder(input_size, memory_size, attention, **options)
        case "transformer":
            decoder = TransformerDecoder(input_size, memory_size, **options)
            looks_again = config.attention.kind != "none"
            return SecondLook(decoder, memory_size, attention(config.size)) if looks_again else decoder
    if config.attention.kind == "none":
        return PlainDecoder(config.kind, input_size, memory_size, **options)
    options.pop("feed")  # attention sees the source at every step
    return AttentiveDecoder(config.kind, input_size, memory_size, attention(config.size), **options)


def build_attention(config: SomeAttention, query_size: int, memory_size: int) -> ContextAttention:
    """The attention of a configuration."""
    return ContextAttention(ALIGNMENTS[config.kind](query_size, memory_size, **config.model_dump(exclude={"kind"})))
