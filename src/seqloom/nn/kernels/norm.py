"""A sum and its norm in one pass: what stands between any two sub-layers of a Transformer."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LONGEST = 1 << 13  # vectors that one program holds


def normed_sum(
    inputs: Tensor, outputs: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float, centred: bool
) -> tuple[Tensor, Tensor]:
    """norm(x) and x = inputs + outputs, both [..., size]:

        norm(x) = w ⊙ (x - m) / √(mean((x - m)²) + ε) + b

    with m the mean of x where it is `centred` (Ba et al. 2016, https://arxiv.org/abs/1607.06450), else 0 (Zhang &
    Sennrich 2019). x is rounded to its type before, as it is where the two are done one after the other.
    """
    inputs, outputs = inputs.contiguous(), outputs.contiguous()
    total, normed = torch.empty_like(inputs), torch.empty_like(inputs)
    size = inputs.size(-1)
    block = triton.next_power_of_2(size)
    tensors = inputs, outputs, weight, weight if bias is None else bias, total, normed
    warps = min(max(block // 256, 1), 8)
    way = centred, bias is not None, block
    _normed_sum[(inputs.numel() // size,)](tensors, size, epsilon, *way, num_warps=warps)
    return normed, total


@triton.jit  # type: ignore[untyped-decorator]
def _normed_sum(  # type: ignore[no-untyped-def]
    tensors, size, epsilon, centred: tl.constexpr, has_bias: tl.constexpr, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    inputs, outputs, weight, bias, total, normed = tensors
    columns = tl.arange(0, block)
    inside = columns < size
    at = row * size + columns
    added = tl.load(inputs + at, mask=inside, other=0.0).to(tl.float32)
    added += tl.load(outputs + at, mask=inside, other=0.0).to(tl.float32)
    rounded = added.to(total.dtype.element_ty)
    tl.store(total + at, rounded, mask=inside)
    vector = rounded.to(tl.float32)
    if centred:
        vector = tl.where(inside, vector - tl.sum(vector, axis=0) / size, 0.0)
    vector = vector / tl.sqrt(tl.sum(vector * vector, axis=0) / size + epsilon)
    vector *= tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    if has_bias:
        vector += tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(normed + at, vector.to(normed.dtype.element_ty), mask=inside)
