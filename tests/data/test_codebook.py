"""Codebooks: k-means against scikit-learn, and images that become codes and come back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from seqloom.data.codebook import FIRST, Codebook
from seqloom.data.k_means import k_means, nearest, spread
from seqloom.data.patches import joined, patches
from seqloom.errors import DataError


def inertia(points: torch.Tensor, centres: torch.Tensor) -> float:
    return float(torch.cdist(points, centres).square().min(1).values.sum())


def test_k_means_is_as_good_as_that_of_scikit_learn() -> None:
    points = torch.from_numpy(load_digits().data).float()
    ours = min(inertia(points, k_means(points, 10, 100, seed)) for seed in range(4))
    theirs = KMeans(10, n_init=4, random_state=0).fit(points.numpy()).inertia_
    assert ours == pytest.approx(theirs, rel=0.01)


def test_from_the_same_start_it_ends_where_scikit_learn_does() -> None:
    points = torch.from_numpy(load_digits().data).float()
    begin = spread(points, 12, torch.Generator().manual_seed(5))
    theirs = KMeans(12, init=begin.numpy(), n_init=1, tol=0, max_iter=300).fit(points.numpy())
    ours = k_means(points, 12, 300, seed=5)
    np.testing.assert_allclose(ours.numpy(), theirs.cluster_centers_, atol=1e-3)
    np.testing.assert_array_equal(nearest(points, ours).numpy(), theirs.labels_)


def test_fewer_different_points_are_fewer_centres() -> None:
    points = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [5.0, 5.0]])
    centres = k_means(points, 8, 10)
    assert sorted(centres.tolist()) == [[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]]


def test_patches_join_to_the_image_they_were_cut_from() -> None:
    images = torch.rand(3, 2, 6, 4, generator=torch.Generator().manual_seed(0))
    squares = patches(images, 2).unflatten(2, (2, 2, 2))
    assert torch.equal(joined(squares, 3, 2), images)


@pytest.mark.parametrize("colour", [False, True])
def test_images_of_known_patches_come_back_as_they_were(colour: bool) -> None:
    random = np.random.default_rng(0)
    squares = random.integers(0, 256, (5, 2, 2, *[3] * colour), np.uint8)
    rows = [[np.concatenate(squares[random.integers(5, size=3)], axis=1) for _ in range(2)] for _ in range(20)]
    images = np.stack([np.concatenate(each, axis=0) for each in rows])  # [20, 4, 6], each of six of the five patches
    codebook = Codebook.learned(images, 2, 8)
    assert len(codebook.codes) == 5
    assert (codebook.grid, codebook.length, codebook.vocabulary_size) == ((2, 3), 6, FIRST + 5)
    tokens = codebook.encode(images)
    assert tokens.shape == (20, 6)
    assert tokens.min() == FIRST
    assert tokens.max() == FIRST + 4
    back = codebook.decode(torch.from_numpy(tokens).long()).mul(255).round().byte().numpy()
    np.testing.assert_array_equal(back.transpose(0, 2, 3, 1) if colour else back[:, 0], images)


def test_more_codes_lose_less() -> None:
    images = load_digits().images[:200].astype(np.uint8) * 15
    lost = []
    for count in (2, 8, 32):
        codebook = Codebook.learned(images, 4, count)
        back = codebook.decode(torch.from_numpy(codebook.encode(images)).long())[:, 0].numpy()
        lost.append(float(np.square(back - images / 255).mean()))
    # one code, the mean, would leave the variance of the patches
    cut = patches(torch.from_numpy(images / 255).unsqueeze(1), 4).flatten(0, 1)
    assert float(cut.var(0, correction=0).mean()) > lost[0] > lost[1] > lost[2] > 0


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match="patches of 3×3 pixels do not cover images of 8×8"):
        Codebook.learned(np.zeros((2, 8, 8), np.uint8), 3, 4)
    with pytest.raises(DataError, match="no codebook"):
        Codebook(torch.zeros(4, 16), 8, 8)
    with pytest.raises(DataError, match="do not cover"):
        Codebook(torch.zeros(4, 1, 4, 4), 0, 8)
