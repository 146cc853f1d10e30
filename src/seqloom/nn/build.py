"""From a configuration to the layers it describes."""

from __future__ import annotations

from seqloom.config.schema import language, seq2seq
from seqloom.nn.alignment import build_attention
from seqloom.nn.averages import AttentionAverage, Average
from seqloom.nn.convolution import Convolution
from seqloom.nn.decoders.base import Decoder
from seqloom.nn.decoders.convolution import ConvolutionDecoder
from seqloom.nn.decoders.recurrent import AttentiveDecoder, LookFirstDecoder, PlainDecoder
from seqloom.nn.decoders.transformer import SecondLook, TransformerDecoder
from seqloom.nn.encoders import (
    ConvolutionEncoder,
    Encoder,
    PooledConvolutionEncoder,
    RecurrentEncoder,
    TransformerEncoder,
)
from seqloom.nn.features import FeatureLayer
from seqloom.nn.feedforward import FeedForward
from seqloom.nn.own import LAYERS
from seqloom.nn.recurrent import Recurrent
from seqloom.nn.transformer import Transformer


def build_features(config: language.FeaturesConfig, input_size: int) -> FeatureLayer:
    """The feature layer of a configuration, reading vectors of `input_size`."""
    if own := LAYERS.get(type(config)):
        return own(config, input_size)
    match config:
        case language.AverageFeatures():
            return Average(input_size)
        case language.AttentionAverageFeatures():
            return AttentionAverage(input_size)
        case language.FeedForwardFeatures():
            return FeedForward(config, input_size)
        case language.ConvolutionFeatures():
            return Convolution(config, input_size)
        case language.RecurrentFeatures():
            return Recurrent(config, input_size)
        case language.TransformerFeatures():
            return Transformer(config, input_size)


def build_encoder(config: seq2seq.EncoderConfig, input_size: int) -> Encoder:
    """The encoder of a configuration, reading vectors of `input_size`."""
    if own := LAYERS.get(type(config)):
        return own(config, input_size)
    match config:
        case seq2seq.RecurrentEncoderConfig():
            return RecurrentEncoder(config, input_size)
        case seq2seq.ConvolutionEncoderConfig():
            return ConvolutionEncoder(config, input_size)
        case seq2seq.PooledConvolutionEncoderConfig():
            return PooledConvolutionEncoder(config, input_size)
        case seq2seq.TransformerEncoderConfig():
            return TransformerEncoder(config, input_size)


def build_decoder(config: seq2seq.DecoderConfig, input_size: int, memory_size: int) -> Decoder:
    """The decoder of a configuration, reading vectors of `input_size` and a memory of vectors of `memory_size`."""
    if own := LAYERS.get(type(config)):
        return own(config, input_size, memory_size)
    match config:
        case seq2seq.RecurrentDecoderConfig():
            if isinstance(config.attention, seq2seq.NoAttention):
                return PlainDecoder(config, input_size, memory_size)
            attention = build_attention(config.attention, config.size, memory_size)
            kind = LookFirstDecoder if config.attends == "before" else AttentiveDecoder
            return kind(config, input_size, memory_size, attention)
        case seq2seq.ConvolutionDecoderConfig():
            return ConvolutionDecoder(config, input_size, memory_size)
        case seq2seq.TransformerDecoderConfig():
            decoder = TransformerDecoder(config, input_size, memory_size)
            if isinstance(config.attention, seq2seq.NoAttention):
                return decoder
            return SecondLook(decoder, memory_size, build_attention(config.attention, config.size, memory_size))
