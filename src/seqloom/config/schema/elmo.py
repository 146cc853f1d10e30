"""ELMo: contextual word vectors from two language models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import Count, Layers, ModelPart, Probability, Schema, Size
from seqloom.config.schema.data import TextData
from seqloom.config.schema.objectives import OwnLossObjective
from seqloom.config.schema.outputs import OutputConfig, SoftmaxOutput


class WordInput(Schema):
    kind: Literal["words"] = "words"
    """A vector for each word of the vocabulary; all others share that of `<unk>`."""


class CharacterInput(Schema):
    kind: Literal["characters"] = "characters"
    """A word's vector comes from its spelling (Kim et al. 2016), so that no word is unknown."""
    character_size: Size = 16
    """Length of the vector of a character (a byte of UTF-8)."""
    widths: Annotated[list[Size], Field(min_length=1)] = [1, 2, 3, 4, 5]  # noqa: RUF012 - pydantic copies it
    """How many characters the filters see at a time."""
    filters: Annotated[list[Size], Field(min_length=1)] = [16, 32, 64, 96, 128]  # noqa: RUF012
    """How many filters there are of each width."""
    highways: Annotated[Count, Field(le=1000)] = 1
    """Highway layers above the filters (Srivastava et al. 2015)."""
    max_length: Annotated[Size, Field(ge=3)] = 20
    """Bytes of a word that are read, with a mark at its beginning and one at its end; longer words are cut."""

    def check_keys(self) -> None:
        if len(self.widths) != len(self.filters):
            raise ValueError(f"{len(self.widths)} widths need as many counts of filters, not {len(self.filters)}")
        if max(self.widths) > self.max_length:
            raise ValueError(f"a filter of width {max(self.widths)} does not fit into max_length ({self.max_length})")


InputConfig = Annotated[WordInput | CharacterInput, Field(discriminator="kind")]


class ElmoConfig(ModelPart):
    learns_from = TextData
    objectives = (OwnLossObjective,)
    reads_words = True

    kind: Literal["elmo"] = "elmo"
    """A forward and a backward language model that share their input and output layers (Peters et al. 2018)."""
    input: InputConfig = CharacterInput()
    """Where the context-free vector of a word comes from."""
    size: Size = 128
    """Length of the vectors of either direction, in every layer; `embed` gives twice as many numbers."""
    layers: Layers = 2
    """LSTM layers of either direction; from the second on, each adds to what it reads."""
    cells: Size | None = None
    """Memory cells of a layer, when there are more than `size`: what it gives out is then projected (Sak et al. 2014).
    The paper has 4096 cells and a size of 512."""
    dropout: Probability = 0.1
    """Dropout on what every layer reads and on the features."""
    output: OutputConfig = SoftmaxOutput()
    """Which word is next; both directions share it. With characters as input there is no matrix to tie it to."""

    def check_keys(self) -> None:
        if self.input.kind == "characters" and getattr(self.output, "tied", False):
            if "tied" in self.output.model_fields_set:
                raise ValueError(
                    "output.tied shares a matrix of word vectors, and model.input.kind=characters has none"
                )
            self.output = self.output.model_copy(update={"tied": False})
        if getattr(self.output, "noise", None) == "ngram":
            raise ValueError(
                "an n-gram knows the words before, and ELMo reads backwards too: choose another output.noise"
            )
        if self.cells is not None and self.cells <= self.size:
            raise ValueError(f"cells ({self.cells}) must be more than size ({self.size}), or not given")

    @property
    def depth(self) -> int:
        """How many vectors a word has: one by itself, and one of each layer."""
        return self.layers + 1

    @property
    def width(self) -> int:
        """How long these vectors are: both directions one after the other."""
        return 2 * self.size
