"""Sequence-to-sequence models: an encoder, a decoder that may attend to what it encoded, an output layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from seqloom.config.schema.base import Layers, ModelPart, Positive, Probability, Schema, Size
from seqloom.config.schema.data import PairData
from seqloom.config.schema.language import EmbeddingConfig
from seqloom.config.schema.objectives import ScheduledSamplingObjective, TeacherForcingObjective, TextElboObjective
from seqloom.config.schema.outputs import OutputConfig, SampledConfig, SoftmaxOutput
from seqloom.config.schema.reinforcement import REINFORCEMENT
from seqloom.config.schema.tasks import TaskData
from seqloom.config.schema.transformer import WordTransformer

if TYPE_CHECKING:
    from seqloom.config.schema.run import RunConfig

# ----------------------------------------------------------------------------------------------------- attention


class NoAttention(Schema):
    kind: Literal["none"] = "none"
    """Of the source, a recurrent decoder sees one vector; a Transformer or convolution has only its own attention."""


class DotAttention(Schema):
    kind: Literal["dot"] = "dot"
    """e(q, m) = qᵀ m; encoder and decoder need the same size."""


class ScaledDotAttention(Schema):
    kind: Literal["scaled-dot"] = "scaled-dot"
    """e(q, m) = qᵀ m / √d; encoder and decoder need the same size d."""


class BilinearAttention(Schema):
    kind: Literal["bilinear"] = "bilinear"
    """e(q, m) = qᵀ W m (Luong et al. 2015)."""


class HiddenAttention(Schema):
    size: Size = 128
    """Hidden units."""


class AdditiveAttention(HiddenAttention):
    kind: Literal["additive"] = "additive"
    """e(q, m) = vᵀ tanh(W q + U m + b) (Bahdanau et al. 2015)."""


class CoverageAttention(HiddenAttention):
    kind: Literal["coverage"] = "coverage"
    """Additive, and knows how much each place was looked at before (See et al. 2017)."""


class LocationAttention(HiddenAttention):
    kind: Literal["location"] = "location"
    """Additive, and knows where the step before looked (Chorowski et al. 2015)."""
    filters: Size = 10
    """Features of the weights of the step before."""
    width: Size = 31
    """Places around each that they see; an odd number."""


SomeAttention = (
    DotAttention | ScaledDotAttention | BilinearAttention | AdditiveAttention | CoverageAttention | LocationAttention
)
AttentionConfig = Annotated[SomeAttention, Field(discriminator="kind")]
OptionalAttention = Annotated[NoAttention | SomeAttention, Field(discriminator="kind")]

# ------------------------------------------------------------------------------------------------------ encoders

RecurrentKind = Literal["rnn", "lstm", "lstm-peephole", "lstm-coupled", "gru"]


class RecurrentEncoderConfig(Schema):
    kind: RecurrentKind = "lstm"
    """Recurrent layers, of the cells that language models have."""
    size: Size = 256
    """Size of the states, both directions together."""
    layers: Layers = 1
    """Recurrent layers, one above the other."""
    bidirectional: bool = True
    """Read the source both ways; each direction gives half of the states' size."""
    dropout: Probability = 0.0
    """Dropout on what each layer gives out, one mask for the whole sentence."""


