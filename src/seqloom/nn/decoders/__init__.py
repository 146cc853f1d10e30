"""Decoders: from the words so far and an encoder's memory to features that predict the next word."""

from __future__ import annotations

from seqloom.nn.decoders.base import Decoder, Glance, Reading
from seqloom.nn.decoders.convolution import ConvolutionDecoder
from seqloom.nn.decoders.recurrent import AttentiveDecoder, PlainDecoder, SummaryKind
from seqloom.nn.decoders.transformer import SecondLook, TransformerDecoder

__all__ = [
    "AttentiveDecoder",
    "ConvolutionDecoder",
    "Decoder",
    "Glance",
    "PlainDecoder",
    "Reading",
    "SecondLook",
    "SummaryKind",
    "TransformerDecoder",
]
