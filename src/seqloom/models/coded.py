"""Models of text with a code behind each: the bounds that they are learned and judged by."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqloom.models.conditional import Conditional
from seqloom.models.latent.variational import divergence, log_ratio
from seqloom.nn import State
from seqloom.text.special import PAD, UNK

AT_ONCE = {"cpu": 1 << 23, "cuda": 1 << 28}  # probabilities computed together where a text has many codes


class Coded(Conditional):
    """p(y) = ∫ N(u; 0, I) p(y | u) du, with q(u | y) = N(u; μ, diag σ²) to learn it by; all may be given a source.

        ELBO(y) = E_q[log p(y | u)] - KL(q(u | y) ‖ p(u))  <=  log p(y)
        log p(y) ≈ log (w₁ + ... + w_k) / k,  w = p(y | u) p(u) / q(u | y),  u ~ q(u | y)

    The estimate lies below log p(y) on average, and reaches it as k grows (Burda et al. 2016).
    """

    size: int
    """Numbers in a code."""

    @abstractmethod
    def posterior(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of q, [rows, size] each."""

    @abstractmethod
    def given(self, batch: Any, codes: Tensor) -> Any:
        """What `encode` takes, of a batch with codes [k · rows, size]: one for each row, then the next for each."""

    def draw(self, batch: Any) -> tuple[State, Tensor, Tensor]:
        """The decoder's state with a code of q for each row, drawn as μ + σ ε so that gradients flow; and μ and σ."""
        mean, deviation = self.posterior(batch)
        source = self.given(batch, mean + deviation * torch.randn_like(mean))
        return self.begin(self.encode(source), source), mean, deviation

    def elbo(self, batch: Any) -> tuple[Tensor, Tensor]:
        """The two parts of the bound: E_q[log p(y | u)] by one draw, [rows], and the divergence of each number of the
        codes in closed form, [rows, size]. ELBO = the first - the sum of the second."""
        mean, deviation = self.posterior(batch)
        source = self.given(batch, mean + deviation * torch.randn_like(mean))
        return self.log_prob(batch.targets, source), divergence(mean, deviation)

    def log_weights(self, batch: Any, noise: Tensor) -> tuple[Tensor, Tensor]:
        """log w of the codes μ + σ ε with noise ε [samples, rows, size] from N(0, I), and the part of it that comes
        from `<unk>`: [samples, rows] each."""
        mean, deviation = self.posterior(batch)
        codes = mean + deviation * noise
        ratio = log_ratio(noise, codes, deviation)
        tokens = batch.targets.repeat(len(noise), 1)  # [samples * rows, time]
        log_probs = self.token_log_probs(tokens, self.given(batch, codes.flatten(0, 1)))
        unknown = log_probs.masked_fill(tokens != UNK, 0.0).sum(1)
        return ratio + log_probs.sum(1).view_as(ratio), unknown.view_as(ratio)

    @torch.no_grad()
    def importance_log_prob(self, batch: Any, noise: Tensor) -> tuple[Tensor, Tensor]:
        """log p(y) by importance sampling with the weights of this noise, and the same with the factors of `<unk>` left
        out: [rows] each."""
        at_once = AT_ONCE.get(self.device.type, AT_ONCE["cpu"])
        part = max(1, at_once // (batch.targets.numel() * self.vocabulary_size))
        weights = [self.log_weights(batch, several) for several in noise.split(part)]
        whole, unknown = (torch.cat(several).double() for several in zip(*weights, strict=True))
        return whole.logsumexp(0) - math.log(len(noise)), (whole - unknown).logsumexp(0) - math.log(len(noise))

    def prior_codes(self, numbers: Sequence[int], seed: int = 0) -> Tensor:
        """Codes from the prior N(0, I), of the samples of these numbers within a job: [numbers, size]"""
        drawn = [np.random.default_rng([seed, number]).standard_normal(self.size) for number in numbers]
        return torch.from_numpy(np.array(drawn, np.float32).reshape(len(numbers), self.size))

    def noise_for(self, batch: Any, samples: int) -> Tensor:
        """What codes are drawn by: [samples, rows, size]. It follows from the text, so that a score depends neither on
        the moment nor on the texts beside it."""
        rows = zip(batch.targets.tolist(), (batch.targets != PAD).sum(1).tolist(), strict=True)
        shape = (samples, self.size)
        drawn = [np.random.default_rng(row[:length]).standard_normal(shape, np.float32) for row, length in rows]
        return torch.from_numpy(np.stack(drawn, axis=1)).to(self.device)
