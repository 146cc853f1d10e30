"""Ways through the space of codes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.distributions import Normal

REACH = 3.0  # a traversal goes so many deviations down and up
QUANTILE = 0.05  # a map of the plane goes from this one to the opposite one


Way = Literal["linear", "spherical"]
"""How to go from one code to another."""


def path_between(way: Way, first: Tensor, second: Tensor, steps: int) -> Tensor:
    """Codes from the first to the second, both included, by the way of that name: [..., size] -> [..., steps, size]"""
    return (spherical if way == "spherical" else linear)(first, second, steps)


def linear(first: Tensor, second: Tensor, steps: int) -> Tensor:
    """(1 - t) a + t b for t from 0 to 1: [..., size] twice -> [..., steps, size]"""
    t = torch.linspace(0, 1, steps).to(first).unsqueeze(-1)
    return (1 - t) * first.unsqueeze(-2) + t * second.unsqueeze(-2)


def spherical(first: Tensor, second: Tensor, steps: int) -> Tensor:
    """(sin((1 - t) ω) a + sin(t ω) b) / sin ω with ω the angle between a and b (Shoemake 1985).

    Codes of many numbers from a normal distribution lie near a sphere: this path stays near it, where the linear one
    cuts through the empty middle. Between codes that point the same way, or opposite ways, it is the linear one.
    """
    cosine = torch.cosine_similarity(first, second, dim=-1).clamp(-1, 1)
    angle = cosine.acos().unsqueeze(-1).unsqueeze(-1)
    sine = angle.sin()
    t = torch.linspace(0, 1, steps).to(first).unsqueeze(-1)
    arc = ((1 - t) * angle).sin() * first.unsqueeze(-2) + (t * angle).sin() * second.unsqueeze(-2)
    flat = sine < 1e-3  # arcs of this little angle, or of π less it, are lost in rounding
    return torch.where(flat, linear(first, second, steps), arc / sine.masked_fill(flat, 1.0))


def traversal(code: Tensor, places: list[int], steps: int, reach: float, mean: Tensor, deviation: Tensor) -> Tensor:
    """One number of a code [size] at a time moved from `reach` deviations below its mean to as many above.

    mean, deviation: of each number, [size]. Gives [places, steps, size].
    """
    moved = code.expand(len(places), steps, -1).clone()
    way = torch.linspace(-reach, reach, steps).to(code)
    for row, place in enumerate(places):
        moved[row, :, place] = mean[place] + way * deviation[place]
    return moved


def plane(code: Tensor, places: tuple[int, int], steps: int) -> Tensor:
    """A grid over two numbers of a code [size], spaced by the quantiles of the normal prior: [steps * steps, size]"""
    quantiles = Normal(0.0, 1.0).icdf(torch.linspace(QUANTILE, 1 - QUANTILE, steps)).to(code)
    grid = code.expand(steps, steps, -1).clone()
    grid[:, :, places[0]] = quantiles.flip(0).unsqueeze(1)
    grid[:, :, places[1]] = quantiles.unsqueeze(0)
    return grid.flatten(0, 1)
