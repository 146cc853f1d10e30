"""Deep sequence models: embedding, feature and output layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import Layers, ModelPart, Positive, Probability, Schema, Size, Start
from seqloom.config.schema.data import TextData
from seqloom.config.schema.objectives import (
    LikelihoodObjective,
    PairObjective,
    RandomTruncationObjective,
    ScheduledSamplingObjective,
)
from seqloom.config.schema.outputs import OutputConfig, SoftmaxOutput
from seqloom.config.schema.reinforcement import REINFORCEMENT
from seqloom.config.schema.transformer import InnerActivation, PositionKind, WordTransformer

if TYPE_CHECKING:
    from seqloom.config.schema.run import RunConfig

FARTHEST = 1_000_000  # words that convolutions may look back


class EmbeddingConfig(Schema):
    size: Size = 128
    """Length of a word's vector."""
    vectors: str | None = None
    """Where its rows begin: a run of word vectors or a word2vec file, whose vectors have this size."""
    begin_as_end: bool = False
    """`<bos>` reads the vector of `<eos>`: one symbol stands between texts, as in GPT-2 and BART."""
    dropout: Probability = 0.0
    """Dropout on the embedded words; one mask for the whole window (variational) when `variational`."""
    word_dropout: Probability = 0.0
    """Probability that a word type is dropped altogether from a window (embedding dropout)."""
    variational: bool = False
    """One dropout mask for all steps of a window instead of one per step."""
    deviation: Positive | None = None
    """The deviation of its numbers in the beginning, 1/√size when not given. T5 has 1: where no position is added to
    them, smaller vectors are drowned by what the first layers add."""


class AverageFeatures(Schema):
    kind: Literal["average"] = "average"
    """h_t = (1/t) Σ e_i"""


class AttentionAverageFeatures(Schema):
    kind: Literal["attention-average"] = "attention-average"
    """h_t = Σ α_i e_i with α from the last word, each word so far, and their distance"""


class FeedForwardFeatures(Schema):
    kind: Literal["feedforward"] = "feedforward"
    """Bengio et al. 2003: the last `context` words, concatenated, through hidden layers with skip connections."""
    context: Size = 4
    """How many words it sees (N - 1 of an N-gram)."""
    size: Size = 256
    """Size of the hidden layers and of the features."""
    layers: Layers = 1
    """Hidden layers."""
    dropout: Probability = 0.0
    """Dropout on hidden layers and features."""


class ConvolutionFeatures(Schema):
    kind: Literal["convolution"] = "convolution"
    """Causal gated convolutions (Dauphin et al. 2017) with residuals; dilation doubles from layer to layer."""
    size: Size = 256
    """Channels of every layer, and size of the features."""
    layers: Layers = 4
    """Layers; with dilation each doubles how far back they see."""
    kernel: Annotated[Size, Field(ge=2)] = 3
    """How many inputs each output of a layer sees."""
    dilated: bool = True
    """Layer l skips 2^l steps; otherwise all see neighbours."""
    dropout: Probability = 0.0
    """Dropout on what each layer reads and on the features."""

    def check_keys(self) -> None:
        reach = (self.kernel - 1) * (2**self.layers - 1 if self.dilated else self.layers)
        if reach > FARTHEST:
            raise ValueError(f"{self.layers} layers see more than {FARTHEST:,} words back: lower layers or kernel")


class RecurrentFeatures(Schema):
    size: Size = 256
    """Size of the hidden state."""
    layers: Layers = 1
    """Recurrent layers, one above the other."""
    output_size: Size | None = None
    """Size of the last layer, when it differs (to tie a smaller embedding)."""
    dropout: Probability = 0.0
    """Dropout on the output of the last layer."""
    hidden_dropout: Probability = 0.0
    """Dropout between layers."""
    weight_drop: Probability = 0.0
    """DropConnect on the recurrent matrices (Merity et al. 2018)."""
    variational: bool = True
    """One dropout mask for all time steps of a window (Gal & Ghahramani 2016) instead of one per step."""
    start: Start = "uniform"
    """How recurrent matrices begin: `spectral` scales a Gaussian matrix to spectral radius 1, `orthogonal` has all
    eigenvalues on the unit circle, `uniform` is the library's U(-1/√H, 1/√H)."""


class RnnFeatures(RecurrentFeatures):
    kind: Literal["rnn"] = "rnn"
    """Elman 1990."""
    activation: Literal["tanh", "relu"] = "tanh"
    """φ of h_t = φ(W x_t + U h_{t-1} + b)."""


class LstmFeatures(RecurrentFeatures):
    kind: Literal["lstm"] = "lstm"
    """Hochreiter & Schmidhuber 1997, with a forget gate."""


class PeepholeLstmFeatures(RecurrentFeatures):
    kind: Literal["lstm-peephole"] = "lstm-peephole"
    """LSTM whose gates see the cell (Gers & Schmidhuber 2000)."""


class CoupledLstmFeatures(RecurrentFeatures):
    kind: Literal["lstm-coupled"] = "lstm-coupled"
    """LSTM that forgets as much as it takes in (Greff et al. 2017)."""


class GruFeatures(RecurrentFeatures):
    kind: Literal["gru"] = "gru"
    """Cho et al. 2014."""


SomeRecurrentFeatures = RnnFeatures | LstmFeatures | PeepholeLstmFeatures | CoupledLstmFeatures | GruFeatures


class TransformerFeatures(WordTransformer):
    kind: Literal["transformer"] = "transformer"
    """Masked self-attention over all words so far (Vaswani et al. 2017)."""
    positions: PositionKind = "rotary"
    """How attention learns where a word stands."""
    activation: InnerActivation = "gelu"
    """φ of the position-wise network W₂ φ(W₁ x); `gelu-tanh` is the approximation of GPT-2."""


FeaturesConfig = Annotated[
    AverageFeatures
    | AttentionAverageFeatures
    | FeedForwardFeatures
    | ConvolutionFeatures
    | SomeRecurrentFeatures
    | TransformerFeatures,
    Field(discriminator="kind"),
]


class LanguageModelConfig(ModelPart):
    learns_from = TextData
    objectives = (LikelihoodObjective, RandomTruncationObjective, ScheduledSamplingObjective, *REINFORCEMENT)
    writes = True

    kind: Literal["language"] = "language"
    """A deep sequence model: an embedding layer, a feature layer and an output layer."""
    embedding: EmbeddingConfig = EmbeddingConfig()
    features: FeaturesConfig = LstmFeatures()
    output: OutputConfig = SoftmaxOutput()

    def check(self, run: RunConfig) -> None:
        of_pairs = ("label_smoothing", "coverage") if isinstance(run.objective, PairObjective) else ()
        for key in of_pairs:
            if getattr(run.objective, key):
                raise ValueError(f"objective.{key} is for models of pairs and captions: set it to 0")
        if run.data.apart and self.features.kind != "transformer":
            raise ValueError(
                f"data.apart is for features.kind transformer, whose attention can leave words out: features of kind "
                f"{self.features.kind!r} see all that stands before a word"
            )
        if run.data.apart and run.objective.kind != "likelihood":
            raise ValueError(f"data.apart is for objective.kind likelihood, not for {run.objective.kind}")
