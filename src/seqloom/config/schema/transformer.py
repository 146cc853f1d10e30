"""What Transformers have in common, whatever they read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import Count, Layers, Positive, Probability, Schema, Size

InnerActivation = Literal["relu", "squared-relu", "gelu", "gelu-tanh", "silu"]
PositionKind = Literal["sinusoidal", "sinusoidal-halves", "learned", "rotary", "relative"]


class TransformerShape(Schema):
    """What all Transformers have, those that read words and those that read pieces of an image."""

    size: Size = 256
    """Size of the vectors between layers, and of what comes out; a multiple of `heads`, unless `head_size` is given."""
    layers: Layers = 4
    """Layers, each attention and a position-wise network."""
    heads: Size = 4
    """Attention heads."""
    head_size: Size | None = None
    """Size of the queries, keys and values of a head; size / heads when not given."""
    key_value_heads: Size | None = None
    """Heads of keys and values, each shared by equally many heads of queries (Ainslie et al. 2023, as in Llama); as
    many as `heads` when not given."""
    feedforward: Size | None = None
    """Width of the inner layer; 4 × size when not given."""
    dropout: Probability = 0.0
    """Dropout on inputs, attention weights and sub-layers."""
    norm: Literal["pre", "post"] = "pre"
    """`pre`: normalise what a sub-layer reads; `post`: normalise the sum, as in the paper of 2017."""
    normalisation: Literal["layer", "rms"] = "layer"
    """`layer`: to mean 0 and variance 1 (Ba et al. 2016); `rms`: to mean square 1 (Zhang & Sennrich 2019)."""
    epsilon: Positive = 1e-5
    """What is added to the variance, or to the mean square, before its root is taken."""
    embedding_norm: bool = False
    """Normalise what the first layer reads, positions included (BERT)."""
    bias: bool = True
    """Whether attention, position-wise networks and layer norms have biases (T5 has none)."""
    activation: InnerActivation = "relu"
    """φ of the position-wise network W₂ φ(W₁ x). `gelu-tanh` is the approximation of GPT-2; `squared-relu` is
    max(0, x)² (So et al. 2021)."""
    gated: bool = False
    """A position-wise network with a gate, W₂ (φ(W₁ x) ⊗ V x) (Shazeer 2020): with `gelu` GEGLU, with `gelu-tanh` that
    of T5 1.1, with `silu` SwiGLU."""
    scaled_scores: bool = True
    """Divide the scores of attention by the root of the head's size (T5 does not)."""
    query_key_norm: bool = False
    """Normalise the queries and keys of each head, so that scores stay bounded (Dehghani et al. 2023)."""

    @property
    def size_per_head(self) -> int:
        """Size of the queries, keys and values of a head."""
        return self.head_size or self.size // self.heads

    @property
    def inner_size(self) -> int:
        """Width of the inner layer of the position-wise network."""
        return self.feedforward or 4 * self.size

    @property
    def memory_heads(self) -> int:
        """Heads of keys and values."""
        return self.key_value_heads or self.heads

    def check_keys(self) -> None:
        if self.heads % self.memory_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of key_value_heads ({self.memory_heads})")
        if self.head_size is None and self.size % self.heads:
            raise ValueError(f"size ({self.size}) must be a multiple of heads ({self.heads})")


class WordTransformer(TransformerShape):
    """A Transformer that reads words."""

    positions: PositionKind = "sinusoidal"
    """How attention learns where a word stands: waves added to the vectors (sines and cosines take turns, or stand in
    two `halves` as in Marian), a learned vector added for each place, queries and keys turned by their place
    (`rotary`), or a learned bias for each distance (`relative`, as in T5)."""
    context: Size = 1024
    """The longest sequence with learned positions."""
    first_position: Annotated[Count, Field(le=1000)] = 0
    """learned: so many vectors stand before that of the first place, and are never read (BART has two of them)."""
    rotary_base: Positive = 10000.0
    """rotary: the slowest plane turns by about 1 / `rotary_base` with each place (Llama 3 has 500,000)."""
    relative_buckets: Annotated[Size, Field(ge=4)] = 32
    """relative: how many biases a head has; distances share them."""
    relative_reach: Annotated[Size, Field(ge=2)] = 128
    """relative: from this distance on, all share one."""

    def check_keys(self) -> None:
        super().check_keys()
        if self.positions == "rotary" and self.size_per_head % 2:
            raise ValueError(f"rotary positions need an even size per head, not {self.size_per_head}")
        if self.relative_reach <= self.relative_buckets // 2:
            buckets = f"relative_buckets ({self.relative_buckets})"
            raise ValueError(f"relative_reach ({self.relative_reach}) must be above half of {buckets}")
