"""How matrices begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from seqloom.config.schema.base import Start


@torch.no_grad()
def start_recurrent(weight: Tensor, start: Start) -> None:
    """Fill a recurrent matrix [gates · size, size], each size × size gate block by itself.

    `uniform`: U(-1/√size, 1/√size), the library's. `orthogonal`: a random rotation, all eigenvalues on the unit circle
    (Saxe et al. 2014). `spectral`: Gaussian, divided by its spectral radius, so that the largest |eigenvalue| is 1 and
    a signal neither dies out nor grows over many steps (Jaeger 2001; Sutskever et al. 2013).
    """
    for block in weight.split(weight.size(1)):
        STARTS[start](block)


def _uniform(block: Tensor) -> None:
    bound = block.size(1) ** -0.5
    nn.init.uniform_(block, -bound, bound)


def _spectral(block: Tensor) -> None:
    nn.init.normal_(block)
    block /= torch.linalg.eigvals(block.double()).abs().max()


STARTS: dict[Start, Callable[[Tensor], object]] = {
    "uniform": _uniform,
    "orthogonal": nn.init.orthogonal_,
    "spectral": _spectral,
}


def start_evenly(layer: nn.Linear, parts: Sequence[int] = ()) -> None:
    """Glorot & Bengio 2010: U(-a, a) with a = √(6 / (inputs + outputs)), so that signals keep their variance both ways.

    A layer that makes several things of one input (queries, keys, values) starts as so many `parts`, of these sizes.
    """
    for part in layer.weight.split(list(parts) or [len(layer.weight)]):
        nn.init.xavier_uniform_(part)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def start_small(layer: nn.Linear, deviation: float) -> None:
    """N(0, deviation²), and biases of 0."""
    nn.init.normal_(layer.weight, std=deviation)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
