"""Mixtures of trained runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import ModelPart, NonNegative
from seqloom.config.schema.data import TextData


class InterpolationConfig(ModelPart):
    learns_from = TextData

    kind: Literal["interpolation"] = "interpolation"
    """A mixture of trained runs that share a tokeniser: p(w | h) = Σ λ_i p_i(w | h)."""
    runs: Annotated[list[str], Field(min_length=2)]
    """The run folders, two or more; they are copied, and not needed again."""
    weights: list[NonNegative] | None = None
    """The λ_i, which sum to 1; when not given, those that make `data.train` (text that no run was trained on) most
    probable."""

    def check_keys(self) -> None:
        if self.weights is not None and len(self.weights) != len(self.runs):
            raise ValueError(f"{len(self.runs)} runs need as many weights, not {len(self.weights)}")
        if self.weights is not None and abs(sum(self.weights) - 1) > 1e-6:
            raise ValueError(f"weights must sum to 1, not {sum(self.weights):g}")
