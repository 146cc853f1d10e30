"""What `load` gives back: a trained model with what it needs. What it can do stands in `capabilities`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom.config import RunConfig
from seqloom.errors import UserError
from seqloom.runs.capabilities import CAPABILITIES, Continues
from seqloom.runs.evaluation import Evaluation
from seqloom.version import __version__

if TYPE_CHECKING:
    import torch

    from seqloom.metrics.corpus_scores import Scored


class Trained(ABC):
    """A trained model with its configuration and assets."""

    def __init__(self, model: Any, assets: Any, config: RunConfig, path: Path) -> None:
        self.model, self.assets, self.config, self.path = model, assets, config, path

    @abstractmethod
    def figures(self, source: Any = None) -> dict[str, Scored]:
        """How good the model is on the data of `source`, or on the run's test or validation data; each figure with the
        signature that says how it was computed."""

    def evaluate(self, source: Any = None) -> Evaluation:
        """What `seqloom evaluate` prints: the figures of `source`, or of the run's test or validation data."""
        return Evaluation(self.figures(source))

    @property
    def kind(self) -> str:
        """Which kind of model this is."""
        return str(self.config.model.kind)

    @property
    def parameters(self) -> int:
        """How many numbers the model learned; of weights that are tied, each once."""
        return sum(each.numel() for each in self.model.parameters() if each.requires_grad)

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.model.device

    @property
    def verbs(self) -> list[str]:
        """The verbs of the command line that take this run."""
        return [capability.verb for capability in CAPABILITIES if isinstance(self, capability)]

    def lacking(self, what: str) -> LackingError:
        """The error that this run lacks something; it says what there is instead."""
        others = ", ".join(["evaluate", *self.verbs])
        return LackingError(f"{self.path} is a model of kind {self.kind!r}, {what}; it is for: {others}")

    def __repr__(self) -> str:
        """What it is, how large, how good it was at its best validation, and where it lies."""
        from seqloom.runs.log import TrainingLog, headline

        facts = [self.kind, *self.facts]
        if good := headline(self, TrainingLog.of(self.path).best):
            facts.append(good)
        return f"<{type(self).__name__} {self.path}: {', '.join(facts)}>"

    @property
    def facts(self) -> list[str]:
        """What the model is made of and how large it is, each in a few words."""
        from seqloom.data.image_format import ImageFormat
        from seqloom.data.images import look
        from seqloom.text.tokenizer import Tokenizer

        parts = {name: getattr(self.config.model, name, None) for name in ("order", "features", "encoder", "decoder")}
        kinds = {name: getattr(part, "kind", part) for name, part in parts.items()}
        facts = [f"{name} {kind}" for name, kind in kinds.items() if isinstance(kind, str | int)]
        facts.append(f"{self.parameters:,} parameters")
        if isinstance(tokenizer := getattr(self.assets, "tokenizer", None), Tokenizer):
            facts.append(f"vocabulary {tokenizer.size:,}")
        if isinstance(images := getattr(self.assets, "images", None), ImageFormat):
            facts.append(f"images of {look(images.shape)}")
        return facts

    def __dir__(self) -> list[str]:
        """What is meant to be used."""
        return [name for name in super().__dir__() if not name.startswith("_")]

    if not TYPE_CHECKING:  # or no misspelt name would be found before it runs

        def __getattr__(self, name: str) -> Any:
            """What no class of this run has: a sentence, where other kinds of runs have it."""
            if any(name in vars(capability) for capability in (*CAPABILITIES, Continues)):
                raise self.lacking(f"which has no `{name}`")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def signed(self, *parts: str) -> str:
        """A signature: how a figure was computed, in a form to publish beside it."""
        return "; ".join([*parts, f"seqloom {__version__}"])


class LackingError(UserError, AttributeError):
    """Something was asked of a run that it cannot do."""
