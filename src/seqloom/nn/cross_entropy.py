"""The cross-entropy of a softmax over many words, without ever holding the scores of all targets at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from seqloom.nn import kernels

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
    type; all else is float32 or better. On a GPU it is memory that this waits for, so a kernel turns scores into slopes
    where they are (`nn/kernels/entropy.py`), and a compiler is told of all this as of one operation. For a processor it
    is given the formula as it stands: it never writes the scores in float32 itself.

    On a GPU there are words of no vector besides, of probability 0, until their number is one that its products like.
    """
    if torch.compiler.is_compiling():
        if _is_one_operation(features):
            total, *_ = _cross_entropy(features, weight, bias, targets, smoothing, cap, _product_type(weight))
            return total
        scores = F.linear(features, weight, bias)
        scores = capped(scores.to(torch.promote_types(scores.dtype, torch.float32)), cap)
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
        wanted = ctx.needs_input_grad[:3]
        total, *gradients = _found(features, weight, bias, targets, smoothing, cap, _product_type(weight), wanted)
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return *_scaled(ctx.saved_tensors, gradient), None, None, None


@torch.library.custom_op("seqloom::cross_entropy", mutates_args=())
def _cross_entropy(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    cap: float,
    product_type: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For a compiler: the loss, and its gradients by features, weight and bias."""
    total, *gradients = _found(features, weight, bias, targets, smoothing, cap, product_type, (True,) * 3)
    for_features, for_weight, for_bias = (features.new_empty(0) if each is None else each for each in gradients)
    return total, for_features, for_weight, for_bias


@_cross_entropy.register_fake
def _(features: Tensor, weight: Tensor, bias: Tensor | None, *_: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    total = weight.new_empty((), dtype=torch.promote_types(weight.dtype, torch.float32))
    for_bias = features.new_empty(0) if bias is None else torch.empty_like(bias)
    return total, torch.empty_like(features), torch.empty_like(weight), for_bias


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.biased = inputs[2] is not None
    ctx.save_for_backward(*output[1:])
    ctx.mark_non_differentiable(*output[1:])


def _differentiate(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    for_features, for_weight, for_bias = _scaled(ctx.saved_tensors, gradient)
    return for_features, for_weight, for_bias if ctx.biased else None, None, None, None, None


_cross_entropy.register_autograd(_differentiate, setup_context=_keep)


def _is_one_operation(features: Tensor) -> bool:
    """Whether a compiler is not to look inside."""
    return kernels.available(features) and features.dtype != torch.float64


def _product_type(weight: Tensor) -> torch.dtype:
    """What products are computed in."""
    device = weight.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype


def _scaled(gradients: Sequence[Tensor | None], factor: Tensor) -> list[Tensor | None]:
    return [None if each is None else each * factor.to(each.dtype) for each in gradients]


def _found(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    cap: float,
    product_type: torch.dtype,
    wanted: Sequence[bool],
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """The loss, and those of its gradients by features, weight and bias that are wanted."""
    device, exact_type = features.device.type, torch.promote_types(weight.dtype, torch.float32)
    count, missing = len(weight), _missing(device, len(weight))
    inputs = features.to(product_type)
    words, shifts = _widened(weight.to(product_type), None if bias is None else bias.to(product_type), missing)
    for_features, for_weight, for_bias = wanted
    features_gradient = torch.empty_like(features) if for_features else None
    weight_gradient, bias_gradient = None, None
    total = torch.zeros((), dtype=exact_type, device=features.device)

    by_kernel = exact_type == torch.float32 and kernels.available(features)
    judge = _judge_by_kernel if by_kernel else _judge
    rows = _rows_at_once(device, count, words.element_size() if by_kernel else None)
    with torch.autocast(device, enabled=False):
        for first in range(0, len(targets), rows):
            part = slice(first, first + rows)
            slopes = judge(F.linear(inputs[part], words, shifts), targets[part], count, smoothing, cap, total)
            if for_bias and shifts is not None:
                bias_gradient = _sum(bias_gradient, slopes.sum(0, dtype=exact_type))
            slopes = slopes.to(product_type)
            if features_gradient is not None:
                _put_product(slopes, words, features_gradient[part])
            if for_weight:
                weight_gradient = _sum(weight_gradient, _product(slopes.t(), inputs[part], exact_type))
            del slopes  # before the next rows are scored: there is room for one piece of scores

    if for_weight:
        weight_gradient = _of_words(weight_gradient, weight)
    if for_bias and bias is not None:
        bias_gradient = _of_words(bias_gradient, bias)
    return total, features_gradient, weight_gradient, bias_gradient


def _judge(scores: Tensor, targets: Tensor, count: int, smoothing: float, cap: float, total: Tensor) -> Tensor:
    """Scores [rows, words] -> their slopes, in float32 or better; the loss is added to `total`."""
    scores = capped(scores.to(total.dtype), cap)
    even, rest, right = smoothing / count, 1.0 - smoothing, targets.unsqueeze(1)
    steepness = 1 - (scores / cap).square() if cap else None
    if count < scores.size(1):
        scores[:, count:] = -torch.inf
    probabilities = scores.softmax(1)
    # log Σ_w exp(score_w) by the likeliest word, whose probability is 1/V or more: no second exponential
    normaliser = scores.amax(1) - probabilities.amax(1).log()
    total += normaliser.sum() - rest * scores.gather(1, right).sum()
    if smoothing:
        total -= even * scores[:, :count].sum()

    slopes = probabilities.sub_(even) if smoothing else probabilities
    slopes.scatter_add_(1, right, slopes.new_full((1, 1), -rest).expand_as(right))
    if steepness is not None:
        slopes *= steepness
    return slopes


def _judge_by_kernel(
    scores: Tensor, targets: Tensor, count: int, smoothing: float, cap: float, total: Tensor
) -> Tensor:
    """The same in the place of the scores, and of their type."""
    from seqloom.nn.kernels.entropy import losses_and_slopes

    total += losses_and_slopes(scores, targets, count, smoothing, cap).sum()
    return scores


def _missing(device: str, words: int) -> int:
    """How many words are missing to a multiple of the grain: rows of scores that begin at odd places, as with 50,257
    words, are nothing that a GPU's fastest kernels can write."""
    return -words % GRAIN if device == "cuda" else 0


def _widened(weight: Tensor, bias: Tensor | None, missing: int) -> tuple[Tensor, Tensor | None]:
    """Vectors and biases with zeros for so many words more."""
    if not missing:
        return weight, bias
    return F.pad(weight, (0, 0, 0, missing)), None if bias is None else F.pad(bias, (0, missing))


def _product(left: Tensor, right: Tensor, kind: torch.dtype) -> Tensor:
    """A product in this type: a GPU adds up short types in float32, and need not round what comes out."""
    if left.is_cuda and kind == torch.float32 and left.dtype in (torch.bfloat16, torch.float16):
        return torch.mm(left, right, out_dtype=kind)
    return (left @ right).to(kind)


def _put_product(left: Tensor, right: Tensor, place: Tensor) -> None:
    """A product in its place, whatever that is of."""
    if place.dtype == left.dtype:
        torch.mm(left, right, out=place)
    else:
        place.copy_(left @ right)


def _sum(before: Tensor | None, part: Tensor) -> Tensor:
    return part if before is None else before.add_(part)


def _of_words(gradient: Tensor | None, like: Tensor) -> Tensor:
    """The gradient of those words that there are; zeros where there was no target."""
    return torch.zeros_like(like) if gradient is None else gradient[: len(like)].to(like.dtype)


def _rows_at_once(device: str, vocabulary_size: int, bytes_each: int | None = None) -> int:
    """Enough rows to keep the products busy; on the CPU no more, so that their scores stay in its cache. On a GPU, a
    kernel holds their scores alone, of so many bytes each, and for a gigabyte of these the gradient of the weights is
    written once or twice; without one there are copies in float32."""
    if device == "cpu":
        return 256
    scores = (1 << 26) if bytes_each is None else (1 << 30) // bytes_each
    return max(256, scores // vocabulary_size // 256 * 256)
