"""What the models read and how large they are: the same for seqloom and its peers."""

from __future__ import annotations

from dataclasses import dataclass

from seqloom.config.schema.language import LanguageModelConfig
from seqloom.config.schema.text import WordText
from seqloom.data.corpus import Corpus
from seqloom.data.store import TokenStore
from seqloom.text.kinds import train_tokenizer


@dataclass(frozen=True)
class Sizes:
    """Embedding and hidden size are equal, so that the output layer can share the embedding's matrix."""

    size: int
    layers: int
    heads: int
    batch: int
    length: int
    rows: int = 32
    """Sequences generated side by side."""
    generated: int = 128
    """Tokens generated per sequence."""
    near: int = 10
    far: int = 1000
    """The two positions between which the cost of a step is compared."""
    context: int = 4
    """Words that the feed-forward network sees."""
    kernel: int = 3
    """Width of the convolutions."""


CPU = Sizes(size=256, layers=2, heads=4, batch=32, length=64)
GPU = Sizes(size=512, layers=4, heads=8, batch=64, length=256)


@dataclass(frozen=True)
class Text:
    """Shakespeare's plays as words."""

    store: TokenStore
    vocabulary: int


def load_text() -> Text:
    """The bundled plays: words in lower case, those that occur once unknown."""
    corpus = Corpus.open("shakespeare", unit="paragraph")
    tokenizer = train_tokenizer(WordText(lowercase=True, min_count=2), corpus)
    return Text(TokenStore.of(corpus, tokenizer), tokenizer.size)


def model_config(kind: str, sizes: Sizes) -> LanguageModelConfig:
    """The configuration of seqloom's model with features of this kind."""
    features: dict[str, object] = {"kind": kind}
    if kind not in ("average", "attention-average"):  # these have the size of what they average
        features |= {"size": sizes.size, "layers": sizes.layers}
    if kind == "feedforward":
        features["context"] = sizes.context
    if kind == "convolution":
        features["kernel"] = sizes.kernel
    if kind == "transformer":
        features["heads"] = sizes.heads
    return LanguageModelConfig.model_validate({"embedding": {"size": sizes.size}, "features": features})
