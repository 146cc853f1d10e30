"""Models that label: the words of a sentence, or the whole of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import Count, ModelPart, Positive, Probability, Schema, Size
from seqloom.config.schema.data import LabelledData, TaggedData
from seqloom.config.schema.objectives import OwnLossObjective

if TYPE_CHECKING:
    from seqloom.config.schema.run import RunConfig


class StaticFeatures(Schema):
    kind: Literal["static"] = "static"
    """One vector per word, whatever stands around it."""
    size: Size = 100
    """Length of a word's vector; with `vectors`, that of theirs."""
    vectors: str | None = None
    """Where the vectors begin: a word2vec run or a file of word vectors. From noise, when not given."""
    frozen: bool = False
    """Leave the vectors as they began."""


class RunFeatures(Schema):
    kind: Literal["run", "elmo"] = "run"
    """Vectors in context of a trained run, ELMo or BERT; `elmo` is an older name of the same."""
    run: str
    """The folder of that run; what is needed of it is copied, and the folder not needed again."""
    frozen: bool = True
    """Leave that network as it is: the vectors of all its layers are computed once, and mixed with learned weights
    (Peters et al. 2018). Otherwise it is fine-tuned (BERT): it becomes a part of this model, is trained along, and
    words have the vectors of its last layer."""
    rate: Positive = 0.1
    """not frozen: its learning rate, as a multiple of that of all else."""
    static: StaticFeatures | None = None
    """Static vectors beside the contextual ones."""


HeadFeatures = Annotated[StaticFeatures | RunFeatures, Field(discriminator="kind")]


class LabellerConfig(ModelPart):
    """What taggers and classifiers share."""

    objectives = (OwnLossObjective,)
    reads_words = True

    features: HeadFeatures = StaticFeatures()
    size: Size = 200
    """Size of the LSTM, both directions together."""


class TaggerConfig(LabellerConfig):
    learns_from = TaggedData

    kind: Literal["tagger"] = "tagger"
    """A tag for every word: features, a bidirectional LSTM, and an output layer over tags."""
    layers: Annotated[Count, Field(le=1000)] = 1
    """Bidirectional LSTM layers; with 0, tags are scored by the features themselves."""
    dropout: Probability = 0.5
    """Dropout on the features and on what the LSTM gives out."""
    output: Literal["softmax", "crf"] = "crf"
    """`softmax`: each tag by itself; `crf`: the best sequence of tags, by a linear-chain conditional random field
    (Lafferty et al. 2001)."""

    def check(self, run: RunConfig) -> None:
        if run.text.kind == "words":
            raise ValueError("a tagger's words stand in its data: set text.kind=whitespace")


class ClassifierConfig(LabellerConfig):
    learns_from = LabelledData

    kind: Literal["classifier"] = "classifier"
    """A label for every text: features, LSTM layers, one vector for all words, and a softmax over labels."""
    layers: Annotated[Count, Field(le=1000)] = 1
    """Bidirectional LSTM layers; 0 pools the features themselves."""
    pooling: Literal["max", "mean"] = "max"
    """How the vectors of all words become one: the largest of each number, or their mean."""
    dropout: Probability = 0.5
    """Dropout on the features and on the pooled vector."""
