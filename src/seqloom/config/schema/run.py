"""A run: all parts together."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

from pydantic import Field, field_validator, model_validator

from seqloom.config.schema.adversarial import GanConfig
from seqloom.config.schema.base import Count, ModelPart, Positive, Schema
from seqloom.config.schema.bert import BertConfig
from seqloom.config.schema.captioner import CaptionerConfig
from seqloom.config.schema.data import TextData
from seqloom.config.schema.elmo import ElmoConfig
from seqloom.config.schema.energy import BoltzmannConfig, DbnConfig, RbmConfig
from seqloom.config.schema.image_classifier import ImageClassifierConfig
from seqloom.config.schema.interpolation import InterpolationConfig
from seqloom.config.schema.labelling import ClassifierConfig, TaggerConfig
from seqloom.config.schema.language import LanguageModelConfig
from seqloom.config.schema.latent import AutoencoderConfig, MixtureConfig, PcaConfig, VaeConfig
from seqloom.config.schema.ngram import NgramModelConfig
from seqloom.config.schema.reinforcement import RewardedObjective
from seqloom.config.schema.seq2seq import Seq2SeqConfig
from seqloom.config.schema.text import TextConfig, WordText
from seqloom.config.schema.text_to_image import TextToImageConfig
from seqloom.config.schema.text_to_patches import TextToPatchesConfig
from seqloom.config.schema.text_vae import TextVaeConfig
from seqloom.config.schema.training import TrainingConfig
from seqloom.config.schema.word2vec import Word2VecConfig

MODELS: tuple[type[ModelPart], ...] = (
    LanguageModelConfig,
    NgramModelConfig,
    InterpolationConfig,
    Seq2SeqConfig,
    ElmoConfig,
    BertConfig,
    TaggerConfig,
    ClassifierConfig,
    Word2VecConfig,
    TextVaeConfig,
    CaptionerConfig,
    TextToImageConfig,
    TextToPatchesConfig,
    GanConfig,
    ImageClassifierConfig,
    RbmConfig,
    DbnConfig,
    BoltzmannConfig,
    AutoencoderConfig,
    PcaConfig,
    VaeConfig,
    MixtureConfig,
)

if TYPE_CHECKING:  # each kind of run knows the classes of its own parts, and names them where it takes them
    ModelConfig: TypeAlias = Any
    DataConfig: TypeAlias = Any
    ObjectiveConfig: TypeAlias = Any
else:
    DATA = dict.fromkeys(data for model in MODELS for data in (model.learns_from, *model.also_learns_from))
    OBJECTIVES = dict.fromkeys(objective for model in MODELS for objective in model.objectives)
    ModelConfig = Annotated[reduce(or_, MODELS), Field(discriminator="kind")]
    DataConfig = Annotated[reduce(or_, DATA), Field(discriminator="kind")]
    ObjectiveConfig = None | Annotated[reduce(or_, OBJECTIVES), Field(discriminator="kind")]


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
    model: ModelConfig = LanguageModelConfig()
    data: DataConfig = TextData()
    """Where the data comes from; when not given, the kind of data that the model learns from."""
    start: str | None = None
    """A run whose weights, tokenisers and vocabulary this one begins with; `seqloom train RUN` sets it."""
    objective: ObjectiveConfig = None
    """What training maximises; when not given, what is usual for the model. Models that are counted have none."""
    training: TrainingConfig = TrainingConfig()
    engine: EngineConfig = LocalEngine()
    """Where n-grams are counted; `engine=spark` is short for `engine.kind=spark`."""

    @field_validator("engine", mode="before")
    @classmethod
    def named_engine(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    def leaves(self) -> dict[str, Any]:
        """All values by their dotted keys; parts in a list are numbered from 0 on."""
        return _leaves(self.model_dump(mode="json"))

    def idle_limits(self) -> str:
        """The limits of training that mean nothing to a model that is not trained by steps, if any are set."""
        usual, given = TrainingConfig(), self.training
        keys = () if self.model.objectives else ("steps", "epochs", "minutes")
        limits = [key for key in keys if getattr(given, key) not in (None, getattr(usual, key))]
        return " and ".join(f"training.{key}" for key in limits)

    def check_keys(self) -> None:
        model: ModelPart = self.model
        kind = model.kind
        if self.engine.kind == "spark" and kind != "ngram":
            raise ValueError(f"engine spark counts n-grams; a model of kind {kind!r} trains on this machine")
        if getattr(self.data, "apart", False) and kind != "language":
            raise ValueError(f"data.apart is for language models with attention, not for a model of kind {kind!r}")
        known = (model.learns_from, *model.also_learns_from)
        if not isinstance(self.data, known):
            kinds = " or ".join(f"data.kind={data.model_fields['kind'].default}" for data in known)
            raise ValueError(
                f"a model of kind {kind!r} learns from {known[0].noun}: set {kinds}, or "
                f"model.kind={self.data.usual_model}"
            )
        if self.target_text is not None and not model.two_texts:
            raise ValueError(f"target_text is for pairs; a model of kind {kind!r} has one text at most")
        if model.reads_words and self.text.kind not in ("words", "whitespace", "run"):
            raise ValueError(f"a model of kind {kind!r} reads words: set text.kind to words or whitespace")
        if self.start is not None and not model.objectives:
            raise ValueError(f"start: a model of kind {kind!r} is not trained by steps, and begins with no weights")
        if self.training.best in ("bleu", "reward") and not model.writes:
            raise ValueError(f"training.best={self.training.best} is for models that write texts, not for {kind!r}")
        if self.training.best == "reward" and not isinstance(self.objective, RewardedObjective):
            raise ValueError("training.best=reward is for objectives that follow a reward: set it to bleu or loss")
        self._check_objective(model)
        model.check(self)

    def _check_objective(self, model: ModelPart) -> None:
        if not model.objectives and self.objective is not None:
            raise ValueError(f"a model of kind {model.kind!r} is not trained by steps: leave the key objective out")
        if model.objectives and not isinstance(self.objective, model.objectives):
            known = ", ".join(each.model_fields["kind"].default for each in model.objectives)
            raise ValueError(f"a model of kind {model.kind!r} is trained by objective.kind {known}")

    @model_validator(mode="before")
    @classmethod
    def usual_parts(cls, tree: Any) -> Any:
        return with_usual_parts(tree, cls.model_class(tree)) if isinstance(tree, dict) else tree

    @classmethod
    def model_class(cls, tree: dict[str, Any]) -> type[ModelPart] | None:
        """The class of the model's part of a configuration that is still a tree, where its kind is known."""
        part = tree.get("model", cls.model_fields["model"].default)
        kind = part.get("kind", "language") if isinstance(part, dict) else getattr(part, "kind", None)
        return next((each for each in cls.model_parts() if each.model_fields["kind"].default == kind), None)

    @classmethod
    def model_parts(cls) -> tuple[type[ModelPart], ...]:
        """The parts of all kinds of models."""
        return get_args(cls.model_fields["model"].annotation)


def with_usual_parts(tree: dict[str, Any], model: type[ModelPart] | None) -> dict[str, Any]:
    """The tree of a configuration, in which data and objective that do not say their kind are those usual for the
    model; unchanged where the model is not known, which is an error of its own."""
    if model is None:
        return tree
    tree = dict(tree)
    usual = {"data": model.learns_from, "objective": model.objectives[0] if model.objectives else None}
    for key, part in usual.items():
        if part is not None and (tree.get(key) is None or isinstance(tree[key], dict)):
            tree[key] = {"kind": part.model_fields["kind"].default, **(tree.get(key) or {})}
    return tree


def _leaves(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, list) and any(isinstance(each, dict) for each in value):
            value = {str(number): each for number, each in enumerate(value)}
        leaves |= _leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return leaves
