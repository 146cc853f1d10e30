"""The product of a matrix with one vector, which is as fast as the matrix can be read.

The library is made for many vectors. For one it takes several kernels, or leaves most of a GPU idle.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 192  # at least, where there are as many numbers to compute: more than a GPU has multiprocessors
LONGEST = 4096  # stretch of a row of the matrix that is read at once: shorter rows are waited for once
MOST = 8192  # numbers of the matrix that a program holds


def multiplied(inputs: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "") -> Tensor:
    """φ(W x + b): inputs [..., size] of one vector, weight [outputs, size], bias [outputs] -> [..., outputs]. What is
    added up is in float32.

    φ by its name in a configuration: "relu", max(0, x), or "gelu-tanh", x σ(2 √(2/π) (x + 0.044715 x³)), which is the
    same as with a tanh; or none.
    """
    outputs, size = weight.shape
    found = torch.empty(*inputs.shape[:-1], outputs, dtype=inputs.dtype, device=inputs.device)
    block = min(triton.next_power_of_2(size), LONGEST)
    several = min(1 << max(outputs // PROGRAMS, 1).bit_length() - 1, MOST // block, 8)
    tensors = inputs.contiguous(), weight, weight if bias is None else bias, found
    way = size, bias is not None, activation, several, block
    _multiplied[(triton.cdiv(outputs, several),)](tensors, outputs, *way)
    return found


@triton.jit  # type: ignore[untyped-decorator]
def _multiplied(  # type: ignore[no-untyped-def]
    tensors,
    outputs,
    size: tl.constexpr,
    has_bias: tl.constexpr,
    activation: tl.constexpr,
    several: tl.constexpr,
    block: tl.constexpr,
):
    inputs, weight, bias, found = tensors
    numbers = tl.program_id(0) * several + tl.arange(0, several)
    real = numbers < outputs
    rows = numbers.to(tl.int64) * size
    products = tl.zeros([several, block], tl.float32)
    for first in range(0, size, block):
        columns = first + tl.arange(0, block)
        inside = columns < size
        vector = tl.load(inputs + columns, mask=inside, other=0.0).to(tl.float32)
        wanted = real[:, None] & inside[None, :]
        matrix = tl.load(weight + rows[:, None] + columns[None, :], mask=wanted, other=0.0).to(tl.float32)
        products += matrix * vector[None, :]
    result = tl.sum(products, axis=1)
    if has_bias:
        result += tl.load(bias + numbers, mask=real, other=0.0).to(tl.float32)
    if activation == "relu":
        result = tl.where(result < 0, 0.0, result)
    if activation == "gelu-tanh":
        inner = 1.5957691216057308 * (result + 0.044715 * result * result * result)
        result = result / (1 + tl.exp(-inner))
    tl.store(found + numbers, result.to(found.dtype.element_ty), mask=real)