class ConvolutionShape(Schema):
    """What convolutional encoders and decoders have."""

    size: Size = 256
    """Channels of every layer."""
    layers: Layers = 4
    """Layers."""
    dropout: Probability = 0.0
    """Dropout on what each layer reads and on what comes out."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    """How the network learns where a word stands."""
    context: Size = 1024
    """The longest sequence with learned positions."""


class ConvolutionEncoderConfig(ConvolutionShape):
    kind: Literal["convolution"] = "convolution"
    """Gated convolutions over the words around each place (Gehring et al. 2017)."""
    kernel: Size = 3
    """How many places each output of a layer sees; an odd number."""


class PooledConvolutionEncoderConfig(ConvolutionShape):
    kind: Literal["pooled-convolution"] = "pooled-convolution"
    """Gated convolutions, each followed by pooling, so that the memory is shorter than the source."""
    layers: Annotated[Layers, Field(le=16)] = 2
    """Layers; each makes the memory `pool` times shorter."""
    kernel: Size = 3
    """How many places each output of a convolution sees; an odd number."""
    pool: Annotated[Size, Field(ge=2, le=1000)] = 2
    """How many places become one after each layer."""
    pooling: Literal["max", "mean"] = "max"
    """What they become: the largest of each number, or the mean. The same over all places is the whole source in one
    vector."""


class TransformerEncoderConfig(WordTransformer):
    kind: Literal["transformer"] = "transformer"
    """Self-attention in which every word sees all words of its sentence (Vaswani et al. 2017)."""


EncoderConfig = Annotated[
    RecurrentEncoderConfig | ConvolutionEncoderConfig | PooledConvolutionEncoderConfig | TransformerEncoderConfig,
    Field(discriminator="kind"),
]

# ------------------------------------------------------------------------------------------------------ decoders


class RecurrentDecoderConfig(Schema):
    kind: RecurrentKind = "lstm"
    """Recurrent layers that begin with what the encoder knows of the whole source."""
    size: Size = 256
    """Size of the states."""
    layers: Layers = 1
    """Recurrent layers, one above the other."""
    dropout: Probability = 0.0
    """Dropout between layers and on the features."""
    attention: OptionalAttention = BilinearAttention()
    """How the decoder looks at the source; `none` for the plain encoder-decoder."""
    attends: Literal["after", "before"] = "after"
    """When it looks: `after` each step, so that what it saw goes to the output alone (Luong et al. 2015), or `before`
    it, so that the step reads what it saw beside the last word (Bahdanau et al. 2015)."""
    summary: Literal["last", "sum"] = "last"
    """What stands for the whole source: the encoder's last state, or the sum of all."""
    feed: bool = False
    """Without attention: read that vector at every step, not only as the state to begin with."""

    def check_keys(self) -> None:
        if self.feed and self.attention.kind != "none":
            raise ValueError("feed is for decoders without attention; set attention.kind to none, or feed to false")
        if self.attends == "before" and self.attention.kind == "none":
            raise ValueError("attends is for decoders with attention; set attention.kind, or attends to after")


class ConvolutionDecoderConfig(ConvolutionShape):
    kind: Literal["convolution"] = "convolution"
    """Gated convolutions over the words so far, attention in every layer (Gehring et al. 2017)."""
    kernel: Annotated[Size, Field(ge=2)] = 3
    """How many words each output of a layer sees."""
    attention: AttentionConfig = DotAttention()
    """How each layer looks at the source."""


class TransformerDecoderConfig(WordTransformer):
    kind: Literal["transformer"] = "transformer"
    """Masked self-attention, and multi-head attention over the source, in every layer (Vaswani et al. 2017)."""
    attention: OptionalAttention = NoAttention()
    """One more look at the source above the last layer, with one attention of another kind: one that knows what was
    covered, say, or a sharp one to copy by."""


DecoderConfig = Annotated[
    RecurrentDecoderConfig | ConvolutionDecoderConfig | TransformerDecoderConfig, Field(discriminator="kind")
]


def attends(decoder: DecoderConfig) -> bool:
    """Whether a decoder looks at single places of its source; a Transformer does so by itself."""
    return decoder.kind == "transformer" or decoder.attention.kind != "none"


# ------------------------------------------------------------------------------------------------------- copying


class NoCopying(Schema):
    kind: Literal["none"] = "none"
    """All words come from the vocabulary."""


class PointerCopying(Schema):
    kind: Literal["pointer"] = "pointer"
    """Words of the source can be copied, also those that the vocabulary does not know (See et al. 2017)."""


class SelectiveCopying(Schema):
    kind: Literal["selective"] = "selective"
    """As `pointer`; besides, a selector learns which words of a source its target uses, and in generation only those
    can be copied (Gehrmann et al. 2018)."""
    threshold: Probability = 0.1
    """Words that the selector finds less probable than this are not copied."""
    weight: Positive = 1.0
    """What the selector's cross-entropy per source word counts beside that of a target word."""


CopyConfig = Annotated[NoCopying | PointerCopying | SelectiveCopying, Field(discriminator="kind")]


# --------------------------------------------------------------------------------------------------------- codes


class NoLatent(Schema):
    kind: Literal["none"] = "none"
    """The target follows from the source alone."""


