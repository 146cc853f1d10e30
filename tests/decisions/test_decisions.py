"""Decision processes against each other's solutions, against values computed by hand and in print, and against
enumeration."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.errors import ConfigError, DataError, UserError
from seqloom.metrics.bleu import sentence_bleus
from seqloom.models.decisions.grid import GridWorld, open_grid
from seqloom.models.decisions.process import DecisionProcess, Floats, discounted_return
from seqloom.models.decisions.q_learning import q_learning
from seqloom.models.decisions.writing import WritingProcess


def random_process(seed: int, states: int, actions: int, discount: float) -> DecisionProcess:
    random = np.random.default_rng(seed)
    transitions = random.dirichlet(np.ones(states), (states, actions))
    return DecisionProcess(transitions, random.normal(size=(states, actions)), discount)


processes = st.builds(
    random_process, st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 4), st.sampled_from([0.0, 0.5, 0.9, 0.97])
)


@settings(max_examples=30)
@given(processes)
def test_the_linear_solve_and_the_iterations_agree(process: DecisionProcess) -> None:
    by_values, by_policies = process.value_iteration(1e-12), process.policy_iteration()
    assert np.abs(by_values.values - by_policies.values).max() < 1e-8
    assert np.abs(process.evaluate(by_values.policy) - by_values.values).max() < 1e-8
    iterated, _ = process.evaluate_by_iteration(process.uniform, 1e-12)
    assert np.abs(iterated - process.evaluate(process.uniform)).max() < 1e-8


@settings(max_examples=20)
@given(processes)
def test_no_policy_is_better_than_the_best(process: DecisionProcess) -> None:
    states, actions = process.rewards.shape
    best = process.policy_iteration().values
    random = np.random.default_rng(0)
    for _ in range(5):
        policy = random.dirichlet(np.ones(actions), states)
        assert (process.evaluate(policy) <= best + 1e-9).all()
        improved = process.evaluate(process.greedy(process.evaluate(policy)))
        assert (improved >= process.evaluate(policy) - 1e-9).all()


def test_the_return_of_a_trajectory_is_discounted() -> None:
    assert discounted_return([1, 2, 3], 0.5) == 1 + 1 + 0.75
    assert discounted_return([]) == 0


def test_values_of_a_corridor_are_those_computed_by_hand() -> None:
    """Two moves to the reward, each costs 1, nothing is by chance: 10, then -1 + 10 γ, then -1 + γ (-1 + 10 γ)."""
    solution = GridWorld(("S.+",)).process(0.9, step=-1, slip=0, good=10).value_iteration()
    assert solution.values.tolist() == pytest.approx([-1 + 0.9 * 8, -1 + 0.9 * 10, 10, 0])
    assert solution.policy.argmax(1)[:2].tolist() == [1, 1]


def test_values_are_those_in_print() -> None:
    """Russell & Norvig, Artificial Intelligence: the utilities of the four-by-three world."""
    solution = open_grid("four-by-three").process().value_iteration()
    printed = [0.812, 0.868, 0.918, 1, 0.762, 0.660, -1, 0.705, 0.655, 0.611, 0.388]
    assert solution.values[:-1].tolist() == pytest.approx(printed, abs=5e-4)


def test_q_learning_finds_the_best_way_by_walking() -> None:
    """The shortest way past the cliff: up, eleven to the right, down; 13 moves at -1 each and the end's 1."""
    world = open_grid("cliff")
    process = world.process(step=-1, slip=0, bad=-100)
    assert world.start is not None
    exact = process.value_iteration()
    learned, returns = q_learning(process, episodes=20_000, start=world.start, seed=1)
    assert exact.values[world.start] == pytest.approx(-13 + 1)
    assert learned.values[world.start] == pytest.approx(-12, abs=0.1)
    assert returns[-1000:].mean() > returns[:1000].mean()


def likeness(texts: list[tuple[str, ...]]) -> Floats:
    return sentence_bleus([list(text) for text in texts], [[["a", "b", "b", "a"]]] * len(texts))


def test_the_best_text_is_found_by_planning_one_word_at_a_time() -> None:
    writing = WritingProcess(("a", "b"), 5)
    process = writing.process(likeness)
    solution = process.value_iteration()
    texts = [text for length in range(6) for text in product(writing.words, repeat=length)]
    best = max(zip(likeness(texts), texts, strict=True))
    assert solution.values[0] == pytest.approx(best[0])
    assert writing.text(solution.policy) == best[1] == ("a", "b", "b", "a")
    random = process.evaluate(process.uniform)
    chances = [3.0 ** -(len(text) + (len(text) < 5)) for text in texts]
    assert random[0] == pytest.approx(np.dot(chances, likeness(texts)))


def test_what_is_no_process_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="shape"):
        DecisionProcess(np.ones((2, 1, 1)), np.ones((2, 1)))
    with pytest.raises(ConfigError, match="sum to 1"):
        DecisionProcess(np.ones((2, 1, 2)), np.ones((2, 1)))
    with pytest.raises(ConfigError, match="discount"):
        DecisionProcess(np.ones((1, 1, 1)), np.ones((1, 1)), 2.0)
    with pytest.raises(ConfigError, match="discount below 1"):
        DecisionProcess(np.ones((1, 1, 1)), np.ones((1, 1))).evaluate(np.ones((1, 1)))
    with pytest.raises(ConfigError, match="prefixes"):
        WritingProcess(tuple("abcdef"), 6)
    with pytest.raises(UserError, match="no such file"):
        open_grid("nowhere")
    for content, message in {
        "..\n.\n": "line 2: it has 1 fields",
        "S?+": "line 1: '[?]' is no field",
        "...": "no end",
    }.items():
        (tmp_path / "map").write_text(content)
        with pytest.raises(DataError, match=message):
            open_grid(str(tmp_path / "map"))
