"""How long a generated sequence may be, and what may never stand in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqloom.errors import ConfigError
from seqloom.text.special import BOS, EOS, PAD, UNK

if TYPE_CHECKING:
    from torch import Tensor

IMPOSSIBLE = float("-inf")
LENGTH_PENALTY = 0.6
"""α = 0.6 is what Vaswani et al. (2017) tuned for translation, where beam search is used most. Without a penalty (0)
a search finds the most probable sequence, which is usually too short."""


@dataclass(frozen=True)
class Limits:
    """Lengths count what is generated after the prompt, the closing `<eos>` included.

    Limits remove choices; they do not renormalise. A reported log-probability is that of the model as it is, so the
    sequences that the limits allow may have less than probability 1 together.
    """

    max_length: int = 100
    """A sequence that is this long is cut: it ends without `<eos>`, unless `<eos>` is its last token."""
    min_length: int = 0
    """`<eos>` waits until the sequence is this long with it, unless the model allows nothing else."""
    unknown: bool = True
    """Whether `<unk>` may be generated; a reader would rather see a word."""

    def __post_init__(self) -> None:
        if self.max_length < 1:
            raise ConfigError(f"max_length must be at least 1, not {self.max_length}")
        if not 0 <= self.min_length <= self.max_length:
            raise ConfigError(f"min_length must be between 0 and max_length ({self.max_length}), not {self.min_length}")

    def restrict(self, log_probs: Tensor, lengths: Tensor) -> Tensor:
        """`log_probs` [rows, vocabulary], changed in place: -inf for what row r, `lengths[r]` tokens long, may not say.

        `lengths` may be on the processor while `log_probs` is on a GPU.
        """
        self.bar(log_probs)
        too_early = lengths + 1 < self.min_length
        if too_early.any():
            self.delay(log_probs, too_early)
        return log_probs

    @property
    def never(self) -> tuple[int, int]:
        """From where and up to where what may never be said stands: <unk>, <pad> and <bos> are neighbours."""
        return PAD if self.unknown else UNK, BOS + 1

    def bar(self, log_probs: Tensor) -> None:
        """In place: -inf for what may never be said."""
        log_probs[:, slice(*self.never)] = IMPOSSIBLE

    def delay(self, log_probs: Tensor, too_early: Tensor) -> None:
        """In place: -inf for `<eos>` in the rows where it is too early, unless they have nothing else to say."""
        ending = log_probs[:, EOS].clone()
        log_probs[:, EOS] = IMPOSSIBLE
        has_more_to_say = log_probs.amax(dim=1) > IMPOSSIBLE
        waits = too_early.to(log_probs.device, non_blocking=True) & has_more_to_say
        log_probs[:, EOS] = ending.masked_fill(waits, IMPOSSIBLE)
