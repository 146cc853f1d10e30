"""k-means: a few points that stand for many."""

from __future__ import annotations

import torch
from torch import Tensor

TOGETHER = 1 << 24  # distances held at once: 64 megabytes


def k_means(points: Tensor, count: int, iterations: int, seed: int = 0) -> Tensor:
    """Centres c_1, ..., c_K of points [n, size] with a small Σ_i min_k ‖x_i - c_k‖²: [count, size].

    Lloyd's algorithm (1982): each point joins its nearest centre, each centre moves to the mean of its points, until
    nothing changes, or `iterations` times. There are fewer centres where there are fewer different points.
    """
    centres = spread(points, count, torch.Generator().manual_seed(seed))
    owners = nearest(points, centres)
    for _ in range(iterations):
        members = torch.bincount(owners, minlength=len(centres))
        sums = torch.zeros_like(centres).index_add_(0, owners, points)
        centres = torch.where(members[:, None] > 0, sums / members.clamp(min=1)[:, None], centres)
        before, owners = owners, nearest(points, centres)
        if torch.equal(before, owners):
            break
    return centres


def spread(points: Tensor, count: int, random: torch.Generator) -> Tensor:
    """Points to begin with, far from each other: each is drawn with the square of its distance from those before it
    (k-means++, Arthur & Vassilvitskii 2007)."""
    chosen = [int(torch.randint(len(points), (1,), generator=random))]
    distances = (points - points[chosen[0]]).square().sum(1)
    while len(chosen) < count:
        cumulative = distances.cumsum(0, dtype=torch.float64)
        if not cumulative[-1] > 0:  # every point is a centre already
            break
        drawn = torch.rand(1, generator=random, dtype=torch.float64) * cumulative[-1]
        chosen.append(int(torch.searchsorted(cumulative, drawn, right=True).clamp(max=len(points) - 1)))
        distances = torch.minimum(distances, (points - points[chosen[-1]]).square().sum(1))
    return points[chosen]


def nearest(points: Tensor, centres: Tensor) -> Tensor:
    """Which centre is nearest to each point, [n]; of equals, the first."""
    half_squares = centres.square().sum(1) / 2  # ‖x - c‖² / 2, less what is the same for all centres
    some = max(1, TOGETHER // len(centres))
    return torch.cat([torch.addmm(half_squares, part, centres.T, alpha=-1).argmin(1) for part in points.split(some)])
