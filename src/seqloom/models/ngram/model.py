"""An n-gram model: for each n-gram a log-probability, for each context the weight of backing off."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.arrays import Expected, map_arrays, write_arrays
from seqloom.errors import CheckpointError
from seqloom.models.autoregressive import Autoregressive
from seqloom.models.ngram.parallel import blocks, each
from seqloom.models.ngram.scoring import score_tokens
from seqloom.models.ngram.trie import NO_HISTORY, Trie
from seqloom.text.special import BOS, PAD

if TYPE_CHECKING:  # torch comes with the first tensor: scoring needs none
    from torch import Tensor

    from seqloom.nn.state import State

COMPILED = 1 << 27
"""After so many probabilities, some tenths of a second's work, the next ones come from compiled code."""
ROUNDING = 1e-5
"""What log p may lie above 0: numbers of 32 bits are off by 1e-7 at each of at most 32 orders."""
HEAVIEST = 1e3
"""The log of no back-off weight is higher: it would not bring the least of all probabilities to 1."""

FILE: dict[str, Expected] = {
    "words": (np.int32, (None,)),
    "first": (np.integer, (None,)),
    "log_probs": (np.float32, (None,)),
    "backoffs": (np.float32, (None,)),
    "missing": (np.float64, (1,)),
}
"""The arrays of a model's file, and the levels of its trie beside them."""


