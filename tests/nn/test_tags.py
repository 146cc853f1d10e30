"""Sequences of tags: the conditional random field against all sequences, one by one."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional as F

from seqloom.nn.scalar_mix import ScalarMix
from seqloom.nn.tags import Crf, IndependentTags

TAGS, LENGTHS = 3, (4, 1, 3)


@pytest.fixture
def crf() -> Crf:
    torch.manual_seed(0)
    found = Crf(TAGS)
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter)
    return found


@pytest.fixture
def scores() -> torch.Tensor:
    return torch.randn(len(LENGTHS), max(LENGTHS), TAGS, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def mask() -> torch.Tensor:
    return torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)


def all_sequences(crf: Crf, scores: torch.Tensor, length: int) -> dict[tuple[int, ...], float]:
    """The score of every sequence of tags of one row, summed term by term."""
    found = {}
    for tags in itertools.product(range(TAGS), repeat=length):
        total = crf.begin[tags[0]] + crf.end[tags[-1]]
        total = total + sum(scores[step, tag] for step, tag in enumerate(tags))
        total = total + sum(crf.next[before, after] for before, after in itertools.pairwise(tags))
        found[tags] = total.item()
    return found


def test_the_normaliser_is_the_sum_over_all_sequences(crf: Crf, scores: torch.Tensor, mask: torch.Tensor) -> None:
    targets = torch.tensor([[2, 0, 1, 1], [1, 0, 0, 0], [0, 2, 2, 0]])
    expected = 0.0
    for row, length in enumerate(LENGTHS):
        every = all_sequences(crf, scores[row], length)
        log_normaliser = torch.tensor(list(every.values())).logsumexp(0)
        expected += float(log_normaliser) - every[tuple(targets[row, :length].tolist())]
    assert crf.loss(scores, targets, mask).item() == pytest.approx(expected, abs=1e-4)


def test_the_best_sequence_is_the_best_of_all(crf: Crf, scores: torch.Tensor, mask: torch.Tensor) -> None:
    best = crf.best(scores, mask)
    for row, length in enumerate(LENGTHS):
        every = all_sequences(crf, scores[row], length)
        assert tuple(best[row, :length].tolist()) == max(every, key=every.__getitem__)


def test_padding_changes_nothing(crf: Crf, scores: torch.Tensor, mask: torch.Tensor) -> None:
    targets = torch.zeros(3, 4, dtype=torch.long)
    alone = sum(
        crf.loss(scores[row : row + 1, :length], targets[row : row + 1, :length], mask[row : row + 1, :length])
        for row, length in enumerate(LENGTHS)
    )
    torch.testing.assert_close(crf.loss(scores, targets, mask), alone)


def test_a_field_without_transitions_is_the_softmax_of_each_tag(scores: torch.Tensor, mask: torch.Tensor) -> None:
    targets = torch.tensor([[2, 0, 1, 1], [1, 0, 0, 0], [0, 2, 2, 0]])
    plain, field = IndependentTags(TAGS), Crf(TAGS)
    torch.testing.assert_close(field.loss(scores, targets, mask), plain.loss(scores, targets, mask))
    assert torch.equal(field.best(scores, mask)[mask], plain.best(scores, mask)[mask])


def test_layers_are_mixed_by_softmax_weights_and_a_scale() -> None:
    mix = ScalarMix(3)
    given = 3 * torch.randn(2, 5, 3, 8) + 1
    centred = given - given.mean(-1, keepdim=True)
    layers = F.normalize(centred, dim=-1)
    torch.testing.assert_close(mix(given), layers.mean(2), rtol=1e-4, atol=1e-4)  # at first all count the same
    with torch.no_grad():
        mix.logits.copy_(torch.tensor([0.3, -1.0, 2.0]))
        mix.scale.fill_(1.7)
    weights = F.softmax(torch.tensor([0.3, -1.0, 2.0]), dim=0)
    expected = 1.7 * sum(weight * layer for weight, layer in zip(weights, layers.unbind(2), strict=True))
    torch.testing.assert_close(mix(given), expected, rtol=1e-4, atol=1e-4)
    assert mix.weights.sum().item() == pytest.approx(1.0)
