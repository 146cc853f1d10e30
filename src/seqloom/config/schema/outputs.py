"""Output layers: from features to words."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from seqloom.config.schema.base import NonNegative, Probability, Schema, Size


class SoftmaxOutput(Schema):
    kind: Literal["softmax"] = "softmax"
    """One score for every word of the vocabulary."""
    tied: bool = True
    """Share the matrix with the embedding (through a projection when the sizes differ)."""
    bias: bool = True
    """Whether words have biases, which begin at the logarithm of their frequency (GPT-2, T5 and Llama have none)."""
    cap: NonNegative = 0.0
    """Keep scores s between -cap and cap, as cap · tanh(s / cap) (Gemma 2); 0 leaves them as they are."""
    scaled: bool = False
    """Divide scores by the root of the features' size (T5, whose matrix is tied)."""
    absent: list[Literal["<unk>", "<pad>", "<bos>"]] = []  # noqa: RUF012 - pydantic copies it
    """Special symbols that are never written: they have probability 0 (models of other programs may lack them)."""

    def check_keys(self) -> None:
        if self.absent and self.cap:
            raise ValueError("a cap would give the absent symbols a probability again: set cap to 0, or absent to []")


class ClassOutput(Schema):
    kind: Literal["class-softmax"] = "class-softmax"
    """Two levels: p(w | h) = p(class | h) · p(w | class, h) (Goodman 2001)."""
    classes: Size | None = None
    """How many; about √V when not given."""
    vectors: str | None = None
    """Classes by the likeness of word vectors: a word2vec run or file; without it, by frequency."""


class TreeOutput(Schema):
    kind: Literal["tree-softmax"] = "tree-softmax"
    """A walk down a binary tree, left or right at each node: log V scores for a word (Morin & Bengio 2005)."""
    tree: Literal["huffman", "balanced", "vectors"] = "huffman"
    """`huffman`: frequent words near the root; `balanced`: all words as deep; `vectors`: like words together."""
    vectors: str | None = None
    """For `tree: vectors`: a word2vec run or file."""

    def check_keys(self) -> None:
        if (self.tree == "vectors") != (self.vectors is not None):
            raise ValueError("tree=vectors and the path of a word2vec run or file in vectors need each other")


class AdaptiveOutput(Schema):
    kind: Literal["adaptive-softmax"] = "adaptive-softmax"
    """Clusters of rare words, with fewer dimensions (Grave et al. 2017)."""
    cutoffs: list[Size] = []  # noqa: RUF012 - pydantic copies it
    """Where clusters begin, as ranks by frequency; if not given, where the words before are 80 and 95 % of the text."""
    shrink: Annotated[NonNegative, Field(ge=1.0)] = 4.0
    """By how much each cluster has fewer dimensions than the one before."""

    @field_validator("cutoffs")
    @classmethod
    def cutoffs_rise(cls, cutoffs: list[int]) -> list[int]:
        if sorted(set(cutoffs)) != cutoffs:
            raise ValueError("cutoffs must rise")
        return cutoffs


class SampledConfig(Schema):
    """What layers share that learn from a sample of the vocabulary; all of them evaluate exactly."""

    tied: bool = True
    """Share the matrix with the embedding (through a projection when the sizes differ)."""
    samples: Size = 1024
    """K: words drawn for each batch, shared by all its targets."""
    noise: Literal["unigram", "log-uniform", "ngram"] = "unigram"
    """What they are drawn from: the words' counts to the `power`, or Zipf's law over their ranks."""
    power: Annotated[float, Field(ge=0.0, le=1.0)] = 0.75
    """unigram: 1 draws words as often as they stand in the text, 0 all as often."""


class ProposalConfig(SampledConfig):
    """What layers share whose sample may depend on the words before a target."""

    noise: Literal["unigram", "log-uniform", "ngram"] = "unigram"
    """What they are drawn from: the words' counts to the `power`, Zipf's law over their ranks, or the n-gram model of
    `run`, which knows the words before: then each target has K draws of its own."""
    run: str | None = None
    """ngram: the folder of an n-gram run with the same tokeniser, of order 2 or more. What is needed of it is kept
    with the assets."""
    share: Probability = 0.1
    """ngram: this share of the draws comes from the counts to the `power` all the same, so that any word may come."""

    def check_keys(self) -> None:
        if (self.noise == "ngram") != (self.run is not None):
            raise ValueError("noise=ngram and the folder of an n-gram run in run need each other")


class SampledSoftmaxOutput(ProposalConfig):
    kind: Literal["sampled-softmax"] = "sampled-softmax"
    """Importance sampling: the normaliser estimated from the sample (Bengio & Senécal 2003; Jean et al. 2015)."""


class NoiseContrastiveOutput(ProposalConfig):
    kind: Literal["noise-contrastive"] = "noise-contrastive"
    """Noise-contrastive estimation: tell the word from the sample, no normaliser needed (Mnih & Teh 2012)."""
    normaliser: Literal["one", "learned"] = "one"
    """Z: fixed to one, so that scores learn to be log-probabilities, or a number that is learned."""


class NegativeSamplingOutput(SampledConfig):
    kind: Literal["negative-sampling"] = "negative-sampling"
    """Negative sampling, as word2vec has it (Mikolov et al. 2013)."""
    noise: Literal["unigram", "log-uniform"] = "unigram"
    """What they are drawn from: the words' counts to the `power`, or Zipf's law over their ranks."""


OutputConfig = Annotated[
    SoftmaxOutput
    | ClassOutput
    | TreeOutput
    | AdaptiveOutput
    | SampledSoftmaxOutput
    | NoiseContrastiveOutput
    | NegativeSamplingOutput,
    Field(discriminator="kind"),
]