class NormalLatent(Schema):
    kind: Literal["normal"] = "normal"
    """A code z between encoder and decoder, p(y | x) = ∫ p(z | x) p(y | x, z) dz, with a normal prior that reads the
    source (Zhang et al. 2016); learned by `objective.kind: text-elbo`."""
    size: Size = 32
    """Numbers in a code."""
    test_samples: Size = 50
    """Codes drawn for each pair where log p is estimated by importance sampling."""


LatentConfig = Annotated[NoLatent | NormalLatent, Field(discriminator="kind")]


class ConditionalConfig(ModelPart):
    """What gives sequences a probability given something else, by any decoder."""

    objectives: ClassVar[tuple[type[Schema], ...]] = (TeacherForcingObjective, ScheduledSamplingObjective)

    def check(self, run: RunConfig) -> None:
        if run.objective.coverage and not attends(run.model.decoder):
            raise ValueError(
                "objective.coverage is about where the decoder looks, and with model.decoder.attention.kind=none it "
                "looks nowhere: choose an attention, or set objective.coverage to 0"
            )


class WritingConfig(ConditionalConfig):
    """What writes a target for each source of words or pixels: any decoder, any output layer."""

    objectives = (*ConditionalConfig.objectives, *REINFORCEMENT)
    writes = True

    output: OutputConfig = SoftmaxOutput()


class Seq2SeqConfig(WritingConfig):
    learns_from = PairData
    also_learns_from = (TaskData,)
    objectives = (*WritingConfig.objectives, TextElboObjective)
    two_texts = True

    kind: Literal["seq2seq"] = "seq2seq"
    """p(target | source): an encoder reads the source, a decoder writes the target."""
    embedding: EmbeddingConfig = EmbeddingConfig()
    """Of source and target words; one matrix for both where they share a tokeniser (`target_text` is not given)."""
    encoder: EncoderConfig = RecurrentEncoderConfig()
    decoder: DecoderConfig = RecurrentDecoderConfig()
    copying: CopyConfig = NoCopying()
    latent: LatentConfig = NoLatent()

    def check(self, run: RunConfig) -> None:
        if isinstance(run.data, TaskData):
            self._check_tasks(run)
        bound = isinstance(run.objective, TextElboObjective)
        if bound != (self.latent.kind == "normal"):
            raise ValueError("model.latent.kind=normal and objective.kind=text-elbo need each other")
        if bound:
            self._check_latent()
            return
        super().check(run)
        if self.copying.kind == "none":
            return
        if not attends(self.decoder):
            raise ValueError(
                "model.copying copies what the decoder looks at, and with model.decoder.attention.kind=none it looks "
                "nowhere: choose an attention, or set model.copying.kind to none"
            )
        if isinstance(self.encoder, PooledConvolutionEncoderConfig):
            raise ValueError(
                "model.copying copies single words, and a place of model.encoder.kind=pooled-convolution is several: "
                "choose another encoder, or set model.copying.kind to none"
            )
        if run.target_text is not None:
            raise ValueError("copying needs one tokeniser for source and target: leave target_text out")
        if run.objective.label_smoothing:
            raise ValueError("objective.label_smoothing is for models without copying: set it to 0")
        if isinstance(self.output, SampledConfig):
            raise ValueError(f"{self.output.kind} learns from few words; copying needs the probabilities of all")

    def _check_tasks(self, run: RunConfig) -> None:
        """What tasks cannot be learned with: their texts are one language, and what is taken out has no references."""
        if run.target_text is not None:
            raise ValueError("all tasks share one tokeniser: leave target_text out")
        if self.copying.kind != "none":
            raise ValueError("model.copying is for pairs: set model.copying.kind to none, or data.kind to pairs")
        if isinstance(run.objective, REINFORCEMENT) or run.training.best not in ("auto", "loss"):
            raise ValueError(
                "tasks are learned by likelihood: set objective.kind=teacher-forcing and training.best=loss, and go on "
                "from the run with data.kind=pairs"
            )

    def _check_latent(self) -> None:
        """What a bound cannot be had with."""
        if self.copying.kind != "none":
            raise ValueError("model.latent is for models without copying: set model.copying.kind to none")
        if isinstance(self.output, SampledConfig):
            raise ValueError(
                f"{self.output.kind} learns from few words, and the bound weighs log p of the words against the KL "
                "divergence: use softmax, class-softmax, tree-softmax or adaptive-softmax"
            )
