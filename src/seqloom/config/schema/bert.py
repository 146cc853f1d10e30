"""BERT: a Transformer that reads both sides of a word, trained to find words that were hidden from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from seqloom.config.schema.base import ModelPart, Positive, Size
from seqloom.config.schema.data import TextData
from seqloom.config.schema.language import EmbeddingConfig
from seqloom.config.schema.objectives import MaskedObjective
from seqloom.config.schema.transformer import InnerActivation, PositionKind, WordTransformer

if TYPE_CHECKING:
    from seqloom.config.schema.run import RunConfig


class BertTransformer(WordTransformer):
    """The Transformer of the paper, but for its size."""

    norm: Literal["pre", "post"] = "post"
    """`post`: normalise the sum, as in the paper; `pre`: normalise what a sub-layer reads."""
    epsilon: Positive = 1e-12
    """What is added to the variance, or to the mean square, before its root is taken."""
    embedding_norm: bool = True
    """Normalise what the first layer reads, positions included."""
    activation: InnerActivation = "gelu"
    """φ of the position-wise network W₂ φ(W₁ x), and of the layer above the last one."""
    positions: PositionKind = "learned"
    """How attention learns where a word stands."""
    context: Size = 512
    """The longest sequence with learned positions, `<bos>` and `<eos>` counted."""


class BertConfig(ModelPart):
    learns_from = TextData
    objectives = (MaskedObjective,)
    figures = {  # noqa: RUF012 - as in the base
        "valid_accuracy": "accuracy on masked tokens {:.2f} %",
        "valid_loss": "loss per masked token {:.4f}",
    }

    kind: Literal["bert"] = "bert"
    """A masked language model: words are predicted from those on both sides (Devlin et al. 2019)."""
    embedding: EmbeddingConfig = EmbeddingConfig(size=256)
    """The vectors of tokens, which the prediction of tokens shares."""
    encoder: BertTransformer = BertTransformer()
    """What makes of them vectors in context."""
    segments: bool = False
    """A vector for each of the two segments of a sequence, added to those of its tokens."""
    next_sentence: bool = False
    """Read pairs of segments, and predict whether the second follows the first in the text; it needs `segments`."""

    def check_keys(self) -> None:
        if self.next_sentence and not self.segments:
            raise ValueError("next_sentence reads two segments at a time, and must tell them apart: set segments=true")

    def check(self, run: RunConfig) -> None:
        encoder, length = self.encoder, run.data.length
        if encoder.positions == "learned" and length > encoder.context:
            raise ValueError(
                f"model.encoder.context ({encoder.context}) is the longest sequence with learned positions, and "
                f"data.length is {length}: raise the first or lower the second"
            )
        shortest = 6 if self.next_sentence else 3
        if length < shortest:
            raise ValueError(f"data.length ({length}) counts <bos> and <eos>: it must be {shortest} at least")

    @property
    def depth(self) -> int:
        """How many vectors a word has: what the first layer reads, and one of each layer."""
        return self.encoder.layers + 1

    @property
    def width(self) -> int:
        """How long these vectors are."""
        return self.encoder.size
