from __future__ import annotations

import scipy.stats
import torch

from seqloom.decoding.uniforms import _mix, uniforms

MASK = (1 << 64) - 1


def splitmix64(state: int) -> int:
    """The published generator, in Python's unbounded integers."""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def test_mixing_is_splitmix64() -> None:
    assert splitmix64(0) == 0xE220A8397B1DCDAF  # the first output of the published generator from seed 0
    states = torch.tensor([0, 1, 2, -1, 123456789, -(2**63), 2**63 - 1])
    assert [number & MASK for number in _mix(states).tolist()] == [splitmix64(s & MASK) for s in states.tolist()]


def test_a_number_is_a_function_of_seed_sequence_and_step() -> None:
    expected = splitmix64((splitmix64((splitmix64(7) + 11) & MASK) + 13) & MASK)
    assert uniforms(7, torch.tensor([11]), torch.tensor([13])).item() == ((expected >> 12) + 0.5) / 2**52


def test_numbers_do_not_depend_on_the_layout_of_the_batch() -> None:
    sequences, steps = torch.arange(50), torch.arange(20)
    grid = uniforms(3, sequences[:, None], steps[None, :])
    shuffled = torch.randperm(50, generator=torch.Generator().manual_seed(0))
    assert torch.equal(uniforms(3, shuffled, torch.full((50,), 4)), grid[shuffled, 4])


def test_numbers_are_uniform_along_sequences_steps_and_seeds() -> None:
    many = torch.arange(20_000)
    zero = torch.zeros_like(many)
    one_step = uniforms(0, many, zero)
    one_sequence = uniforms(0, zero, many)
    seeds = torch.stack([uniforms(seed, torch.tensor(0), torch.tensor(0)) for seed in range(5000)])
    for numbers in (one_step, one_sequence, seeds):
        assert numbers.min() > 0
        assert numbers.max() < 1
        assert scipy.stats.kstest(numbers.numpy(), "uniform").pvalue > 1e-3


def test_neighbours_are_independent() -> None:
    grid = uniforms(1, torch.arange(300)[:, None], torch.arange(300)[None, :])
    other_seed = uniforms(2, torch.arange(300)[:, None], torch.arange(300)[None, :])
    upper = torch.triu_indices(300, 300, offset=1)
    pairs = {
        "steps": (grid[:, 0::2], grid[:, 1::2]),
        "sequences": (grid[0::2], grid[1::2]),
        "seeds": (grid, other_seed),
        "sequence and step exchanged": (grid[upper[0], upper[1]], grid[upper[1], upper[0]]),
    }
    for name, (left, right) in pairs.items():
        cells = (left.flatten() * 8).long() * 8 + (right.flatten() * 8).long()
        assert scipy.stats.chisquare(cells.bincount(minlength=64).numpy()).pvalue > 1e-3, name


def test_seeds_of_any_size_are_taken() -> None:
    place = torch.tensor([0]), torch.tensor([0])
    numbers = {uniforms(seed, *place).item() for seed in (0, -1, 2**63, 2**63 - 1, -(2**63) + 5)}
    assert len(numbers) == 5
    assert uniforms(2**64 + 5, *place) == uniforms(5, *place)


def test_every_sequence_may_have_a_seed_of_its_own() -> None:
    sequences, steps = torch.tensor([0, 3, 0]), torch.tensor([5, 1, 5])
    together = uniforms((7, 2**63 + 1, 8), sequences, steps)
    each = [uniforms(seed, sequences[row], steps[row]) for row, seed in enumerate((7, 2**63 + 1, 8))]
    assert together.tolist() == [float(one) for one in each]
