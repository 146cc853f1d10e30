"""How searches rank hypotheses, and the best that they have found."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.decoding.limits import IMPOSSIBLE
from seqloom.decoding.protocol import Hypothesis
from seqloom.errors import ConfigError
from seqloom.text.special import EOS


def length_penalties(alpha: float, max_length: int) -> Tensor:
    """score = log p / ((5 + length) / 6)^α (Wu et al. 2016): the divisors of lengths 0 to `max_length`, float64.

    They never fall with length, and log p never rises. So whatever has log-probability l now will score at most
    l / divisor[max_length].
    """
    if not (alpha >= 0 and math.isfinite(alpha)):
        raise ConfigError(f"length_penalty must be 0 or more, not {alpha}")
    return ((5 + torch.arange(max_length + 1, dtype=torch.float64)) / 6) ** alpha


class Ranking:
    """The `n_best` best hypotheses of each prompt.

    The higher score goes first; of equal scores the shorter hypothesis, then the more probable, then the one whose
    tokens come first in the order of ids.
    """

    def __init__(self, prompts: int, n_best: int, device: torch.device) -> None:
        self.scores = torch.full((prompts, n_best), IMPOSSIBLE, dtype=torch.float64, device=device)
        self.log_probs = self.scores.clone()
        self.ends = torch.zeros(prompts, n_best, dtype=torch.long, device=device)
        self.tokens = torch.empty(prompts, n_best, 0, dtype=torch.long, device=device)

    def add(self, prompts: Tensor, log_probs: Tensor, tokens: Tensor, penalties: Tensor) -> None:
        """Candidates of `prompts` [p]: log_probs [p, c], most probable first, -inf for none; tokens [p, c, time].

        To be called with growing `time`, so that what is there already is shorter. penalties: [p].
        """
        everyone = len(prompts) == len(self.scores)  # then they come in order, and nothing is picked out or put back
        known = [each if everyone else each[prompts] for each in (self.scores, self.log_probs, self.ends, self.tokens)]
        time, n_best = tokens.shape[2], self.scores.shape[1]
        scores, order = torch.cat([known[0], log_probs / penalties[:, None]], dim=1).sort(
            dim=1, descending=True, stable=True
        )
        order = order[:, :n_best]
        ends = pad(known[2], (0, log_probs.shape[1]), value=time)
        sequences = torch.cat([pad(known[3], (0, time - known[3].shape[2])), tokens], dim=1)
        ranked = [
            scores[:, :n_best],
            torch.cat([known[1], log_probs], dim=1).gather(1, order),
            ends.gather(1, order),
            sequences.gather(1, order[:, :, None].expand(-1, -1, time)),
        ]
        if everyone:
            self.scores, self.log_probs, self.ends, self.tokens = ranked
            return
        self.tokens = pad(self.tokens, (0, time - self.tokens.shape[2]))
        for each, new in zip((self.scores, self.log_probs, self.ends, self.tokens), ranked, strict=True):
            each[prompts] = new

    def worst(self, prompts: Tensor) -> Tensor:
        """The score [p] that a newcomer must exceed; -inf while there is room."""
        return self.scores[:, -1] if len(prompts) == len(self.scores) else self.scores[prompts, -1]

    def hypotheses(self, begins: Tensor) -> list[list[Hypothesis]]:
        """Per prompt, best first; what stands before `begins` [prompts] belongs to the prompt.

        There are fewer than `n_best` where fewer are possible, and a bare `<eos>` at -inf where none is.
        """
        result = []
        for begin, *columns in zip(
            begins.tolist(),
            self.tokens.tolist(),
            self.ends.tolist(),
            self.log_probs.tolist(),
            self.scores.tolist(),
            strict=True,
        ):
            hypotheses = [
                Hypothesis(tuple(tokens[begin:end]), log_prob, score)
                for tokens, end, log_prob, score in zip(*columns, strict=True)
                if score > IMPOSSIBLE
            ]
            result.append(hypotheses or [Hypothesis((EOS,), IMPOSSIBLE, IMPOSSIBLE)])
        return result
