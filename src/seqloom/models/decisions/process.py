"""Finite Markov decision processes: values by the Bellman equations, and the policies that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import ConfigError

Floats = NDArray[np.float64]
MOST_ROUNDS = 1_000_000  # of any iteration: a mistake ends, too
TOLERANCE = 1e-10  # how little values change before they count as found


def discounted_return(rewards: Sequence[float], discount: float = 1.0) -> float:
    """G = r_1 + γ r_2 + γ² r_3 + ... of a trajectory."""
    return float(np.dot(rewards, discount ** np.arange(len(rewards))))


class Solution(NamedTuple):
    """A way to act, and what it is worth."""

    policy: Floats
    """[states, actions]: π(a | s)."""
    values: Floats
    """[states]: V(s)."""
    rounds: int
    """How often all values were computed anew, or the policy improved."""


@dataclass(frozen=True)
class DecisionProcess:
    """p(s' | s, a), r(s, a) and the discount γ of later rewards.

    A state without rewards that is never left is an end: V is 0 there. With γ = 1, every policy that is evaluated must
    come to an end from everywhere.
    """

    transitions: Floats
    """[states, actions, states]: p(s' | s, a)."""
    rewards: Floats
    """[states, actions]: the reward to be expected."""
    discount: float = 1.0

    def __post_init__(self) -> None:
        states, actions = self.rewards.shape
        if self.transitions.shape != (states, actions, states):
            raise ConfigError(
                f"{states} states and {actions} actions have transitions of shape {(states, actions, states)}, "
                f"not {self.transitions.shape}"
            )
        if (self.transitions < 0).any() or not np.allclose(self.transitions.sum(2), 1):
            raise ConfigError("the transitions of each state and action are probabilities that sum to 1")
        if not 0 <= self.discount <= 1:
            raise ConfigError(f"the discount is {self.discount:g}: it lies between 0 and 1")

    @property
    def ends(self) -> NDArray[np.bool_]:
        """[states]: those that are never left, and bring nothing more."""
        stays = np.einsum("sas->sa", self.transitions) == 1
        return np.asarray((stays & (self.rewards == 0)).all(1))

    # --------------------------------------------------------------------------------------------------- evaluation

    def action_values(self, values: Floats) -> Floats:
        """Q(s, a) = r(s, a) + γ Σ_s' p(s' | s, a) V(s'): [states, actions]."""
        return np.asarray(self.rewards + self.discount * (self.transitions @ values))

    def evaluate(self, policy: Floats) -> Floats:
        """V of a policy by solving the Bellman equations V = r_π + γ P_π V."""
        left = ~self.ends
        transitions = np.einsum("sa,sat->st", policy, self.transitions)[np.ix_(left, left)]
        values = np.zeros(len(policy))
        try:
            values[left] = np.linalg.solve(
                np.eye(int(left.sum())) - self.discount * transitions, (policy * self.rewards).sum(1)[left]
            )
        except np.linalg.LinAlgError:
            raise ConfigError("this policy never comes to an end: its values need a discount below 1") from None
        return values

    def evaluate_by_iteration(self, policy: Floats, tolerance: float = TOLERANCE) -> tuple[Floats, int]:
        """V of a policy by V ← r_π + γ P_π V until nothing changes, and how many rounds that took."""
        values = np.zeros(len(policy))
        for rounds in range(1, MOST_ROUNDS + 1):
            before, values = values, (policy * self.action_values(values)).sum(1)
            if np.abs(values - before).max() <= tolerance:
                return values, rounds
        raise ConfigError("this policy never comes to an end: its values need a discount below 1")

    # --------------------------------------------------------------------------------------------------- improvement

    def greedy(self, values: Floats) -> Floats:
        """π(s) = argmax_a Q(s, a), the first of several that are as good: [states, actions]."""
        return best_actions(self.action_values(values))

    def policy_iteration(self, policy: Floats | None = None) -> Solution:
        """Evaluate, improve, and again until no action is better than the one chosen (Howard 1960)."""
        policy = self.uniform if policy is None else policy
        for rounds in range(1, MOST_ROUNDS + 1):
            values = self.evaluate(policy)
            improved = self.action_values(values)
            chosen = (policy * improved).sum(1)
            if (improved.max(1) <= chosen + TOLERANCE).all():
                return Solution(best_actions(improved), values, rounds)
            policy = best_actions(improved)
        raise ConfigError("the policies never settled")

    def value_iteration(self, tolerance: float = TOLERANCE) -> Solution:
        """V ← max_a Q(s, a) until nothing changes (Bellman 1957)."""
        values = np.zeros(len(self.rewards))
        for rounds in range(1, MOST_ROUNDS + 1):
            before, values = values, self.action_values(values).max(1)
            if np.abs(values - before).max() <= tolerance:
                return Solution(self.greedy(values), values, rounds)
        raise ConfigError("values grow without end: the process needs a discount below 1")

    @property
    def uniform(self) -> Floats:
        """The policy of no opinion."""
        return np.full(self.rewards.shape, 1 / self.rewards.shape[1])


def best_actions(action_values: Floats) -> Floats:
    """All of π on the best action of each state; of several as good, on the first."""
    near = action_values >= action_values.max(1, keepdims=True) - TOLERANCE
    return np.eye(action_values.shape[1])[near.argmax(1)]
