"""Word vectors."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import ModelPart, NonNegative, Positive, Size, Times
from seqloom.config.schema.data import TextData


class Word2VecConfig(ModelPart):
    learns_from = TextData
    may_change = ("passes", "threads", "similarity", "analogies")

    kind: Literal["word2vec"] = "word2vec"
    """Vectors of words, learned from the words around them (Mikolov et al. 2013)."""
    architecture: Literal["skip-gram", "cbow"] = "skip-gram"
    """`skip-gram`: each word of the window tells the word in the middle; `cbow`: their mean does."""
    output: Literal["negative-sampling", "tree"] = "negative-sampling"
    """`negative-sampling`: the word against words drawn at random; `tree`: its path in a Huffman tree."""
    size: Size = 100
    """Length of a word's vector."""
    window: Size = 5
    """The farthest word on either side; each window reaches 1 to this many, by chance."""
    negatives: Size = 5
    """negative-sampling: noise words drawn per word of the text."""
    noise_power: NonNegative = 0.75
    """negative-sampling: noise words are drawn with chances ∝ count^power."""
    subsample: NonNegative = 1e-3
    """Words whose share of the text is larger are left out at random, the more the larger; 0 keeps all."""
    learning_rate: Positive | None = None
    """The first rate; when not given 0.025, and 0.25 for cbow with the mean, whose gradient is shared by the window."""
    final_rate: NonNegative = 1e-4
    """The last rate; in between it falls evenly by the words read."""
    passes: Times = 5
    """How often the text is read."""
    threads: Annotated[Size, Field(le=1000)] | None = None
    """Threads, which share the vectors without locks; all cores when not given. With 1, the same seed gives the same
    vectors."""
    batch: Annotated[Times, Field(ge=100)] = 10_000
    """Tokens that a thread takes at a time; a sentence ends where they do."""
    context: Literal["mean", "sum"] = "mean"
    """cbow: what the vectors of a window are made into."""
    start: str | None = None
    """A run of word vectors or a word2vec file to go on from: its words keep their vectors, new ones begin afresh."""
    similarity: list[str] = []  # noqa: RUF012 - pydantic copies it
    """Files of word pairs with people's judgements (WordSim-353, SimLex-999), evaluated after each pass."""
    analogies: list[str] = []  # noqa: RUF012 - pydantic copies it
    """Files of analogy questions (questions-words.txt), evaluated after each pass."""

    @property
    def first_rate(self) -> float:
        """The learning rate, or the one that suits the architecture."""
        shared = self.architecture == "cbow" and self.context == "mean"
        return self.learning_rate or (0.25 if shared else 0.025)
