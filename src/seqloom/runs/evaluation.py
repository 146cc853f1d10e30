"""What `evaluate` gives back, for every kind of run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqloom.errors import did_you_mean
from seqloom.reports.numbers import figure_name
from seqloom.version import __version__

if TYPE_CHECKING:
    from seqloom.metrics.corpus_scores import Scored
    from seqloom.metrics.minimal_pairs import Preferences


PHENOMENON = "phenomenon: "
"""What stands before the name of a phenomenon among figures."""


@dataclass(frozen=True, repr=False)
class Evaluation:
    """How good a model is: figures by name, each with the signature that says how it was computed.

    The value of a figure is an attribute too: `found.perplexity`, `found.exact_match`. Printed, it is what
    `seqloom evaluate` prints.
    """

    scores: dict[str, Scored]

    def as_dict(self) -> dict[str, float]:
        """The values alone."""
        return {name: score.value for name, score in self.scores.items()}

    def __getattr__(self, name: str) -> float:
        if name.startswith("_") or name == "scores":  # asked for before there is anything, when copied
            raise AttributeError(name)
        values = {_attribute(figure): value for figure, value in self.as_dict().items()}
        if name not in values:
            raise AttributeError(f"there is no figure {name!r}{did_you_mean(name, values)}")
        return values[name]

    def __dir__(self) -> list[str]:
        return [*(name for name in super().__dir__() if not name.startswith("_")), *map(_attribute, self.scores)]

    def __repr__(self) -> str:
        shown = ", ".join(f"{_attribute(name)}={shown_figure(value)}" for name, value in self.as_dict().items())
        return f"{type(self).__name__}({shown})"

    def __str__(self) -> str:
        return figures_table(self.scores)


@dataclass(frozen=True, repr=False)
class KnowledgeEvaluation(Evaluation):
    """What a model knows of a language, by minimal pairs."""

    preferences: Preferences

    @classmethod
    def of(cls, preferences: Preferences, how: str) -> KnowledgeEvaluation:
        """The figures, and below them those of each phenomenon; `how` says what sentences were compared by."""
        from seqloom.metrics.corpus_scores import Scored

        signature = f"per cent of minimal pairs; {how}; a tie is wrong; seqloom {__version__}"
        figures = {
            "accuracy": preferences.accuracy,
            "mean_over_phenomena": preferences.mean,
            "pairs": preferences.pairs,
            "ties": preferences.ties,
            **{f"{PHENOMENON}{name}": accuracy for name, accuracy in preferences.accuracies.items()},
        }
        return cls({name: Scored(value, signature) for name, value in figures.items()}, preferences)


def figures_table(scores: Mapping[str, Scored]) -> str:
    """Figures one below the other, then how they were computed, each signature once."""
    rows = [(figure_name(name), shown_figure(score.value)) for name, score in scores.items()]
    rows += [("signature", signature) for signature in dict.fromkeys(score.signature for score in scores.values())]
    width = max(20, *(len(name) for name, _ in rows))
    return "\n".join(f"{name:{width}} {shown}" for name, shown in rows)


def shown_figure(value: float) -> str:
    """A figure as a person reads it."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def _attribute(figure: str) -> str:
    """The name of a figure as one of Python's."""
    return re.sub(r"\W", "_", figure)
