"""A kind of run: how a configuration becomes a trained model. Each stands in a file of its own under `kinds/`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from seqloom.config import RunConfig
from seqloom.config.schema.admission import admit
from seqloom.config.schema.base import ModelPart
from seqloom.config.schema.data import TextData
from seqloom.config.schema.language import LanguageModelConfig
from seqloom.data.materials import with_unit
from seqloom.errors import ConfigError
from seqloom.lazy import named
from seqloom.reports.html import Markup
from seqloom.runs.assets import Assets
from seqloom.runs.folder import RunFolder
from seqloom.runs.stages import Stage
from seqloom.runs.trained import Trained

if TYPE_CHECKING:
    from torch import nn

    from seqloom.runs.contests import Contest
    from seqloom.training import Processes, Reporter

Data = TypeVar("Data")
Kept = TypeVar("Kept", bound=Assets)
Result = TypeVar("Result", bound=Trained)


@dataclass(frozen=True)
class Work(Generic[Data, Kept]):
    """All that the stages of a run work with."""

    config: RunConfig
    data: Data
    assets: Kept
    model: Any
    """What `Kind.build` gave, where the processes run."""
    folder: RunFolder
    processes: Processes
    reporter: Reporter


@dataclass(frozen=True)
class Report:
    """What the page of a run shows beyond what all pages show."""

    figures: dict[str, float] = field(default_factory=dict)
    sections: Sequence[Markup] = ()
    training: Markup | None = None
    """How the model came about, where the usual curves do not say it."""


class Kind(ABC, Generic[Data, Kept, Result]):
    """How a configuration becomes a run, from the data to what `load` gives back."""

    config: ClassVar[type[ModelPart]]
    """The model's part of the configuration."""
    assets: type[Kept]
    """What the run keeps beside its weights."""
    trained: type[Result]
    """What `load` gives back."""
    next_step: ClassVar[str] = "evaluate {run}"
    """The command to try first on a trained run."""
    contest: ClassVar[type[Contest] | None] = None
    """What such runs are compared by, if anything."""
    deterministic: ClassVar[bool] = False
    """Whether every seed gives the same model."""
    needs_torch: ClassVar[bool] = True
    """Whether training takes torch, which then has a seed and a device, and takes seconds to import."""

    def settle(self, config: RunConfig) -> RunConfig:
        """The configuration with everything decided that it leaves to the data: what ends with `<eos>`."""
        return with_unit(config) if isinstance(config.data, TextData) else config

    @abstractmethod
    def prepare(self, config: RunConfig, kept: Kept | None) -> tuple[Data, Kept]:
        """The data to learn from, and the assets; those of a run that goes on are given, and hold."""

    @abstractmethod
    def build(self, config: RunConfig, assets: Kept) -> Any:
        """The model with fresh weights: the only constructor, for training and for loading."""

    def begin(self, model: Any, config: RunConfig, assets: Kept, data: Data) -> Iterable[str]:
        """Give weights that do not begin at random their values, before the first step; says what it did."""
        return ()

    @abstractmethod
    def stages(self, work: Work[Data, Kept]) -> Iterator[Stage]:
        """What is fitted, in order. Each stage is fitted to its end before the next one is asked for."""

    def restore(self, folder: RunFolder, config: RunConfig, assets: Kept, device: str) -> Any:
        """The model of a run folder, with its best weights."""
        from seqloom.nn.linear import settle
        from seqloom.training import choose_device, load_model_weights, load_weights

        model: nn.Module = self.build(config, assets)
        load_model_weights(model, load_weights(folder.weights_file), str(folder.weights_file))
        return settle(model.to(choose_device(device)).eval())

    def open(self, folder: RunFolder, device: str) -> Result:
        """What `load` gives back for a run folder."""
        config = folder.config
        assets = self.assets.load(folder)
        return self.trained(self.restore(folder, config, assets, device), assets, config, folder.path)

    def report(self, trained: Result) -> Report:
        """What the page of a run shows."""
        return Report({name: score.value for name, score in trained.figures().items()})


_KINDS: dict[str, Kind[Any, Any, Any] | str] = {}


def register(kind: Kind[Any, Any, Any]) -> None:
    """Make a kind known that is not part of this package: configurations may name it, and every verb takes its runs."""
    admit(kind.config, LanguageModelConfig)
    _KINDS[kind.config.model_fields["kind"].default] = kind


def register_modules(modules: dict[str, str]) -> None:
    """Make kinds known by the modules that hold them as `KIND`; each is imported on first use."""
    _KINDS.update(modules)


def kind_named(name: str) -> Kind[Any, Any, Any]:
    """The kind of a model's part of a configuration."""
    kind = _KINDS.get(name)
    if kind is None:
        raise ConfigError(f"no kind of run is called {name!r}: import the module that registers it")
    if isinstance(kind, str):
        kind = _KINDS[name] = named(kind)
    return kind


def kind_names() -> list[str]:
    """All kinds that are known."""
    return sorted(_KINDS)
