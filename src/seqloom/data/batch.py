"""What every batch can do: move to a device, give some of its rows, and say which examples it has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from seqloom.text.special import BOS, PAD

Numbers = NDArray[np.int64]
"""Of examples in their store."""


@dataclass(frozen=True)
class Batch(ABC):
    """Some examples as a model reads them: the base of all batches, each of which says what its fields are.

    A field has a row for each example, or is None. Tensors move with `to`; arrays stay on the processor.
    """

    numbers: Numbers = field(default_factory=lambda: np.zeros(0, np.int64), kw_only=True)
    """[rows]: of the examples in their store; none in a batch that was put together by hand."""

    counted: ClassVar[tuple[str, ...]] = ()
    """What is computed from the values of tensors, once and before they move: a GPU would have to be waited for."""

    @property
    @abstractmethod
    def tokens(self) -> int:
        """How many predictions there are to make: what a loss is divided by."""

    @property
    def unit(self) -> str:
        """What a person calls these: tokens, images, texts."""
        return "tokens"

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return next(value.device for value in vars(self).values() if isinstance(value, Tensor))

    def to(self, device: torch.device) -> Self:
        """The same batch on `device`."""
        if self.device == device:
            return self
        for name in self.counted:
            getattr(self, name)  # from here on it is among `vars`, and moves with the fields
        return self.map(partial(sent, device=device))

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same batch with `change` applied to every tensor."""
        changed = copy(self)
        vars(changed).update({name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)})
        return changed

    def fill(self, other: Self) -> None:
        """Put another batch's values, of the same shapes, into the tensors of this one, where they are."""
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                value.copy_(ready_for(value.device, getattr(other, name)), non_blocking=True)

    def rows(self, first: int, last: int) -> Self:
        """The rows from `first` up to `last`: one process's part of a batch that all of them draw."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(self, **{name: value[first:last] for name, value in values.items() if value is not None})


class PaddedBatch(Batch):
    """A batch with words to predict, `targets` [rows, time], padded with `<pad>`."""

    targets: Tensor
    counted = ("tokens", "places")

    @cached_property
    def places(self) -> Tensor:
        """[tokens]: where the targets that are not padding stand, row after row."""
        return places_of(self.targets)

    @cached_property
    def tokens(self) -> int:
        """How many targets there are to predict, padding left out."""
        return len(self.places)


def places_of(tokens: Tensor) -> Tensor:
    """[n]: where those of tokens [rows, time] stand that are not padding, row after row."""
    return (tokens.flatten() != PAD).nonzero().squeeze(1)


def sent(value: Tensor, device: torch.device) -> Tensor:
    """A tensor on its way to `device`."""
    return ready_for(device, value).to(device, non_blocking=True)


def ready_for(device: torch.device, value: Tensor) -> Tensor:
    """To a GPU a tensor goes from pinned memory: from other memory, the copy would wait for all that is under way."""
    return value.pin_memory() if device.type == "cuda" and value.device.type == "cpu" else value


def shifted(targets: Tensor) -> Tensor:
    """What a decoder reads before each of targets [rows, T]: `<bos>`, then the target before; padding stays."""
    inputs = torch.full_like(targets, BOS)
    inputs[:, 1:] = targets[:, :-1]
    inputs[targets == PAD] = PAD
    return inputs


def recent(inputs: Tensor, number: int) -> Tensor:
    """The last words read at each step of inputs [rows, time], oldest first: [rows, time, number].

    `<pad>` stands for what lies before the first input.
    """
    if not number:
        return inputs.new_empty(*inputs.shape, 0)
    return F.pad(inputs, (number - 1, 0), value=PAD).unfold(1, number, 1)
