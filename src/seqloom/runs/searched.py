"""A network as searches use it: on a GPU its steps are recorded, and taken in bf16 where nobody asks for more."""

from __future__ import annotations

from copy import deepcopy
from functools import cached_property
from typing import TypeVar

from seqloom.decoding.graphs import GraphSteps
from seqloom.decoding.protocol import StepModel
from seqloom.errors import UserError
from seqloom.models.conditional import Conditional
from seqloom.models.language import LanguageModel
from seqloom.models.network import Network
from seqloom.runs.generation import Precision
from seqloom.runs.trained import Trained

Copied = TypeVar("Copied", bound=Network)


class Searched(Trained):
    """A trained model whose steps are those of a network."""

    model: LanguageModel | Conditional

    @cached_property
    def steps(self) -> StepModel:
        """The model in float32; on a GPU, its steps are recorded and replayed."""
        return GraphSteps(self.model) if self.device.type == "cuda" else self.model

    @cached_property
    def short_steps(self) -> StepModel:
        """The same by a copy of the model in bf16, which a GPU reads in half the time."""
        return GraphSteps(in_bf16(self.model))

    def steps_in(self, precision: Precision) -> StepModel:
        """The model in a precision; where that is left to it, in the faster one."""
        if self.device.type == "cuda":
            short = takes_bf16(self.model) if precision == "auto" else precision == "bf16"
            return self.short_steps if short else self.steps
        if precision == "bf16":
            raise UserError("bf16 is for GPUs: on a processor it is slower; leave the precision out")
        return self.steps


def takes_bf16(model: Network) -> bool:
    """Whether to compute in bf16 without being asked to: layers that others wrote may keep numbers that need more."""
    ours = all(type(layer).__module__.startswith(("seqloom.", "torch.")) for layer in model.modules())
    return ours and all(weight.is_floating_point() for weight in model.parameters())


def in_bf16(model: Copied) -> Copied:
    """A copy with weights in bf16, to write by; log-probabilities are in float32 still."""
    return deepcopy(model).bfloat16()
