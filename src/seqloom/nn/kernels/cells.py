"""Steps of the LSTM's variants, for training: all of a step that is not a product of matrices is one kernel.

Each step waits for the one before, and its tensors are small: what it costs is the number of launches. Here these are
two, the product with the recurrent matrix and the rest of the step; the backward pass has the same two in the other
order. What plain torch does instead is in `nn/cells.py`, with which this shares all shapes.

With a_t = W x_t + b (`projected`) and the product U h_{t-1}, a step of the LSTM with peepholes p is

    i = σ(a_i + U_i h + p_i ⊙ c),   f = σ(a_f + U_f h + p_f ⊙ c),   g = tanh(a_g + U_g h)
    c' = f ⊙ c + i ⊙ g
    o = σ(a_o + U_o h + p_o ⊙ c'),   s = tanh(c'),   h' = o ⊙ s

and backwards, from dh', the gradient of h' (from above, and through the product from the step after), and dc', that of
c' from the step after, with d_x the gradient of what stands within σ or tanh of gate x,

    d_o = dh' ⊙ s ⊙ o ⊙ (1 - o)
    dc' + dh' ⊙ o ⊙ (1 - s²) + d_o ⊙ p_o      is all of the gradient of c', called dc' from here on
    d_i = dc' ⊙ g ⊙ i ⊙ (1 - i),   d_f = dc' ⊙ c ⊙ f ⊙ (1 - f),   d_g = dc' ⊙ i ⊙ (1 - g²)
    dc = dc' ⊙ f + d_i ⊙ p_i + d_f ⊙ p_f,   dh = Uᵀ d

With coupled gates there is no p, and i = 1 - f:

    c' = f ⊙ c + (1 - f) ⊙ g
    d_f = dc' ⊙ (c - g) ⊙ f ⊙ (1 - f),   d_g = dc' ⊙ (1 - f) ⊙ (1 - g²),   dc = dc' ⊙ f
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

WIDEST = 256  # numbers of a row that one program takes

Steps = tuple[Tensor, Tensor, Tensor, Tensor]
Gradients = tuple[Tensor, Tensor, Tensor]


def peephole_steps(projected: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, peepholes: Tensor) -> Steps:
    """projected [time, batch, 4 · size], hidden and cell [batch, size], peepholes [3, size] -> the gates [time, batch,
    4, size], hidden states and cells [time + 1, batch, size] from the first on, and tanh of the cells after it."""
    return _steps(_peephole_step, 4, projected, hidden, cell, weight, peepholes.contiguous())


def coupled_steps(projected: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor) -> Steps:
    """The same with three gates: forget gate, candidate, output gate."""
    return _steps(_coupled_step, 3, projected, hidden, cell, weight)


def peephole_gradients(
    gates: Tensor,
    cells: Tensor,
    squashed: Tensor,
    weight: Tensor,
    peepholes: Tensor,
    grad_hidden: Tensor,
    grad_cell: Tensor,
) -> Gradients:
    """From what `peephole_steps` found and the gradients of all hidden states [time, batch, size] and of the last cell:
    those of the pre-activations [time, batch, 4, size], the first hidden state and the first cell."""
    return _gradients(
        _peephole_gradient, gates, cells, squashed, weight, grad_hidden, grad_cell, peepholes.contiguous()
    )


def coupled_gradients(
    gates: Tensor, cells: Tensor, squashed: Tensor, weight: Tensor, grad_hidden: Tensor, grad_cell: Tensor
) -> Gradients:
    """The same with three gates."""
    return _gradients(_coupled_gradient, gates, cells, squashed, weight, grad_hidden, grad_cell)


class StepLauncher:
    """Launches a kernel for one step after the other: with the number of the step, and otherwise the same arguments.

    Before a launch Triton looks at every argument for the program that was compiled for such, which takes the processor
    longer than the kernel takes the GPU. Here it is the same program at every step, so only the first launch does so.
    """

    def __init__(self, kernel: Any, programs: tuple[int, int, int], *arguments: Any) -> None:
        self._launch, self._programs, self._arguments = kernel[programs], programs, arguments

    def __call__(self, step: int) -> None:
        program = self._launch(step, *self._arguments)
        if program is not None:  # a program that was found before returns nothing, nor does Triton's interpreter
            self._launch = program[self._programs]


def _steps(
    kernel: Any, count: int, projected: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, *peepholes: Tensor
) -> Steps:
    time, batch, size = projected.size(0), *hidden.shape
    gates = projected.new_empty(time, batch, count, size)
    hiddens, cells = projected.new_empty(2, time + 1, batch, size)
    squashed = projected.new_empty(time, batch, size)
    hiddens[0], cells[0] = hidden, cell
    product = projected.new_empty(batch, count * size)
    # Not addmm, which would first copy the projections to where it adds the product: the kernel adds the two.
    tensors = (projected.contiguous(), product, *peepholes, gates, hiddens, cells, squashed)
    launch, recurrent = _launcher(kernel, tensors, batch, size), weight.t()
    for step, before in enumerate(hiddens[:-1].unbind()):
        torch.mm(before, recurrent, out=product)
        launch(step)
    return gates, hiddens, cells, squashed


def _gradients(
    kernel: Any,
    gates: Tensor,
    cells: Tensor,
    squashed: Tensor,
    weight: Tensor,
    grad_hidden: Tensor,
    grad_cell: Tensor,
    *peepholes: Tensor,
) -> Gradients:
    time, batch, count, size = gates.shape
    grad_gates = torch.empty_like(gates)
    product = gates.new_zeros(batch, size)  # the gradient of a hidden state through the step after it
    grad_cell = grad_cell.clone(memory_format=torch.contiguous_format)  # becomes that of the cell before, step by step
    tensors = (grad_hidden.contiguous(), product, *peepholes, gates, cells, squashed, grad_gates, grad_cell)
    launch = _launcher(kernel, tensors, batch, size)
    each = grad_gates.view(time, batch, count * size).unbind()
    for step in reversed(range(time)):
        launch(step)
        torch.mm(each[step], weight, out=product)
    return grad_gates, product, grad_cell


def _launcher(kernel: Any, tensors: tuple[Tensor, ...], batch: int, size: int) -> StepLauncher:
    block = min(WIDEST, triton.next_power_of_2(size))
    return StepLauncher(kernel, (batch, triton.cdiv(size, block), 1), *tensors, batch, size, block)


# The number of the step is never compiled into a program, as other whole numbers are that are 1 or multiples of 16.
@triton.jit(do_not_specialize=["step"])  # type: ignore[untyped-decorator]
def _peephole_step(  # type: ignore[no-untyped-def]
    step, projected, product, peepholes, gates, hiddens, cells, squashed, batch, size, block: tl.constexpr
):
    row, columns, real = _part(size, block)
    line = step.to(tl.int64) * batch + row  # of all rows of all steps
    now = line * size + columns
    after = now + batch * size  # in what begins with the state before the first step
    first = line * 4 * size + columns  # of a row's gates
    added = row * 4 * size + columns
    before = tl.load(cells + now, mask=real, other=0.0)
    to_enter = tl.load(peepholes + columns, mask=real, other=0.0)
    to_forget = tl.load(peepholes + size + columns, mask=real, other=0.0)
    to_output = tl.load(peepholes + 2 * size + columns, mask=real, other=0.0)
    enter = tl.sigmoid(_sum(projected + first, product + added, real) + to_enter * before)
    forget = tl.sigmoid(_sum(projected + first + size, product + added + size, real) + to_forget * before)
    candidate = _tanh(_sum(projected + first + 2 * size, product + added + 2 * size, real))
    cell = forget * before + enter * candidate
    output = tl.sigmoid(_sum(projected + first + 3 * size, product + added + 3 * size, real) + to_output * cell)
    squash = _tanh(cell)
    tl.store(gates + first, enter, mask=real)
    tl.store(gates + first + size, forget, mask=real)
    tl.store(gates + first + 2 * size, candidate, mask=real)
    tl.store(gates + first + 3 * size, output, mask=real)
    tl.store(cells + after, cell, mask=real)
    tl.store(squashed + now, squash, mask=real)
    tl.store(hiddens + after, output * squash, mask=real)


@triton.jit(do_not_specialize=["step"])  # type: ignore[untyped-decorator]
def _coupled_step(  # type: ignore[no-untyped-def]
    step, projected, product, gates, hiddens, cells, squashed, batch, size, block: tl.constexpr
):
    row, columns, real = _part(size, block)
    line = step.to(tl.int64) * batch + row
    now = line * size + columns
    after = now + batch * size
    first = line * 3 * size + columns
    added = row * 3 * size + columns
    before = tl.load(cells + now, mask=real, other=0.0)
    forget = tl.sigmoid(_sum(projected + first, product + added, real))
    candidate = _tanh(_sum(projected + first + size, product + added + size, real))
    output = tl.sigmoid(_sum(projected + first + 2 * size, product + added + 2 * size, real))
    cell = forget * before + (1 - forget) * candidate
    squash = _tanh(cell)
    tl.store(gates + first, forget, mask=real)
    tl.store(gates + first + size, candidate, mask=real)
    tl.store(gates + first + 2 * size, output, mask=real)
    tl.store(cells + after, cell, mask=real)
    tl.store(squashed + now, squash, mask=real)
    tl.store(hiddens + after, output * squash, mask=real)


@triton.jit(do_not_specialize=["step"])  # type: ignore[untyped-decorator]
def _peephole_gradient(  # type: ignore[no-untyped-def]
    step,
    grad_hidden,
    product,
    peepholes,
    gates,
    cells,
    squashed,
    grad_gates,
    grad_cell,
    batch,
    size,
    block: tl.constexpr,
):
    row, columns, real = _part(size, block)
    line = step.to(tl.int64) * batch + row
    now = line * size + columns
    first = line * 4 * size + columns
    carried = row * size + columns
    enter = tl.load(gates + first, mask=real, other=0.0)
    forget = tl.load(gates + first + size, mask=real, other=0.0)
    candidate = tl.load(gates + first + 2 * size, mask=real, other=0.0)
    output = tl.load(gates + first + 3 * size, mask=real, other=0.0)
    before = tl.load(cells + now, mask=real, other=0.0)
    squash = tl.load(squashed + now, mask=real, other=0.0)
    to_enter = tl.load(peepholes + columns, mask=real, other=0.0)
    to_forget = tl.load(peepholes + size + columns, mask=real, other=0.0)
    to_output = tl.load(peepholes + 2 * size + columns, mask=real, other=0.0)
    grad = _sum(grad_hidden + now, product + carried, real)
    for_output = grad * squash * output * (1 - output)
    later = tl.load(grad_cell + carried, mask=real, other=0.0)
    for_cell = later + grad * output * (1 - squash * squash) + for_output * to_output
    for_enter = for_cell * candidate * enter * (1 - enter)
    for_forget = for_cell * before * forget * (1 - forget)
    for_candidate = for_cell * enter * (1 - candidate * candidate)
    tl.store(grad_gates + first, for_enter, mask=real)
    tl.store(grad_gates + first + size, for_forget, mask=real)
    tl.store(grad_gates + first + 2 * size, for_candidate, mask=real)
    tl.store(grad_gates + first + 3 * size, for_output, mask=real)
    tl.store(grad_cell + carried, for_cell * forget + for_enter * to_enter + for_forget * to_forget, mask=real)


@triton.jit(do_not_specialize=["step"])  # type: ignore[untyped-decorator]
def _coupled_gradient(  # type: ignore[no-untyped-def]
    step, grad_hidden, product, gates, cells, squashed, grad_gates, grad_cell, batch, size, block: tl.constexpr
):
    row, columns, real = _part(size, block)
    line = step.to(tl.int64) * batch + row
    now = line * size + columns
    first = line * 3 * size + columns
    carried = row * size + columns
    forget = tl.load(gates + first, mask=real, other=0.0)
    candidate = tl.load(gates + first + size, mask=real, other=0.0)
    output = tl.load(gates + first + 2 * size, mask=real, other=0.0)
    before = tl.load(cells + now, mask=real, other=0.0)
    squash = tl.load(squashed + now, mask=real, other=0.0)
    grad = _sum(grad_hidden + now, product + carried, real)
    later = tl.load(grad_cell + carried, mask=real, other=0.0)
    for_cell = later + grad * output * (1 - squash * squash)
    tl.store(grad_gates + first, for_cell * (before - candidate) * forget * (1 - forget), mask=real)
    tl.store(grad_gates + first + size, for_cell * (1 - forget) * (1 - candidate * candidate), mask=real)
    tl.store(grad_gates + first + 2 * size, grad * squash * output * (1 - output), mask=real)
    tl.store(grad_cell + carried, for_cell * forget, mask=real)


@triton.jit  # type: ignore[untyped-decorator]
def _part(size, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """The row that this program takes, the columns, and which of them there are."""
    columns = tl.program_id(1) * block + tl.arange(0, block)
    return tl.program_id(0).to(tl.int64), columns, columns < size


@triton.jit
def _sum(one, other, real):  # type: ignore[no-untyped-def]
    return tl.load(one, mask=real, other=0.0) + tl.load(other, mask=real, other=0.0)


@triton.jit
def _tanh(number):  # type: ignore[no-untyped-def]
    """tanh |x| = (1 - e^(-2|x|)) / (1 + e^(-2|x|)), and the sign of x. Near 0 that loses its digits, and the first
    terms of the series do not."""
    square = number * number
    series = number * (1 + square * (-1 / 3 + square * (2 / 15 + square * (-17 / 315 + square * (62 / 2835)))))
    small = tl.exp(-2 * tl.abs(number))
    quotient = (1 - small) / (1 + small)
    return tl.where(square < 0.0625, series, tl.where(number < 0, -quotient, quotient))
