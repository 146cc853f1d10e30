"""Q-learning: the best way to act, learned by trying, from a process whose probabilities nobody knows."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from seqloom.models.decisions.process import DecisionProcess, Floats, Solution, best_actions

LONGEST = 10_000  # steps of one episode


def q_learning(
    process: DecisionProcess,
    episodes: int = 5000,
    exploration: float = 0.2,
    start: int | None = None,
    seed: int = 0,
) -> tuple[Solution, Floats]:
    """Q(s, a) ← Q(s, a) + η (r + γ max_a' Q(s', a') - Q(s, a)) after every step (Watkins 1989).

    η = 1 / (visits of s, a)^0.7 falls slowly enough that Q converges. With probability `exploration` an action is any
    one, else the best so far. Episodes begin in `start`, or, where none is given, in any state that is left. Returns
    what was learned, its policy and values, and the return of each episode.
    """
    ends = process.ends
    starts = np.flatnonzero(~ends) if start is None else np.array([start])
    following = process.transitions.cumsum(2)
    learned, returns = _learn(
        following,
        process.rewards,
        process.discount,
        ends,
        starts,
        episodes,
        exploration,
        LONGEST,
        np.random.default_rng(seed),
    )
    return Solution(best_actions(learned), learned.max(1), episodes), returns


@njit(cache=True)
def _learn(
    following: Floats,
    rewards: Floats,
    discount: float,
    ends: NDArray[np.bool_],
    starts: NDArray[np.int64],
    episodes: int,
    exploration: float,
    longest: int,
    random: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Q [states, actions], and the return of each episode; `following` holds cumulative transitions."""
    states, actions = rewards.shape
    learned, visits, returns = np.zeros((states, actions)), np.zeros((states, actions)), np.zeros(episodes)
    for episode in range(episodes):
        state, weight = starts[int(random.random() * len(starts))], 1.0
        for _ in range(longest):
            if ends[state]:
                break
            best = learned[state].max()
            action = int(random.random() * actions)
            if random.random() >= exploration:
                while learned[state, action] < best:  # of several that are as good, any
                    action = (action + 1) % actions
            reward = rewards[state, action]
            after = min(np.searchsorted(following[state, action], random.random(), side="right"), states - 1)
            ahead = 0.0 if ends[after] else learned[after].max()
            visits[state, action] += 1
            rate = visits[state, action] ** -0.7
            learned[state, action] += rate * (reward + discount * ahead - learned[state, action])
            returns[episode] += weight * reward
            state, weight = after, weight * discount
    return learned, returns
