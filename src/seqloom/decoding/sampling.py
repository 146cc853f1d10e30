"""How the next token is chosen from its distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.decoding.top import MANY, STRETCH, asks_nothing, falling, first_largest, only_top, top
from seqloom.decoding.uniforms import uniforms
from seqloom.errors import ConfigError
from seqloom.nn import kernels


class Chooser(Protocol):
    """Chooses one token per row."""

    def choose(self, log_probs: Tensor, sequences: Tensor, steps: Tensor) -> Tensor:
        """log_probs [rows, vocabulary], -inf where a token is not allowed -> tokens [rows].

        Row r is sequence number `sequences[r]`, and has generated `steps[r]` tokens so far; both may be on the
        processor while `log_probs` is on a GPU.
        """


class Picker(Chooser, Protocol):
    """A chooser whose choice can be recorded on a GPU: nothing in it waits for the GPU, or comes from elsewhere."""

    def pick(self, log_probs: Tensor, uniforms: Tensor) -> Tensor:
        """As `choose`, with the number between 0 and 1 that each row draws by, [rows]."""


@dataclass(frozen=True)
class Greedy:
    """The most probable token; of several, the one with the lowest id."""

    def choose(self, log_probs: Tensor, sequences: Tensor, steps: Tensor) -> Tensor:
        return first_largest(log_probs)

    def pick(self, log_probs: Tensor, uniforms: Tensor) -> Tensor:
        return first_largest(log_probs)


@dataclass(frozen=True)
class Sampler:
    """Draws from p(x)^(1/temperature), cut to its most probable part, and normalised.

    `top_k` is applied first (Fan et al. 2018), then `top_p`, to what `top_k` left (Holtzman et al. 2020).

    A draw is a function of the distribution, `seed`, the sequence's number and the step alone: it does not depend on
    what else is in the batch, nor on the order in which sequences are generated.
    """

    temperature: float = 1.0
    """Below 1 favours what is probable, above 1 evens it out."""
    top_k: int | None = None
    """Draw from the so many most probable tokens."""
    top_p: float | None = None
    """Draw from the smallest set of most probable tokens whose probabilities add up to this, or more."""
    seed: int | tuple[int, ...] = 0
    """One for all sequences, or one for each row."""

    def __post_init__(self) -> None:
        if self.temperature == 0:
            raise ConfigError(
                "temperature 0 is the limit where sampling becomes greedy: choose greedy decoding instead"
            )
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise ConfigError(f"temperature must be a positive number, not {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top_k must be at least 1, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p must be above 0 and at most 1, not {self.top_p}")

    @property
    def cuts(self) -> bool:
        """Whether it draws from the most probable part alone."""
        return self.top_k is not None or self.top_p is not None

    @property
    def sharpness(self) -> float:
        """1/temperature, as far as float32 has it."""
        return 1 / max(self.temperature, torch.finfo(torch.float32).tiny)

    def choose(self, log_probs: Tensor, sequences: Tensor, steps: Tensor) -> Tensor:
        return self.pick(log_probs, uniforms(self.seed, sequences, steps))

    def pick(self, log_probs: Tensor, uniforms: Tensor) -> Tensor:
        if not self.cuts:
            return drawn_by_column(log_probs, self.temperature, uniforms)
        tokens, mass = None, self.top_p or 1.0
        if self.top_k is not None and asks_nothing(log_probs, self.top_k):
            log_probs, tokens = top(log_probs, min(self.top_k, log_probs.shape[1]))
        elif self.top_k is not None:
            log_probs = only_top(log_probs, self.top_k)
        drawn = drawn_by_rank(log_probs, self.temperature, mass, uniforms)
        return drawn if tokens is None else tokens.gather(1, drawn[:, None]).squeeze(1)


def weights_of(log_probs: Tensor, temperature: float) -> Tensor:
    """p^(1/temperature), not normalised: 1 for the most probable column, so that no temperature makes all 0."""
    log_probs = log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))
    temperature = max(temperature, torch.finfo(torch.float32).tiny)
    return (log_probs - log_probs.amax(dim=1, keepdim=True)).div_(temperature).exp_()


def drawn_by_column(log_probs: Tensor, temperature: float, uniforms: Tensor) -> Tensor:
    """One column for each row: a draw from p^(1/temperature). The columns stand side by side along [0, 1).

    A processor adds up stretches of many columns first, and looks only into the one where the draw falls.
    """
    weights = weights_of(log_probs, temperature)
    size = weights.shape[1]
    uniforms = uniforms.to(weights.device, non_blocking=True)[:, None]
    if weights.is_cuda or size < MANY:
        cumulative = weights.cumsum(dim=1, dtype=torch.float64)
        return _passed(cumulative, uniforms * cumulative[:, -1:]).squeeze(1)
    stretches = pad(weights, (0, -size % STRETCH)).unflatten(1, (-1, STRETCH))
    cumulative = stretches.sum(2, dtype=torch.float64).cumsum(1)
    points = uniforms * cumulative[:, -1:]
    stretch = _passed(cumulative, points)
    before = pad(cumulative, (1, 0)).gather(1, stretch)
    within = stretches.gather(1, stretch[:, :, None].expand(-1, -1, STRETCH)).squeeze(1).cumsum(1, dtype=torch.float64)
    # Sums in another order may differ in their last bit, which must not lead past what is possible.
    place = _passed(within, torch.minimum(points - before, within[:, -1:] * (1 - 2**-52)))
    return (stretch * STRETCH + place).clamp_(max=size - 1).squeeze(1)


def drawn_by_rank(log_probs: Tensor, temperature: float, mass: float, uniforms: Tensor) -> Tensor:
    """One column for each row: a draw from p^(1/temperature), cut to the smallest set of the most probable columns that
    has this mass. They stand along [0, 1) by falling probability; of equals, the first comes first.

    On a GPU it has a kernel of its own, which need not sort.
    """
    if kernels.available(log_probs):
        from seqloom.nn.kernels import nucleus

        if log_probs.shape[1] <= nucleus.LONGEST:
            return nucleus.drawn_by_rank(log_probs, temperature, mass, uniforms)
    ranked, columns = falling(log_probs)
    cumulative = weights_of(ranked, temperature).cumsum(dim=1, dtype=torch.float64)
    last = _passed(cumulative, mass * cumulative[:, -1:], reached=True)  # of those that have the mass
    points = uniforms.to(cumulative.device, non_blocking=True)[:, None] * cumulative.gather(1, last)
    drawn = torch.minimum(_passed(cumulative, points), last)
    drawn = drawn.masked_fill(ranked[:, :1].isnan(), 0)  # what is not a number stands first: it is to be found out
    return columns.gather(1, drawn).squeeze(1)


def _passed(cumulative: Tensor, points: Tensor, reached: bool = False) -> Tensor:
    """Where the sums of each row [rows, size] pass a point of its own [rows, 1], or have `reached` it."""
    found = torch.searchsorted(cumulative, points, right=not reached)
    return found.clamp_(max=cumulative.shape[1] - 1)  # past the end only when no token is possible at all
