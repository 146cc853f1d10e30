"""LSTM variants the library has no kernel for: peepholes, and coupled input and forget gates.

A cell reads a whole window. The input projections of all steps are one matrix product; only what depends on the step
before stays in the loop. The backward pass is written by hand, because automatic differentiation would add up the
gradient of the recurrent matrix step by step: here the loop carries the gradients of hidden state and cell alone, and
the gradient of the matrix is one product over all steps at the end. On GPUs, kernels take the steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from seqloom.config.schema.base import Start
from seqloom.nn.dropout import drop_values
from seqloom.nn.kernels import available
from seqloom.nn.linear import linear, settled
from seqloom.nn.starts import start_recurrent


class RecurrentLayer(nn.Module, ABC):
    """One layer of a recurrent network: reads a window of inputs and carries its memory on."""

    size: int
    memory: tuple[str, ...] = ("hidden",)
    """The names of what it remembers, each [batch, size]."""

    @abstractmethod
    def forward(self, inputs: Tensor, memory: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """inputs [batch, time, input_size] -> outputs [batch, time, size], and the memory after the last step."""


def backpropagate(
    slopes: Tensor, cell_slope: Tensor, carry: Tensor, weight: Tensor, grad_hidden: Tensor, grad_cell: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The loop back through time that both cells share. The output gate is the last gate of both.

    Within a step everything is linear in the gradients of hidden state and cell, so all local derivatives are computed
    beforehand, for all steps at once:

    slopes [time, batch, gates, size]: of the hidden state (output gate) or the cell (others) by each gate's
    pre-activation; cell_slope [time, batch, size]: of the hidden state by the cell; carry [time, batch, size]: of the
    cell by the cell before. grad_hidden [time, batch, size] comes from above, grad_cell [batch, size] from the future.

    Returns the gradients of the pre-activations (in the place of `slopes`), the first hidden state and the first cell.
    """
    time, batch, gates, size = slopes.shape
    output_slopes, other_slopes = slopes[:, :, -1].unbind(), slopes[:, :, :-1].unbind()
    grad_gates = slopes.view(time, batch, gates * size).unbind()
    grad_before = torch.zeros_like(grad_cell)  # of the hidden state, through the step after it
    for step in reversed(range(time)):
        grad = grad_before.add_(grad_hidden[step])
        output_slopes[step].mul_(grad)
        grad_cell = torch.addcmul(grad_cell, grad, cell_slope[step])
        other_slopes[step].mul_(grad_cell.unsqueeze(1))
        grad_cell.mul_(carry[step])
        grad_before = grad_gates[step] @ weight
    return slopes, grad_before, grad_cell


