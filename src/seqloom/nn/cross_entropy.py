"""The cross-entropy of a softmax over many words, without ever holding the scores of all targets at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

GRAIN = 64  # words, of which a GPU scores a multiple


def cross_entropy(
    features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float = 0.0, cap: float = 0.0
) -> Tensor:
    """Σ_n (1 - ε) · -log p(y_n | h_n)  +  ε/V · Σ_w -log p(w | h_n),   where p(w | h) ∝ exp(s_w), s_w = W_w · h + b_w.

    features h [n, size], weight W [V, size], bias b [V], targets y [n] -> a scalar. ε is `smoothing`: label smoothing
    (Szegedy et al. 2016, https://arxiv.org/abs/1512.00567), which asks for p(w) = ε/V of all words but the target.
    Where there is a cap c, c · tanh(s_w / c) stands for s_w.

    A few rows at a time are scored, and their share of the gradients is taken at once, with p - ε/V - (1 - ε) · [w = y]
    for the scores (times 1 - tanh² under a cap); the backward pass only scales. Under autocast the products are of its
    type; all else is float32 or better. A compiler is given the formula as it stands: it never writes the scores in
    float32 itself, and keeps them between the passes as the products leave them.

    On a GPU there are words of no vector besides, of probability 0, until their number is one that its products like.
    """
    if torch.compiler.is_compiling():
        missing = 0 if smoothing else _missing(features.device.type, len(weight))
        scores = F.linear(features, *_widened(weight, bias, missing))
        scores = capped(scores.to(torch.promote_types(scores.dtype, torch.float32)), cap)
        if missing:
            scores = scores.masked_fill(torch.arange(scores.size(1), device=scores.device) >= len(weight), -torch.inf)
        return F.cross_entropy(scores, targets, reduction="sum", label_smoothing=smoothing)
    if not torch.is_grad_enabled():  # then nobody will ask for gradients, whatever requires them
        features, weight = features.detach(), weight.detach()
        bias = None if bias is None else bias.detach()
    return _CrossEntropy.apply(features, weight, bias, targets, smoothing, cap)


def capped(scores: Tensor, cap: float) -> Tensor:
    """cap · tanh(scores / cap), which keeps them between -cap and cap; as they are where there is no cap."""
    return torch.tanh(scores / cap) * cap if cap else scores


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        cap: float,
    ) -> Tensor:
        device = features.device.type
        product_type = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        exact_type = torch.promote_types(weight.dtype, torch.float32)
        count, missing = len(weight), _missing(device, len(weight))
        inputs, words = features.to(product_type), weight.to(product_type)
        words, shifts = _widened(words, None if bias is None else bias.to(product_type), missing)
        for_features, for_weight, for_bias, *_ = ctx.needs_input_grad
        features_gradient = torch.empty_like(features) if for_features else None
        weight_gradient = torch.zeros_like(words, dtype=exact_type) if for_weight else None
        bias_gradient = torch.zeros_like(shifts, dtype=exact_type) if for_bias and shifts is not None else None
        even, rest = smoothing / count, 1.0 - smoothing
        total = torch.zeros((), dtype=exact_type, device=features.device)

        rows = _rows_at_once(device, count)
        with torch.autocast(device, enabled=False):
            for first in range(0, len(targets), rows):
                part = slice(first, first + rows)
                right = targets[part].unsqueeze(1)
                scores = capped(F.linear(inputs[part], words, shifts).to(exact_type), cap)
                steepness = 1 - (scores / cap).square() if cap else None
                if missing:
                    scores[:, count:] = -torch.inf
                probabilities = scores.softmax(1)
                # log Σ_w exp(score_w) by the likeliest word, whose probability is 1/V or more: no second exponential
                normaliser = scores.amax(1) - probabilities.amax(1).log()
                total += normaliser.sum() - rest * scores.gather(1, right).sum()
                if smoothing:
                    total -= even * scores[:, :count].sum()
                del scores

                slopes = probabilities.sub_(even) if smoothing else probabilities
                slopes.scatter_add_(1, right, slopes.new_full((1, 1), -rest).expand_as(right))
                if steepness is not None:
                    slopes *= steepness
                if bias_gradient is not None:
                    bias_gradient += slopes.sum(0)
                slopes = slopes.to(product_type)
                if features_gradient is not None:
                    features_gradient[part] = slopes @ words
                if weight_gradient is not None:
                    weight_gradient += slopes.t() @ inputs[part]

        if weight_gradient is not None:
            weight_gradient = weight_gradient[:count].to(weight.dtype)
        if bias_gradient is not None and bias is not None:
            bias_gradient = bias_gradient[:count].to(bias.dtype)
        ctx.save_for_backward(features_gradient, weight_gradient, bias_gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [None if saved is None else saved * gradient.to(saved.dtype) for saved in ctx.saved_tensors]
        return *scaled, None, None, None


def _missing(device: str, words: int) -> int:
    """How many words are missing to a multiple of the grain: rows of scores that begin at odd places, as with 50,257
    words, are nothing that a GPU's fastest kernels can write."""
    return -words % GRAIN if device == "cuda" else 0


def _widened(weight: Tensor, bias: Tensor | None, missing: int) -> tuple[Tensor, Tensor | None]:
    """Vectors and biases with zeros for so many words more."""
    if not missing:
        return weight, bias
    return F.pad(weight, (0, 0, 0, missing)), None if bias is None else F.pad(bias, (0, missing))


def _rows_at_once(device: str, vocabulary_size: int) -> int:
    """Enough rows to keep the products busy; on the CPU no more, so that their scores stay in its cache."""
    return 256 if device == "cpu" else max(256, (1 << 26) // vocabulary_size)
