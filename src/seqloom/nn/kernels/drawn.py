"""A draw from each row of log-probabilities, in one pass over memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LONGEST = 1 << 16  # columns that the registers of one program hold


def drawn(log_probs: Tensor) -> Tensor:
    """One column of each row of log_probs [rows, size], which need not be normalised: the largest of log p + Gumbel
    noise is a draw from p (Maddison et al. 2014, "A* Sampling"). With u uniform between 0 and 1,

        argmax_i (log p_i - log e_i),   e_i = -log(1 - u_i)
    """
    rows, size = log_probs.shape
    columns = torch.empty(rows, dtype=torch.long, device=log_probs.device)
    seed = torch.randint(1 << 31, (1,), device=log_probs.device)
    block = triton.next_power_of_2(size)
    warps = min(max(block // 512, 1), 16)
    _drawn[(rows,)](log_probs, columns, seed, size, log_probs.stride(0), block, num_warps=warps)
    return columns


@triton.jit  # type: ignore[untyped-decorator]
def _drawn(log_probs, drawn, seed, size, stride, block: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    log_prob = tl.load(log_probs + row * stride + columns, mask=columns < size, other=float("-inf")).to(tl.float32)
    # A whole number of 2^-31, and half of one more: never 0, whose logarithm would win against everything.
    uniform = tl.rand(tl.load(seed) + row, columns) + 2.3e-10
    # -log(1 - u) is exponential, and the logarithm of what is exponential is Gumbel noise, with another sign. What
    # decides is how small it becomes: there 1 - u would lose its digits, and the first terms of the series do not.
    small = uniform * (1 + uniform * (0.5 + uniform / 3))
    exponential = tl.where(uniform < 1e-2, small, -tl.log(1 - tl.minimum(uniform, 0.9999999)))
    _, best = tl.max(log_prob - tl.log(exponential), axis=0, return_indices=True)
    tl.store(drawn + row, best.to(tl.int64))
