"""A model that writes by itself, block by block, says what the loop that asks it for each step says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.decoding import Greedy, Limits, Sampler, generate, left_to_right, stream
from seqloom.decoding.left_to_right import Emission, begin, written_ahead
from seqloom.decoding.messages import FEW, worth_keeping
from seqloom.decoding.writing import BLOCK, Writing
from seqloom.errors import SeqloomError
from seqloom.text.special import BOS, EOS, PAD, UNK

PROMPTS = [[4, 5, 4], [], [5], [4, 4, 5, 5, 4, 5], [0, 5]]
CHOOSERS = [
    Greedy(),
    Sampler(seed=3),
    Sampler(temperature=0.6, seed=2**63 + 1),
    Sampler(top_k=2, seed=4),
    Sampler(top_p=0.7, seed=5),
    Sampler(temperature=1.5, top_k=3, top_p=0.9, seed=8),
]


def as_lists(emissions: Iterator[Emission]) -> list[tuple[list[int], list[int], list[float]]]:
    return [(rows.tolist(), tokens.tolist(), log_probs.tolist()) for rows, tokens, log_probs in emissions]


def assert_same(found: list[Any], expected: list[Any]) -> None:
    assert [said[:2] for said in found] == [said[:2] for said in expected]
    for said, other in zip(found, expected, strict=True):
        assert said[2] == pytest.approx(other[2], abs=1e-6)


def five_threes(seen: dict[int, int]) -> Callable[[Any, Any], Any]:
    """Ends a row with the third time that it says 5, whatever else it says."""

    def ends(rows: Any, tokens: Any) -> Any:
        for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
            seen[row] = seen.get(row, 0) + (token == 5)
        return np.array([seen[row] >= 3 for row in rows.tolist()])

    return ends


@pytest.fixture(params=[False, True], ids=["heard at once", "heard a block late"])
def behind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a processor, or as on a GPU: a block late, and with rows that ended among those that are kept."""
    if request.param:
        monkeypatch.setattr(left_to_right, "steps_behind", lambda device: 1)
        monkeypatch.setattr(left_to_right, "worth_keeping", lambda rows, going, device: min(rows, going + 1))


@pytest.mark.parametrize("chooser", CHOOSERS)
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("limits", [Limits(1), Limits(40, 1), Limits(50, 12, unknown=False), Limits(33, 33)])
def test_a_model_that_writes_by_itself_says_step_by_step_what_the_loop_says(
    by_hand, random_model, behind, chooser, samples, limits
) -> None:
    for ends in (None, five_threes):
        expected = stream(random_model(1), PROMPTS, chooser, limits, samples=samples, ends=ends and ends({}))
        expected = as_lists(expected)  # the loop hears at once
        model = by_hand(random_model(1))
        found = as_lists(stream(model, PROMPTS, chooser, limits, samples=samples, ends=ends and ends({})))
        assert_same(found, expected)
        assert model._varieties  # it was not the loop


@given(
    st.lists(st.lists(st.sampled_from([0, 4, 5]), max_size=9), min_size=1, max_size=6),
    st.integers(1, 45),
    st.data(),
)
@settings(max_examples=150, deadline=None)
def test_it_does_so_for_prompts_lengths_and_choices_of_all_kinds(by_hand, random_model, prompts, longest, data) -> None:
    limits = Limits(longest, data.draw(st.integers(0, longest)), data.draw(st.booleans()))
    temperature = data.draw(st.sampled_from([0.3, 1.0, 2.0]))
    top_k, top_p = data.draw(st.sampled_from([None, 1, 2, 4, 9])), data.draw(st.sampled_from([None, 0.2, 0.8, 1.0]))
    chooser = data.draw(st.sampled_from([Greedy(), Sampler(temperature, top_k, top_p, data.draw(st.integers(0, 99)))]))
    samples, first = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 7))
    numbers = range(first, first + len(prompts))
    model = random_model(data.draw(st.integers(0, 9)), order=2)
    expected = generate(model, prompts, chooser, limits, None, samples, numbers)
    found = generate(by_hand(model), prompts, chooser, limits, None, samples, numbers)
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    assert [each.log_prob for each in found] == pytest.approx([each.log_prob for each in expected], abs=1e-5)


def test_rows_with_seeds_of_their_own_keep_them_when_others_are_dropped(by_hand, random_model) -> None:
    seeds = (11, 2**63 + 5, 7, 7, 3)
    found = generate(by_hand(random_model(2)), PROMPTS, Sampler(seed=seeds), Limits(30))
    for number, (prompt, seed) in enumerate(zip(PROMPTS, seeds, strict=True)):
        alone = generate(random_model(2), [prompt], Sampler(seed=seed), Limits(30), numbers=[number])
        assert found[number].tokens == alone[0].tokens


