"""Decoders: from the words so far and an encoder's memory to features that predict the next word."""

from seqloom.nn.decoders.base import Decoder, Reading

__all__ = ["Decoder", "Reading"]
