"""The four symbols every vocabulary begins with, at the same ids in every tokeniser and model."""

from __future__ import annotations

UNK, PAD, BOS, EOS = 0, 1, 2, 3
SPECIALS = ("<unk>", "<pad>", "<bos>", "<eos>")
