"""What all parts of the schema share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from seqloom.config.schema.run import RunConfig

# Every number has an upper bound, far beyond use, so that no slip of the keyboard ends in a lack of memory or of bits.
Size = Annotated[int, Field(ge=1, le=1_000_000)]  # what memory is taken for: widths, rows, samples
Layers = Annotated[int, Field(ge=1, le=1000)]
Times = Annotated[int, Field(ge=1, le=10**15)]  # what is only counted: steps, tokens
Count = Annotated[int, Field(ge=0, le=10**15)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Fraction = Annotated[float, Field(gt=0.0, lt=1.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0, le=1e9)]
NonNegative = Annotated[float, Field(ge=0.0, le=1e9)]
Start = Literal["spectral", "orthogonal", "uniform"]


class Schema(BaseModel):
    # What docstrings under the fields say is read where the page of all keys is written: it takes a tenth of a second.
    model_config = ConfigDict(extra="forbid", validate_default=True, allow_inf_nan=False, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def usual_kinds(cls, tree: Any) -> Any:
        """Where a part is given without its kind, that of the default is meant."""
        for name, field in cls.model_fields.items():
            usual = getattr(field.default, "kind", None)
            if usual and isinstance(tree, dict) and isinstance(tree.get(name), dict):
                tree = {**tree, name: {"kind": usual, **tree[name]}}
        return tree

    @model_validator(mode="after")
    def checked(self) -> Self:
        self.check_keys()
        return self

    def check_keys(self) -> None:
        """Raise a ValueError where keys of this part do not fit each other."""


class DataPart(Schema):
    """Where data comes from. Each kind says what it is and which model to think of first."""

    kind: str
    noun: ClassVar[str]
    """What a model learns from: text, pairs, images, ..."""
    usual_model: ClassVar[str]
    """The kind of model that one would train on it."""


class ModelPart(Schema):
    """The model's part of a configuration. It says which data, text and objectives the model takes."""

    kind: str
    learns_from: ClassVar[type[DataPart]]
    also_learns_from: ClassVar[tuple[type[DataPart], ...]] = ()
    """Other data that it can be given, besides what is usual."""
    objectives: ClassVar[tuple[type[Schema], ...]] = ()
    """What training may maximise, the usual one first; none for models that are counted or computed at once."""
    reads_words: ClassVar[bool] = False
    """Whether text must be split into whole words."""
    two_texts: ClassVar[bool] = False
    """Whether `target_text` may be given: a second tokeniser, for what the model writes."""
    writes: ClassVar[bool] = False
    """Whether it writes texts that can be compared with others."""
    may_change: ClassVar[tuple[str, ...]] = ()
    """Keys of this part that may change when a run goes on."""
    figures: ClassVar[dict[str, str]] = {
        "valid_reward": "reward {:.4g}",
        "valid_accuracy": "accuracy {:.2f} %",
        "valid_perplexity": "perplexity {:.2f}",
        "valid_loss": "loss {:.4f}",
    }
    """The figures of a validation that say how good a model is, of which the first that is there counts; each with what
    people call it, and its number."""

    def check(self, run: RunConfig) -> None:
        """Raise a ValueError where this model does not fit another part of the run."""
