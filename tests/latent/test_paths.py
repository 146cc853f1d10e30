"""Ways through the space of codes."""

from __future__ import annotations

import pytest
import torch

from seqloom.models.latent.paths import Way, linear, path_between, plane, spherical, traversal


@pytest.mark.parametrize("way", ["linear", "spherical"])
def test_a_path_leads_from_one_code_to_the_other(way: Way) -> None:
    first, second = torch.randn(3, 5), torch.randn(3, 5)
    path = path_between(way, first, second, 7)
    assert path.shape == (3, 7, 5)
    torch.testing.assert_close(path[:, 0], first)
    torch.testing.assert_close(path[:, -1], second)


def test_an_arc_keeps_the_length_that_a_straight_line_loses() -> None:
    first, second = torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 3.0]])
    assert spherical(first, second, 9).norm(dim=-1).tolist()[0] == pytest.approx([3.0] * 9)
    assert float(linear(first, second, 3)[0, 1].norm()) == pytest.approx(3 / 2**0.5)
    torch.testing.assert_close(spherical(first, second, 3)[0, 1], torch.full((2,), 3 / 2**0.5))


def test_an_arc_between_parallel_codes_is_linear() -> None:
    first = torch.tensor([[1.0, 2.0]])
    torch.testing.assert_close(spherical(first, 2 * first, 5), linear(first, 2 * first, 5))
    torch.testing.assert_close(spherical(first, -first, 5), linear(first, -first, 5))


def test_a_traversal_moves_one_number() -> None:
    code = torch.tensor([0.5, 1.5, 2.5])
    moved = traversal(code, [2, 0], 5, 2.0, torch.tensor([9.0, 9.0, 0.5]), torch.tensor([1.0, 1.0, 3.0]))
    assert moved.shape == (2, 5, 3)
    assert moved[0, :, 2].tolist() == [-5.5, -2.5, 0.5, 3.5, 6.5]
    assert moved[1, :, 0].tolist() == [7.0, 8.0, 9.0, 10.0, 11.0]
    assert moved[0, :, :2].unique(dim=0).tolist() == [[0.5, 1.5]]
    assert moved[1, :, 1:].unique(dim=0).tolist() == [[1.5, 2.5]]


def test_a_plane_is_a_grid_of_quantiles() -> None:
    grid = plane(torch.zeros(4), (1, 3), 3).view(3, 3, 4)
    assert grid[:, :, [0, 2]].abs().max() == 0
    assert grid[1, 1].tolist() == pytest.approx([0.0] * 4, abs=1e-6)
    assert grid[0, 2].tolist() == pytest.approx([0.0, 1.6449, 0.0, 1.6449], abs=1e-3)
