"""How pairs become ids: under tokenisers as they are, or with room for words that can only be copied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seqloom.data.pair_batches import EncodedPairs
from seqloom.data.pairs import Pair
from seqloom.data.ragged import Ragged
from seqloom.data.store import TokenStore
from seqloom.text.open_words import encode_targets
from seqloom.text.tokenizer import Tokenizer

Dtype = np.dtype[np.unsignedinteger]


@dataclass(frozen=True)
class ClosedPairs:
    """Each side under a tokeniser: what it does not know is `<unk>`."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    @property
    def recipe(self) -> list[str]:
        """Changes when the ids do."""
        return ["closed", self.source_tokenizer.document, self.target_tokenizer.document]

    @property
    def dtypes(self) -> tuple[Dtype, Dtype]:
        """Numbers that hold the ids of sources and of targets."""
        return TokenStore.dtype(self.source_tokenizer), TokenStore.dtype(self.target_tokenizer)

    def encode(self, pairs: list[Pair]) -> EncodedPairs:
        """Sources and first targets, each ending in `<eos>`."""
        source = Ragged.encoded([pair.source for pair in pairs], self.source_tokenizer)
        return EncodedPairs(source, Ragged.encoded([pair.targets[0] for pair in pairs], self.target_tokenizer))


@dataclass(frozen=True)
class OpenPairs:
    """Both sides under one tokeniser, with numbers from its size on for the unknown words of each source."""

    tokenizer: Tokenizer

    @property
    def recipe(self) -> list[str]:
        """Changes when the ids do."""
        return ["open", self.tokenizer.document]

    @property
    def dtypes(self) -> tuple[Dtype, Dtype]:
        """Numbers that hold the ids, of which there are as many more as any source has unknown words."""
        return np.dtype(np.uint32), np.dtype(np.uint32)

    def encode(self, pairs: list[Pair]) -> EncodedPairs:
        """Sources and first targets, each ending in `<eos>`."""
        source, words = Ragged.encoded_openly([pair.source for pair in pairs], self.tokenizer)
        targets = encode_targets(self.tokenizer, [pair.targets[0] for pair in pairs], words)
        return EncodedPairs(source, Ragged.of_lengths(*targets))


PairEncoder = ClosedPairs | OpenPairs