def peephole_steps(
    projected: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, peepholes: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """projected [time, batch, 4 · size], hidden and cell [batch, size] -> the gates [time, batch, 4, size], hidden
    states and cells [time + 1, batch, size] from the first on, and tanh of the cells after it."""
    if _suits_kernels(projected):
        from seqloom.nn.kernels import cells as kernels

        return kernels.peephole_steps(projected, hidden, cell, weight, peepholes)
    time, batch, size = projected.size(0), *hidden.shape
    gates = projected.new_empty(time, batch, 4, size)  # input, forget, candidate, output: the library's order
    hiddens, cells = projected.new_empty(2, time + 1, batch, size)
    squashed = projected.new_empty(time, batch, size)
    hiddens[0], cells[0] = hidden, cell
    flat = gates.view(time, batch, 4 * size).unbind()
    input_forget, candidates, outputs = gates[:, :, :2].unbind(), gates[:, :, 2].unbind(), gates[:, :, 3].unbind()
    recurrent = weight.t()
    for step in range(time):
        before, now = cells[step], cells[step + 1]
        torch.addmm(projected[step], hiddens[step], recurrent, out=flat[step])
        input_forget[step].addcmul_(before.unsqueeze(1), peepholes[:2]).sigmoid_()
        candidate, output = candidates[step].tanh_(), outputs[step]
        torch.mul(input_forget[step][:, 0], candidate, out=now)
        now.addcmul_(input_forget[step][:, 1], before)
        output.addcmul_(now, peepholes[2]).sigmoid_()
        torch.tanh(now, out=squashed[step])
        torch.mul(output, squashed[step], out=hiddens[step + 1])
    return gates, hiddens, cells, squashed


def peephole_gradients(
    gates: Tensor,
    cells: Tensor,
    squashed: Tensor,
    weight: Tensor,
    peepholes: Tensor,
    grad_hidden: Tensor,
    grad_cell: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """What `backpropagate` returns, from what `peephole_steps` found."""
    if _suits_kernels(gates):
        from seqloom.nn.kernels import cells as kernels

        return kernels.peephole_gradients(gates, cells, squashed, weight, peepholes, grad_hidden, grad_cell)
    input, forget, candidate, output = gates.unbind(2)
    slopes = torch.empty_like(gates)
    slopes[:, :, 0] = candidate * input * (1 - input)
    slopes[:, :, 1] = cells[:-1] * forget * (1 - forget)
    slopes[:, :, 2] = input * (1 - candidate.square())
    slopes[:, :, 3] = squashed * output * (1 - output)
    cell_slope = output * (1 - squashed.square()) + slopes[:, :, 3] * peepholes[2]
    carry = forget + slopes[:, :, 0] * peepholes[0] + slopes[:, :, 1] * peepholes[1]
    return backpropagate(slopes, cell_slope, carry, weight, grad_hidden, grad_cell)


class PeepholeScan(torch.autograd.Function):
    """All steps of `PeepholeLayer`, from the input projections on."""

    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, peepholes: Tensor
    ) -> tuple[Tensor, Tensor]:
        """projected [time, batch, 4 · size], hidden and cell [batch, size] -> all hidden states, the last cell."""
        gates, hiddens, cells, squashed = peephole_steps(projected, hidden, cell, weight, peepholes)
        ctx.save_for_backward(gates, hiddens, cells, squashed, weight, peepholes)
        return hiddens[1:], cells[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hiddens: Tensor, grad_cell: Tensor) -> tuple[Tensor, ...]:
        gates, hiddens, cells, squashed, weight, peepholes = ctx.saved_tensors
        grad_gates, grad_hidden, grad_cell = peephole_gradients(
            gates, cells, squashed, weight, peepholes, grad_hiddens, grad_cell
        )
        grad_weight = grad_gates.flatten(2).flatten(0, 1).t() @ hiddens[:-1].flatten(0, 1)
        before, now = cells[:-1], cells[1:]
        seen = {0: before, 1: before, 3: now}  # by the gates: input, forget, output
        grad_peepholes = torch.stack([(grad_gates[:, :, gate] * cell).sum((0, 1)) for gate, cell in seen.items()])
        return grad_gates.flatten(2), grad_hidden, grad_cell, grad_weight, grad_peepholes


def coupled_steps(
    projected: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """projected [time, batch, 3 · size], hidden and cell [batch, size] -> the gates [time, batch, 3, size], hidden
    states and cells [time + 1, batch, size] from the first on, and tanh of the cells after it."""
    if _suits_kernels(projected):
        from seqloom.nn.kernels import cells as kernels

        return kernels.coupled_steps(projected, hidden, cell, weight)
    time, batch, size = projected.size(0), *hidden.shape
    gates = projected.new_empty(time, batch, 3, size)  # forget, candidate, output
    hiddens, cells = projected.new_empty(2, time + 1, batch, size)
    squashed = projected.new_empty(time, batch, size)
    hiddens[0], cells[0] = hidden, cell
    flat = gates.view(time, batch, 3 * size).unbind()
    forgets, candidates, outputs = (gate.unbind() for gate in gates.unbind(2))
    recurrent = weight.t()
    for step in range(time):
        torch.addmm(projected[step], hiddens[step], recurrent, out=flat[step])
        forget, candidate, output = forgets[step].sigmoid_(), candidates[step].tanh_(), outputs[step].sigmoid_()
        torch.lerp(candidate, cells[step], forget, out=cells[step + 1])  # f · before + (1 - f) · candidate
        torch.tanh(cells[step + 1], out=squashed[step])
        torch.mul(output, squashed[step], out=hiddens[step + 1])
    return gates, hiddens, cells, squashed


def coupled_gradients(
    gates: Tensor, cells: Tensor, squashed: Tensor, weight: Tensor, grad_hidden: Tensor, grad_cell: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """What `backpropagate` returns, from what `coupled_steps` found."""
    if _suits_kernels(gates):
        from seqloom.nn.kernels import cells as kernels

        return kernels.coupled_gradients(gates, cells, squashed, weight, grad_hidden, grad_cell)
    forget, candidate, output = gates.unbind(2)
    slopes = torch.empty_like(gates)
    slopes[:, :, 0] = (cells[:-1] - candidate) * forget * (1 - forget)
    slopes[:, :, 1] = (1 - forget) * (1 - candidate.square())
    slopes[:, :, 2] = squashed * output * (1 - output)
    cell_slope = output * (1 - squashed.square())
    return backpropagate(slopes, cell_slope, forget, weight, grad_hidden, grad_cell)


class CoupledScan(torch.autograd.Function):
    """All steps of `CoupledLayer`, from the input projections on."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """projected [time, batch, 3 · size], hidden and cell [batch, size] -> all hidden states, the last cell."""
        gates, hiddens, cells, squashed = coupled_steps(projected, hidden, cell, weight)
        ctx.save_for_backward(gates, hiddens, cells, squashed, weight)
        return hiddens[1:], cells[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hiddens: Tensor, grad_cell: Tensor) -> tuple[Tensor, ...]:
        gates, hiddens, cells, squashed, weight = ctx.saved_tensors
        grad_gates, grad_hidden, grad_cell = coupled_gradients(gates, cells, squashed, weight, grad_hiddens, grad_cell)
        grad_weight = grad_gates.flatten(2).flatten(0, 1).t() @ hiddens[:-1].flatten(0, 1)
        return grad_gates.flatten(2), grad_hidden, grad_cell, grad_weight


def _suits_kernels(tensor: Tensor) -> bool:
    """Whether our kernels, which compute in float32, can take this; a compiler makes its own."""
    return available(tensor) and tensor.dtype == torch.float32 and not torch.compiler.is_compiling()


class LoopedLayer(RecurrentLayer):
    """What the two cells share: the matrices, and the passage between [batch, time] and [time, batch].

    Matrices and biases start as the library's do, U(-1/√size, 1/√size), except the recurrent matrices (see `start`)
    and the forget gate's bias, which starts at 1: a cell remembers before it has learned what to forget (Gers et al.
    2000; Jozefowicz et al. 2015).
    """

    memory = ("hidden", "cell")

    def __init__(self, input_size: int, size: int, gates: int, forget: int, weight_drop: float, start: Start) -> None:
        super().__init__()
        self.size = size
        self.weight_drop = weight_drop
        self.input_weight = nn.Parameter(torch.empty(gates * size, input_size))
        self.recurrent_weight = nn.Parameter(torch.empty(gates * size, size))
        self.bias = nn.Parameter(torch.empty(gates * size))
        nn.init.uniform_(self.input_weight, -(size**-0.5), size**-0.5)
        nn.init.uniform_(self.bias, -(size**-0.5), size**-0.5)
        nn.init.ones_(self.bias.data.view(gates, size)[forget])
        start_recurrent(self.recurrent_weight, start)

    def forward(self, inputs: Tensor, memory: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        weight = drop_values(self.recurrent_weight, self.weight_drop, self.training)
        projected = linear(inputs.transpose(0, 1), self.input_weight, self.bias)  # [time, batch, gates · size]
        with torch.autocast(inputs.device.type, enabled=False):  # the recurrence itself stays in full precision
            hidden, cell = (tensor.to(weight.dtype) for tensor in memory)
            if inputs.size(1) == 1 and settled(self.recurrent_weight):
                # U h_{t-1} is known at once; what the loop adds to it is 0
                projected = projected + linear(hidden, self.recurrent_weight)
                hidden = torch.zeros_like(hidden)
            hiddens, cell = self.scan(projected.to(weight.dtype), hidden, cell, weight)
        return hiddens.transpose(0, 1), (hiddens[-1], cell)

    @abstractmethod
    def scan(self, projected: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """projected [time, batch, gates · size] -> hiddens [time, batch, size] and the last cell [batch, size]."""


class PeepholeLayer(LoopedLayer):
    """LSTM whose gates see the cell (Gers & Schmidhuber 2000, "Recurrent nets that time and count").

    i_t = σ(W_i x_t + U_i h_{t-1} + p_i ⊙ c_{t-1} + b_i)
    f_t = σ(W_f x_t + U_f h_{t-1} + p_f ⊙ c_{t-1} + b_f)
    c_t = f_t ⊙ c_{t-1} + i_t ⊙ tanh(W_c x_t + U_c h_{t-1} + b_c)
    o_t = σ(W_o x_t + U_o h_{t-1} + p_o ⊙ c_t + b_o)
    h_t = o_t ⊙ tanh(c_t)

    The peepholes p start at 0: the layer begins as an ordinary LSTM.
    """

    def __init__(self, input_size: int, size: int, weight_drop: float, start: Start) -> None:
        super().__init__(input_size, size, gates=4, forget=1, weight_drop=weight_drop, start=start)
        self.peepholes = nn.Parameter(torch.zeros(3, size))  # to the input, forget and output gates

    def scan(self, projected: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        return PeepholeScan.apply(projected, hidden, cell, weight, self.peepholes)


class CoupledLayer(LoopedLayer):
    """LSTM with coupled gates: it forgets exactly as much as it takes in (Greff et al. 2017, CIFG).

    f_t = σ(W_f x_t + U_f h_{t-1} + b_f),  i_t = 1 - f_t
    c_t = f_t ⊙ c_{t-1} + (1 - f_t) ⊙ tanh(W_c x_t + U_c h_{t-1} + b_c)
    h_t = σ(W_o x_t + U_o h_{t-1} + b_o) ⊙ tanh(c_t)
    """

    def __init__(self, input_size: int, size: int, weight_drop: float, start: Start) -> None:
        super().__init__(input_size, size, gates=3, forget=0, weight_drop=weight_drop, start=start)

    def scan(self, projected: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        return CoupledScan.apply(projected, hidden, cell, weight)
