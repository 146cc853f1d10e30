"""Writing as a decision process: a state is what was written so far, an action is the next word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from seqloom.errors import ConfigError
from seqloom.models.decisions.process import DecisionProcess, Floats

LARGEST = 2000  # prefixes: a process keeps a matrix of them for each action
Reward = Callable[[Sequence[tuple[str, ...]]], Floats]
"""Texts, each a tuple of words -> what they are worth."""


@dataclass(frozen=True)
class WritingProcess:
    """All texts of at most `longest` of some words. Each prefix is a state; the last action ends the text. The reward
    of a text comes with the action that ends it: its end, or the word that makes it as long as it may be."""

    words: tuple[str, ...]
    longest: int

    def __post_init__(self) -> None:
        prefixes = sum(len(self.words) ** length for length in range(self.longest))
        if prefixes > LARGEST:
            raise ConfigError(
                f"{len(self.words)} words and {self.longest} places make {prefixes:,} prefixes: {LARGEST:,} at most"
            )

    @property
    def prefixes(self) -> list[tuple[str, ...]]:
        """What may be written before the last place, by length: the states, and the first one is empty."""
        return [prefix for length in range(self.longest) for prefix in product(self.words, repeat=length)]

    def process(self, reward: Reward, discount: float = 1.0) -> DecisionProcess:
        """The process with one more state, in which the text has ended."""
        prefixes = self.prefixes
        number = {prefix: state for state, prefix in enumerate(prefixes)}
        states, actions = len(prefixes) + 1, len(self.words) + 1
        transitions, rewards = np.zeros((states, actions, states)), np.zeros((states, actions))
        transitions[-1, :, -1] = 1.0
        ended: list[tuple[int, int, tuple[str, ...]]] = []
        for state, prefix in enumerate(prefixes):
            for action, word in enumerate(self.words):
                longer = (*prefix, word)
                after = number.get(longer, states - 1)
                transitions[state, action, after] = 1.0
                if after == states - 1:
                    ended.append((state, action, longer))
            transitions[state, -1, -1] = 1.0
            ended.append((state, actions - 1, prefix))
        where, which, texts = zip(*ended, strict=True)
        rewards[list(where), list(which)] = reward(texts)
        return DecisionProcess(transitions, rewards, discount)

    def text(self, policy: Floats) -> tuple[str, ...]:
        """What a policy writes when it always takes its most probable action."""
        number = {prefix: state for state, prefix in enumerate(self.prefixes)}
        written: tuple[str, ...] = ()
        while len(written) < self.longest:
            action = int(policy[number[written]].argmax())
            if action == len(self.words):
                break
            written = (*written, self.words[action])
        return written
