"""A run: all parts together."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from seqloom.config.schema.adversarial import GanConfig
from seqloom.config.schema.base import Count, Positive, Schema
from seqloom.config.schema.captioner import CaptionerConfig
from seqloom.config.schema.data import CaptionData, DataConfig, ImageData, LabelledData, PairData, TaggedData, TextData
from seqloom.config.schema.elmo import ElmoConfig
from seqloom.config.schema.energy import BoltzmannConfig, DbnConfig, RbmConfig
from seqloom.config.schema.image_classifier import ImageClassifierConfig
from seqloom.config.schema.interpolation import InterpolationConfig
from seqloom.config.schema.labelling import ClassifierConfig, TaggerConfig
from seqloom.config.schema.language import LanguageModelConfig
from seqloom.config.schema.latent import LatentConfig, MixtureConfig
from seqloom.config.schema.ngram import NgramModelConfig
from seqloom.config.schema.objectives import LikelihoodObjective, ObjectiveConfig, PairObjective
from seqloom.config.schema.outputs import SampledConfig
from seqloom.config.schema.seq2seq import Seq2SeqConfig
from seqloom.config.schema.text import TextConfig, WordText
from seqloom.config.schema.text_to_image import TextToImageConfig
from seqloom.config.schema.text_vae import TextVaeConfig
from seqloom.config.schema.training import TrainingConfig
from seqloom.config.schema.word2vec import Word2VecConfig

ImageModelConfig = GanConfig | ImageClassifierConfig | RbmConfig | DbnConfig | BoltzmannConfig | LatentConfig
"""What learns from images."""

ModelConfig = Annotated[
    LanguageModelConfig
    | NgramModelConfig
    | InterpolationConfig
    | Seq2SeqConfig
    | ElmoConfig
    | TaggerConfig
    | ClassifierConfig
    | Word2VecConfig
    | TextVaeConfig
    | CaptionerConfig
    | TextToImageConfig
    | ImageModelConfig,
    Field(discriminator="kind"),
]


class LocalEngine(Schema):
    kind: Literal["local"] = "local"
    """This machine, all its cores."""
    memory: Positive = 4.0
    """How many gigabytes of memory the arrays of counting may take; those that do not fit are files on disk."""


class SparkEngine(Schema):
    kind: Literal["spark"] = "spark"
    """Apache Spark (needs the `spark` extra and Java)."""
    master: str | None = None
    """The cluster: `spark://host:7077`, `yarn`, `local[2]`, ...; when not given, what spark-submit says, or this
    machine."""


EngineConfig = Annotated[LocalEngine | SparkEngine, Field(discriminator="kind")]


class RunConfig(Schema):
    """Everything that makes a run."""

    description: str = ""
    """One line that `seqloom presets` shows."""
    seed: Count = 0
    """Weights, dropout and the order of windows follow from it."""
    text: TextConfig = WordText()
    """How text becomes tokens; for pairs, that of the source, and of the target too unless `target_text` is given."""
    target_text: TextConfig | None = None
    """Pairs: how the target becomes tokens, where it has a tokeniser of its own."""
    data: DataConfig = TextData()
    model: ModelConfig = LanguageModelConfig()
    objective: ObjectiveConfig = LikelihoodObjective()
    training: TrainingConfig = TrainingConfig(epochs=1)
    engine: EngineConfig = LocalEngine()
    """Where n-grams are counted; `engine=spark` is short for `engine.kind=spark`."""

    @field_validator("engine", mode="before")
    @classmethod
    def named_engine(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def parts_fit(self) -> RunConfig:
        kind = self.model.kind
        if self.engine.kind == "spark" and kind != "ngram":
            raise ValueError(f"engine spark counts n-grams; a model of kind {kind!r} trains on this machine")
        if isinstance(self.model, Seq2SeqConfig):
            self._fit_pairs(self.model)
        elif isinstance(self.model, TaggerConfig | ClassifierConfig):
            self._fit_labels(self.model)
        elif isinstance(self.model, CaptionerConfig):
            self._fit_captions(self.model)
        elif isinstance(self.model, TextToImageConfig):
            self._fit_drawing()
        elif isinstance(self.model, ImageModelConfig):
            self._fit_images()
        elif isinstance(self.data, ImageData):
            raise ValueError(f"a model of kind {kind!r} does not learn from images: set data.kind=text")
        elif isinstance(self.data, CaptionData):
            raise ValueError(f"a model of kind {kind!r} learns from text: set data.kind=text, or model.kind=captioner")
        elif isinstance(self.data, TaggedData | LabelledData):
            other = "tagger" if isinstance(self.data, TaggedData) else "classifier"
            raise ValueError(f"a model of kind {kind!r} learns from text: set data.kind=text, or model.kind={other}")
        elif isinstance(self.data, PairData):
            raise ValueError(f"a model of kind {kind!r} learns from text: set data.kind=text, or model.kind=seq2seq")
        elif isinstance(self.objective, PairObjective):
            raise ValueError(f"objective {self.objective.kind} is for pairs; a model of kind {kind!r} needs likelihood")
        elif self.target_text is not None:
            raise ValueError(f"target_text is for pairs; a model of kind {kind!r} has one text")
        elif isinstance(self.model, TextVaeConfig) and self.objective != LikelihoodObjective():
            raise ValueError(f"a model of kind {kind!r} has its own objective: leave the key objective out")
        if isinstance(self.model, ElmoConfig | TaggerConfig | ClassifierConfig):
            self._fit_words()
        return self

    def _fit_words(self) -> None:
        """What reads whole words, and is trained by its own likelihood."""
        kind = self.model.kind
        if self.text.kind not in ("words", "whitespace", "run"):
            raise ValueError(f"a model of kind {kind!r} reads words: set text.kind to words or whitespace")
        if self.objective != LikelihoodObjective():
            raise ValueError(f"a model of kind {kind!r} is trained by plain likelihood: set objective.kind=likelihood")

    def _fit_images(self) -> None:
        kind = self.model.kind
        if not isinstance(self.data, ImageData):
            raise ValueError(f"a model of kind {kind!r} learns from images: set data.kind=images")
        if isinstance(self.model, MixtureConfig) and self.data.values == "grey":
            raise ValueError("a mixture of Bernoullis has pixels of 0 and 1: set data.values to binary or sampled")
        if self.objective != LikelihoodObjective():
            raise ValueError(f"a model of kind {kind!r} has its own objective: leave the key objective out")
        if self.target_text is not None:
            raise ValueError(f"target_text is for pairs; a model of kind {kind!r} reads images")
        if isinstance(self.model, DbnConfig | BoltzmannConfig) and self.data.values == "grey":
            raise ValueError(f"a model of kind {kind!r} has pixels of 0 and 1: set data.values to binary or sampled")
        if isinstance(self.model, RbmConfig) and (self.model.visible == "gaussian") != (self.data.values == "grey"):
            raise ValueError(
                f"{self.model.visible} visible units do not fit data.values {self.data.values}: bernoulli units need "
                "binary or sampled, gaussian units need grey"
            )

    def _fit_labels(self, model: TaggerConfig | ClassifierConfig) -> None:
        wanted = TaggedData if isinstance(model, TaggerConfig) else LabelledData
        if not isinstance(self.data, wanted):
            named = wanted.model_fields["kind"].default
            raise ValueError(f"a model of kind {model.kind!r} learns from {named} data: set data.kind={named}")
        if isinstance(model, TaggerConfig) and self.text.kind == "words":
            raise ValueError("a tagger's words stand in its data: set text.kind=whitespace")
        if self.target_text is not None:
            raise ValueError(f"target_text is for pairs; a model of kind {model.kind!r} has one text")

    def _fit_pairs(self, model: Seq2SeqConfig) -> None:
        if not isinstance(self.data, PairData):
            raise ValueError("a model of kind 'seq2seq' learns from pairs: set data.kind=pairs")
        objective = self._fit_targets(model)
        if model.copying.kind != "none" and self.target_text is not None:
            raise ValueError("copying needs one tokeniser for source and target: leave target_text out")
        if model.copying.kind != "none" and objective.label_smoothing:
            raise ValueError("objective.label_smoothing is for models without copying: set it to 0")
        if isinstance(model.output, SampledConfig) and model.copying.kind != "none":
            raise ValueError(f"{model.output.kind} learns from few words; copying needs the probabilities of all")

    def _fit_captions(self, model: CaptionerConfig) -> None:
        if not isinstance(self.data, CaptionData):
            raise ValueError("a model of kind 'captioner' learns from images with captions: set data.kind=captions")
        self._fit_targets(model)
        if self.target_text is not None:
            raise ValueError("target_text is for pairs; a captioner's only text is that of the captions: set text")

    def _fit_drawing(self) -> None:
        kind = self.model.kind
        if not isinstance(self.data, CaptionData):
            raise ValueError(f"a model of kind {kind!r} learns from images with captions: set data.kind=captions")
        if self.objective != LikelihoodObjective():
            raise ValueError(f"a model of kind {kind!r} has its own objective: leave the key objective out")
        if self.target_text is not None:
            raise ValueError(f"target_text is for pairs; a model of kind {kind!r} reads captions: set text")

    def _fit_targets(self, model: Seq2SeqConfig | CaptionerConfig) -> PairObjective:
        """What writes a target for each source; its objective."""
        if not isinstance(self.objective, PairObjective):
            raise ValueError(
                f"a model of kind {model.kind!r} needs objective.kind teacher-forcing or scheduled-sampling"
            )
        if isinstance(model.output, SampledConfig) and self.objective.label_smoothing:
            raise ValueError(f"{model.output.kind} learns from few words: set objective.label_smoothing to 0")
        return self.objective

    @property
    def text_data(self) -> TextData:
        """The data of a model that learns from text."""
        assert isinstance(self.data, TextData)
        return self.data

    @property
    def image_data(self) -> ImageData:
        """The data of a model of images."""
        assert isinstance(self.data, ImageData)
        return self.data

    @property
    def caption_data(self) -> CaptionData:
        """The data of a model of images with captions."""
        assert isinstance(self.data, CaptionData)
        return self.data

    @property
    def labelled_data(self) -> TaggedData | LabelledData:
        """The data of a model that learns from tags or labels."""
        assert isinstance(self.data, TaggedData | LabelledData)
        return self.data

    @property
    def pair_data(self) -> PairData:
        """The data of a model that learns from pairs."""
        assert isinstance(self.data, PairData)
        return self.data