def test_seeds_and_longest_lengths_have_the_same_recordings(by_hand, random_model) -> None:
    model = by_hand(random_model(3))
    for seed, longest in ((0, 3), (1, 3), (1, 9)):
        generate(model, PROMPTS, Sampler(top_p=0.5, seed=seed), Limits(longest))
    assert len(model._varieties) == 1
    generate(model, PROMPTS, Sampler(top_p=0.6), Limits(9))
    assert len(model._varieties) == 2


@pytest.mark.parametrize("chooser", CHOOSERS)
def test_a_row_with_nothing_possible_ends_at_probability_zero(by_hand, table_model, behind, chooser) -> None:
    table = torch.full((6, 6), -torch.inf)
    table[BOS, 4] = table[4, 5] = 0.0
    found = generate(by_hand(table_model(table)), [[], [4]], chooser, Limits(25))
    assert [each.tokens for each in found] == [(4, 5, EOS), (5, EOS)]
    assert [each.log_prob for each in found] == [-np.inf, -np.inf]


@pytest.mark.parametrize("chooser", CHOOSERS)
def test_a_diverged_model_is_refused(by_hand, table_model, behind, chooser) -> None:
    table = torch.full((6, 6), torch.nan)
    table[BOS] = torch.tensor([0.1, 0, 0, 0, 0.5, 0.4]).log()
    for limits in (Limits(9), Limits(9, 3, unknown=False)):
        with pytest.raises(SeqloomError, match="NaN"):
            generate(by_hand(table_model(table)), [[], [5]], chooser, limits)


def test_no_place_is_read_that_the_loop_would_not_read(by_hand, random_model, behind) -> None:
    """A model may know no place beyond the longest length."""
    model = by_hand(random_model(4))
    generate(model, [[4, 5], [5, 5, 4, 4, 4]], Greedy(), Limits(40, 40))
    (steps,) = model._varieties.values()
    assert len(steps.rows_stepped) == 3 + 40 - 1  # the rest of the long prompt, then all but the last token


def test_rows_that_ended_are_dropped_between_blocks(by_hand, random_model) -> None:
    model = by_hand(random_model(5))
    hypotheses = generate(model, [[]] * 64, Sampler(), Limits(50))
    (steps,) = model._varieties.values()
    assert len(steps.rows_stepped) > 4 + 8
    lengths = [len(hypothesis.tokens) for hypothesis in hypotheses]
    borders = {4, 4 + 8, *range(4 + 8 + BLOCK, 60, BLOCK)}  # the first blocks are shorter
    for step, rows in enumerate(steps.rows_stepped, start=1):
        since = max((border for border in borders if border <= step), default=0)
        assert rows == sum(length > since for length in lengths)


def test_a_gpu_keeps_few_numbers_of_rows_and_never_fewer_than_go_on() -> None:
    gpu = torch.device("cuda")
    kept = {(rows, going): worth_keeping(rows, going, gpu) for rows in range(1, 600) for going in range(1, rows + 1)}
    assert all(going <= room <= rows for (rows, going), room in kept.items())
    assert all(room == rows or room <= rows * 3 / 4 for (rows, _), room in kept.items())
    assert {room for (rows, _), room in kept.items() if room < rows} == {32, 48, 64, 96, 128, 192, 256, 384}
    assert all(room <= max(FEW, 1.5 * going) or room > rows * 0.5 for (rows, going), room in kept.items())


def test_the_state_holds_a_row_of_everything_so_that_rows_can_be_reordered(random_model) -> None:
    model = random_model(6)
    chooser, limits = Sampler(seed=6), Limits(20)
    writing = Writing(model, chooser, limits)
    begun = begin(model, PROMPTS, None, 1, None)
    whole = as_lists(written_ahead(writing, writing, begun, 6, limits, None))
    begun = begin(model, PROMPTS, None, 1, None)
    state = writing.around(begun.state, begun.forced, torch.arange(5))
    assert all(len(tensor) == 5 for tensor in state.values())
    assert whole


def test_writing_is_a_step_model_of_its_own(random_model) -> None:
    """From its own start it writes what a greedy search of an empty prompt finds."""
    model = random_model(7)
    expected = generate(model, [[], []], Greedy(), Limits(9, 9))[0].tokens
    writing = Writing(model, Greedy(), Limits(9, 9))
    tokens, state = writing.read(writing.start(2), torch.full((2, 1), BOS))
    for _ in range(8):
        tokens, state = writing.step(state, tokens)
    assert tuple(state["written"][1, :9, 0].long().tolist()) == expected
    assert not {PAD, BOS} & set(expected)
    assert UNK == 0
