"""What networks of several layers are put together with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from torch import nn

from seqloom.nn.linear import Linear

Layer = TypeVar("Layer", bound=nn.Module)


class Layers(nn.ModuleList, Generic[Layer]):
    """A list of modules of one class, which type checkers know of."""

    if TYPE_CHECKING:

        def __init__(self, modules: Iterable[Layer]) -> None: ...

        def __iter__(self) -> Iterator[Layer]: ...


def fit_size(input_size: int, size: int) -> nn.Module:
    """A linear map from vectors of `input_size` to vectors of `size`; where these are equal, none."""
    return Linear(input_size, size) if input_size != size else nn.Identity()