class NgramModel(Autoregressive):
    """p(w | h) = exp(log_probs[hw])                   where the n-gram hw is in the model,
                exp(backoffs[h]) · p(w | h')          where it is not; h' is h without its first word.

    A context h that is not in the model weighs 1: `missing` is log 1, but for stupid back-off. Interpolated models
    have this form too: the interpolation is done once, when they are estimated.
    """

    joins = True

    def __init__(
        self, trie: Trie, log_probs: NDArray[np.float32], backoffs: NDArray[np.float32], missing: float = 0.0
    ) -> None:
        self.trie, self.log_probs, self.backoffs, self.missing = trie, log_probs, backoffs, missing
        for array in (trie.words, trie.first, log_probs, backoffs):
            array.flags.writeable = False  # as a mapped file's arrays are: one compiled loop serves both
        self.vocabulary_size = trie.vocabulary_size
        self.order = trie.order
        self.scored = 0  # tokens until now: what is asked often is worth compiled code
        self._answered = 0

    def check(self) -> None:
        """Refuse, with a ValueError, what is no model. log p may be -inf, and a back-off weight above 1."""
        self.trie.check()
        if len(self.log_probs) != len(self.trie.words) or len(self.backoffs) != self.trie.levels[-2]:
            raise ValueError(f"{len(self.log_probs):,} log-probabilities and {len(self.backoffs):,} back-off weights")
        limits = (self.log_probs, ROUNDING), (self.backoffs, HEAVIEST), (np.array([self.missing]), 0.0)
        for numbers, highest in limits:
            parts = (numbers[part] for part in blocks(slice(0, len(numbers))))
            each(partial(_check_numbers, highest), parts)

    # ----------------------------------------------------------------------------------------------------- steps

    def start(self, size: int, source: Any = None) -> State:
        """The state: for every row the nodes of its last 1, 2, ..., N - 1 tokens."""
        import torch

        from seqloom.nn.state import State

        return State({"contexts": torch.full((size, self.order - 1), NO_HISTORY)})

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read tokens [batch, time]; return log p(next | all read so far) [batch, vocabulary] and the new state."""
        import torch

        from seqloom.nn.state import State

        contexts = state["contexts"].numpy()
        read = tokens.numpy()
        if read.shape[1] > self.order:  # what came before the last N - 1 tokens is forgotten
            contexts, read = np.full_like(contexts, NO_HISTORY), read[:, -self.order :]
        for column in read.T:
            contexts = self._contexts_after(contexts, column)
        after = State({"contexts": torch.from_numpy(contexts)}, state.position + tokens.shape[1])
        return torch.from_numpy(self.next_log_probs(contexts)), after

    def _contexts_after(self, contexts: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        after = np.empty_like(contexts)
        if self.order == 1:
            return after
        after[:, 0] = tokens
        shorter = contexts[:, :-1]
        nodes = self.trie.find(shorter.ravel(), np.repeat(tokens, self.order - 2)).reshape(shorter.shape)
        after[:, 1:] = np.where(shorter == NO_HISTORY, NO_HISTORY, nodes)
        return after

    def next_log_probs(self, contexts: NDArray[np.int64]) -> NDArray[np.float32]:
        """log p(w | h) of all words, [batch, vocabulary]; `contexts` [batch, N - 1] as in the state.

        From short contexts to long ones: every word that a context was seen with takes the place of its back-off.
        """
        weights = np.where(contexts >= 0, self.backoffs[np.maximum(contexts, 0)], self.missing)
        weights = np.where(contexts == NO_HISTORY, 0.0, weights)
        given_up = np.zeros((len(contexts), self.order), np.float32)  # by falling back on contexts of each length
        given_up[:, :-1] = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
        self._answered += len(contexts) * self.vocabulary_size
        if self._answered > COMPILED:
            from seqloom.models.ngram import kernels

            filled = np.empty((len(contexts), self.vocabulary_size), np.float32)
            kernels.next_log_probs(self.trie.words, self.trie.first, self.log_probs, contexts, given_up, filled)
            return filled
        log_probs = self.log_probs[: self.vocabulary_size] + given_up[:, :1]
        known = np.maximum(contexts, 0)
        begins, ends = self.trie.first[known], self.trie.first[known + 1]
        for row, length in zip(*np.nonzero((contexts >= 0) & (ends > begins)), strict=True):
            words = slice(begins[row, length], ends[row, length])
            log_probs[row, self.trie.words[words]] = self.log_probs[words] + given_up[row, length + 1]
        return log_probs

    # --------------------------------------------------------------------------------------------------- scoring

    def token_log_probs(self, tokens: Tensor, source: Any = None) -> Tensor:
        """log p of each token given those before it in its row, [batch, time]: natural log, 0 for `<pad>`."""
        import torch

        rows = tokens.numpy()
        inside = rows != PAD
        scores = np.zeros(rows.shape, np.float32)
        scores[inside] = self.unit_log_probs(rows[inside], inside.sum(axis=1))
        return torch.from_numpy(scores)

    def unit_log_probs(self, tokens: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.float32]:
        """log p of every token of many units, one after the other in `tokens`, each from its own beginning."""
        return self.unit_scores(tokens, lengths)[0]

    def unit_scores(
        self, tokens: NDArray[np.integer], lengths: NDArray[np.integer], first: int = BOS
    ) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        """The same, and for every token the order of the longest n-gram in the model that ends in it.

        first: what stands before each unit; `NO_HISTORY` where nothing is known of that. All tokens at once: no unit
        waits for another, so there are no batches.
        """
        inputs = np.empty(len(tokens), np.int32)
        inputs[1:] = tokens[:-1]
        inputs[(np.cumsum(lengths) - lengths)[lengths > 0]] = first
        return score_tokens(self, inputs, tokens.astype(np.int32, copy=False))

    # ----------------------------------------------------------------------------------------------------- files

    def save(self, path: Path) -> None:
        """Write one file that `load` maps into memory."""
        arrays = {
            "levels": np.array(self.trie.levels, np.int64),
            "missing": np.array([self.missing], np.float64),
            "first": self.trie.first,
            "words": self.trie.words,
            "log_probs": self.log_probs,
            "backoffs": self.backoffs,
        }
        write_arrays(path, arrays)

    @classmethod
    def load(cls, path: Path, order: int, vocabulary_size: int) -> NgramModel:
        """The model in a file, not read but mapped: pages come from the disk when they are asked for."""
        arrays = map_arrays(path, {**FILE, "levels": (np.int64, (order + 1,))})
        trie = Trie(arrays["words"], arrays["first"], tuple(arrays["levels"].tolist()))
        model = cls(trie, arrays["log_probs"], arrays["backoffs"], float(arrays["missing"][0]))
        try:
            model.check()
        except ValueError as error:
            raise CheckpointError(f"{path} is no n-gram model: {error}; train again") from None
        if trie.vocabulary_size != vocabulary_size:
            raise CheckpointError(
                f"{path} has {trie.vocabulary_size:,} unigrams, its tokeniser {vocabulary_size:,} tokens; train again"
            )
        return model

    @property
    def parameter_count(self) -> int:
        """How many numbers the model holds: log-probabilities and back-off weights."""
        return len(self.log_probs) + len(self.backoffs)


def _check_numbers(highest: float, numbers: NDArray[np.floating]) -> None:
    if not numbers.max(initial=-np.inf) <= highest:  # no comparison with NaN is true
        raise ValueError(f"a log-probability or a back-off weight is above {highest:g}, or is no number")
