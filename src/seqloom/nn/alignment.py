"""A decoder's attention over the memory of an encoder: six ways to say which places matter, one to read them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.seq2seq import SomeAttention
from seqloom.errors import ConfigError
from seqloom.nn.linear import Linear, linear


class Alignment(nn.Module, ABC):
    """How much a query looks at each place of a memory: α_s = softmax_s e(q, m_s), over the places that are real.

    What depends on the memory alone is computed once per source (`prepare`); every query then meets the same keys. The
    hypotheses of a source share them too: `share` folds them into the time axis of the queries, and nothing is copied.
    """

    looks_back: ClassVar[bool] = False
    """Whether the weights depend on where earlier queries looked, so that queries must come one after the other."""

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__()
        self.query_size = query_size
        self.memory_size = memory_size

    @abstractmethod
    def prepare(self, memory: Tensor) -> Tensor:
        """memory [batch, places, memory_size] -> keys [batch, places, key_size]."""

    @abstractmethod
    def energies(self, queries: Tensor, keys: Tensor, looked: Tensor | None) -> Tensor:
        """e(q, m_s), the arguments as for `weights` -> [batch, time, places]."""

    def weights(self, queries: Tensor, keys: Tensor, mask: Tensor, looked: Tensor | None = None) -> Tensor:
        """α: queries [batch, time, query_size], keys [batch, places, key_size] -> [batch, time, places].

        `mask` [batch, places] is True where a place is real; where none is, all weights are 0. `looked`
        [batch · time, places] is what `remember` gave back, one row per query, and zeros before the first (or None,
        while each source has one query); kinds that do not look back ignore it. The weights are of float32 or better,
        whatever the queries are of.
        """
        self._check(queries, keys, mask)
        energies = self.energies(queries, keys, looked)
        energies = energies.to(torch.promote_types(energies.dtype, torch.float32))
        absent = ~mask.unsqueeze(1)  # [batch, 1, places]
        # The lowest finite number rather than -inf: a row without a real place stays finite, and so do its gradients.
        energies = energies.masked_fill(absent, torch.finfo(energies.dtype).min)
        return torch.softmax(energies, dim=-1).masked_fill(absent, 0.0)

    def remember(self, looked: Tensor | None, weights: Tensor) -> Tensor | None:
        """What to pass as `looked` next time, given what was passed this time and the weights it led to.

        weights [batch, time, places] -> [batch · time, places]; kinds that do not look back return `looked` as it came.
        """
        return looked

    def _check(self, queries: Tensor, keys: Tensor, mask: Tensor) -> None:
        if queries.size(-1) != self.query_size:
            raise ValueError(f"queries are of size {queries.size(-1)}, but this attention takes {self.query_size}")
        if queries.size(0) != keys.size(0):
            raise ValueError(
                f"{queries.size(0)} rows of queries meet the keys of {keys.size(0)} sources; "
                "fold the hypotheses of a source together with `share`"
            )
        if mask.shape != keys.shape[:2]:
            raise ValueError(f"the mask is {list(mask.shape)}, but the keys have {list(keys.shape[:2])} places")


class DotAlignment(Alignment):
    """e(q, m_s) = qᵀ m_s (Luong et al. 2015, https://arxiv.org/abs/1508.04025, "dot"). No weights to learn."""

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__(query_size, memory_size)
        if query_size != memory_size:
            raise ConfigError(
                f"dot attention multiplies queries and memory value by value, but queries have {query_size} values and "
                f"the memory has {memory_size}; make the sizes equal, or choose bilinear or additive attention"
            )

    def prepare(self, memory: Tensor) -> Tensor:
        return memory

    def energies(self, queries: Tensor, keys: Tensor, looked: Tensor | None) -> Tensor:
        return queries @ keys.mT


class ScaledDotAlignment(DotAlignment):
    """e(q, m_s) = qᵀ m_s / √d, for vectors of d values (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762).

    The sum of d products grows with √d; divided by it, the softmax starts out neither flat nor sharp at any size.
    """

    def energies(self, queries: Tensor, keys: Tensor, looked: Tensor | None) -> Tensor:
        return super().energies(queries / math.sqrt(self.query_size), keys, looked)


class BilinearAlignment(Alignment):
    """e(q, m_s) = qᵀ W m_s (Luong et al. 2015, https://arxiv.org/abs/1508.04025, "general")."""

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__(query_size, memory_size)
        self.key = Linear(memory_size, query_size, bias=False)  # W

    def prepare(self, memory: Tensor) -> Tensor:
        return self.key(memory)

    def energies(self, queries: Tensor, keys: Tensor, looked: Tensor | None) -> Tensor:
        return queries @ keys.mT


class AdditiveAlignment(Alignment):
    """e(q, m_s) = vᵀ tanh(W q + U m_s + b) (Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, appendix A.1.2).

    One hidden layer of `size` units for every pair of query and place: many queries at once take
    batch · time · places · size values.
    """

    def __init__(self, query_size: int, memory_size: int, size: int) -> None:
        super().__init__(query_size, memory_size)
        self.query = Linear(query_size, size, bias=False)  # W
        self.key = Linear(memory_size, size)  # U and b
        self.energy = Linear(size, 1, bias=False)  # v

    def prepare(self, memory: Tensor) -> Tensor:
        return self.key(memory)

    def energies(self, queries: Tensor, keys: Tensor, looked: Tensor | None) -> Tensor:
        hidden = self.sums(
            queries, keys, looked
        ).tanh_()  # in place: the largest tensor of all, which nobody else needs
        return self.energy(hidden).squeeze(-1)

    def sums(self, queries: Tensor, keys: Tensor, looked: Tensor | None) -> Tensor:
        """W q + U m_s + b, the arguments as for `weights` -> [batch, time, places, size]."""
        return self.query(queries).unsqueeze(2) + keys.unsqueeze(1)


class LookBackAlignment(AdditiveAlignment):
    """Additive attention with one more summand under the tanh: what earlier queries did at and around each place.

    Each step depends on the one before, so a query comes alone: time is 1, or the number of hypotheses folded into it
    by `share`, each of which has its own row of `looked`.
    """

    looks_back = True

    @abstractmethod
    def past(self, looked: Tensor) -> Tensor:
        """looked [rows, places] -> what it adds to the sums: [rows, places, size]. All zeros add nothing."""

    def sums(self, queries: Tensor, keys: Tensor, looked: Tensor | None) -> Tensor:
        batch, time, places = queries.size(0), queries.size(1), keys.size(1)
        if looked is None and time == 1:
            looked = keys.new_zeros(batch, places)
        if looked is None or looked.shape != (batch * time, places):
            raise ValueError(
                f"{type(self).__name__} looks back: give it one query at a time, with one row of `looked` for each "
                f"({batch * time} rows of {places} places); got {'none' if looked is None else list(looked.shape)}"
            )
        past = self.past(looked.to(keys.dtype)).unflatten(0, (batch, time))
        return super().sums(queries, keys, looked) + past


class CoverageAlignment(LookBackAlignment):
    """e(q_t, m_s) = vᵀ tanh(W q_t + U m_s + w c_{t,s} + b), with the coverage c_{t,s} = Σ_{i<t} α_{i,s}.

    See et al. 2017 (https://arxiv.org/abs/1704.04368), section 2.3: what has been looked at enough need not be looked
    at again. w starts at zero: training begins with plain additive attention and learns what coverage is good for.
    """

    def __init__(self, query_size: int, memory_size: int, size: int) -> None:
        super().__init__(query_size, memory_size, size)
        self.coverage = Linear(1, size, bias=False)  # w
        nn.init.zeros_(self.coverage.weight)

    def past(self, looked: Tensor) -> Tensor:
        return self.coverage(looked.unsqueeze(-1))

    def remember(self, looked: Tensor | None, weights: Tensor) -> Tensor:
        """The sum of all weights so far."""
        new = weights.flatten(0, 1)
        return new if looked is None else looked + new


class LocationAlignment(LookBackAlignment):
    """e(q_t, m_s) = vᵀ tanh(W q_t + U m_s + L f_{t,s} + b), with f_t = F * α_{t-1}, a convolution over the places.

    Chorowski et al. 2015 (https://arxiv.org/abs/1506.07503), section 2.1: `filters` features of what the query before
    looked at, within `width` places around s. Attention learns to move on from where it stood.
    """

    def __init__(self, query_size: int, memory_size: int, size: int, filters: int, width: int) -> None:
        super().__init__(query_size, memory_size, size)
        if width % 2 == 0:
            raise ConfigError(
                f"the convolution of location attention needs an odd width, to have a middle; got {width}"
            )
        self.filter = nn.Conv1d(1, filters, width, padding=width // 2, bias=False)  # F
        self.location = Linear(filters, size, bias=False)  # L

    def past(self, looked: Tensor) -> Tensor:
        width = self.filter.kernel_size[0]
        around = F.pad(looked, (width // 2, width // 2)).unfold(1, width, 1)  # [rows, places, width]
        return self.location(linear(around, self.filter.weight))

    def remember(self, looked: Tensor | None, weights: Tensor) -> Tensor:
        """The last weights alone."""
        return weights.flatten(0, 1)


class ContextAttention(nn.Module):
    """c_t = Σ_s α_{t,s} m_s: the memory as a query sees it."""

    def __init__(self, alignment: Alignment) -> None:
        super().__init__()
        self.alignment = alignment

    def forward(
        self, queries: Tensor, memory: Tensor, keys: Tensor, mask: Tensor, looked: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """queries [rows, time, query_size], memory [sources, places, memory_size], its keys [sources, places, key_size]
        and mask [sources, places] -> contexts [rows, time, memory_size], weights [rows, time, places].

        `rows` is `sources`, or a multiple of it: the hypotheses of the first source, then those of the second, and so
        on. They read one copy of the memory. `looked` is [rows, places], as for `Alignment.weights`.
        """
        rows, time = queries.shape[:2]
        weights = self.alignment.weights(share(queries, memory.size(0)), keys, mask, looked)
        contexts = weights.to(memory.dtype) @ memory  # [sources, rows / sources · time, memory_size]
        return contexts.reshape(rows, time, memory.size(2)), weights.reshape(rows, time, memory.size(1))


ALIGNMENTS: dict[str, Callable[..., Alignment]] = {
    "dot": DotAlignment,
    "scaled-dot": ScaledDotAlignment,
    "bilinear": BilinearAlignment,
    "additive": AdditiveAlignment,
    "coverage": CoverageAlignment,
    "location": LocationAlignment,
}


def build_attention(config: SomeAttention, query_size: int, memory_size: int) -> ContextAttention:
    """The attention of a configuration."""
    return ContextAttention(ALIGNMENTS[config.kind](query_size, memory_size, **config.model_dump(exclude={"kind"})))


def share(queries: Tensor, sources: int) -> Tensor:
    """Fold the hypotheses of each source into the time axis, so that they meet one copy of its keys.

    queries [sources · hypotheses, time, size], those of one source together -> [sources, hypotheses · time, size]: a
    view, where the queries are contiguous. Reshaping to [sources · hypotheses, time, ...] undoes it.
    """
    rows, time, size = queries.shape
    if sources == 0 or rows % sources:
        raise ValueError(f"{rows} rows of queries cannot be shared out among {sources} sources")
    return queries.reshape(sources, rows // sources * time, size)
