"""Recurrent networks as feature layers: stacks of one kind of layer, with dropout between."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.config.schema.base import Start
from seqloom.config.schema.language import SomeRecurrentFeatures
from seqloom.nn.activations import sigmoid
from seqloom.nn.cells import CoupledLayer, PeepholeLayer, RecurrentLayer
from seqloom.nn.dropout import choose_dropout, drop_values
from seqloom.nn.features import FeatureLayer
from seqloom.nn.linear import linear, settled
from seqloom.nn.starts import start_recurrent
from seqloom.nn.state import State


class LibraryLayer(RecurrentLayer):
    """One layer on the library's fused kernels (oneDNN, cuDNN).

    In training with `weight_drop`, the kernel gets a recurrent matrix of which some weights are dropped, the same ones
    for the whole window (Merity et al. 2018, https://arxiv.org/abs/1708.02182). Otherwise it gets the network's own
    weights, which the library keeps in one contiguous piece for cuDNN.
    """

    joins_layers = False
    """Whether cuDNN takes less time for several such layers in one call than for one after the other."""

    def __init__(
        self, network: nn.RNNBase, kernel: Callable[..., tuple[Tensor, ...]], weight_drop: float, start: Start
    ) -> None:
        super().__init__()
        self.size = network.hidden_size
        self.network = network
        self.kernel = kernel
        self.weight_drop = weight_drop
        _, recurrent, *_ = network.parameters()
        start_recurrent(recurrent, start)

    def forward(self, inputs: Tensor, memory: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        if inputs.size(1) == 1 and settled(next(self.network.parameters())):
            memory = self.step(inputs[:, 0], *memory)
            return memory[0].unsqueeze(1), memory
        outputs, after = self.window(inputs, [tensor.unsqueeze(0) for tensor in memory], self._weights())
        return outputs, tuple(tensor.squeeze(0) for tensor in after)

    def window(
        self, inputs: Tensor, before: Sequence[Tensor], weights: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """Read a window by the library's kernel, with as many layers as there are in the memory, each [layers, batch,
        size], and weights for each layer."""
        outputs, *after = self.kernel(
            inputs,
            before if len(before) > 1 else before[0],
            weights,
            True,  # there are biases
            len(before[0]),  # layers
            0.0,  # dropout between layers
            torch.is_grad_enabled(),  # keep what the backward pass needs
            False,  # one direction
            True,  # batch first
        )
        return outputs, after

    @abstractmethod
    def step(self, inputs: Tensor, *memory: Tensor) -> tuple[Tensor, ...]:
        """One step with weights that are settled: inputs [batch, input_size] -> the memory after it."""

    def projections(self, inputs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """W x_t + b and U h_{t-1} + b', for all gates."""
        weight, recurrent, bias, other_bias = self.network.parameters()
        return linear(inputs, weight, bias), linear(hidden, recurrent, other_bias)

    def _weights(self) -> list[Tensor]:
        """Input and recurrent matrix, and a bias for each: the network's own, or a copy with weights dropped."""
        weights: list[Tensor] = list(self.network.parameters())
        if self.training and self.weight_drop > 0.0:
            weights[1] = drop_values(weights[1], self.weight_drop, training=True)
            weights = in_one_piece(weights)
        return weights


def in_one_piece(weights: Sequence[Tensor]) -> list[Tensor]:
    """The same weights, one after the other in memory as cuDNN wants them: all matrices, and then all biases."""
    order = sorted(range(len(weights)), key=lambda place: weights[place].dim() == 1)
    together = torch.cat([weights[place].flatten() for place in order])
    pieces = together.split([weights[place].numel() for place in order])
    return [piece.view_as(weights[place]) for place, piece in sorted(zip(order, pieces, strict=True))]


def read_at_once(
    layers: Sequence[LibraryLayer], inputs: Tensor, memories: Sequence[tuple[Tensor, ...]]
) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
    """Read a window by layers of one kind and size, each with its memory, in one call of the library's kernel; nothing
    is dropped between them. cuDNN may work on one layer while another is still at steps before."""
    before = [torch.stack(tensors) for tensors in zip(*memories, strict=True)]  # each [layers, batch, size]
    weights = in_one_piece([weight for layer in layers for weight in layer.network.parameters()])
    outputs, after = layers[0].window(inputs, before, weights)
    return outputs, list(zip(*(tensor.unbind() for tensor in after), strict=True))


class RnnLayer(LibraryLayer):
    """Elman 1990: h_t = φ(W x_t + U h_{t-1} + b), where φ is tanh or the rectifier."""

    def __init__(self, input_size: int, size: int, weight_drop: float, start: Start, activation: str = "tanh") -> None:
        network = nn.RNN(input_size, size, batch_first=True, nonlinearity=activation)
        kernels = {"tanh": torch._VF.rnn_tanh, "relu": torch._VF.rnn_relu}
        super().__init__(network, kernels[activation], weight_drop, start)
        self.activation = {"tanh": torch.tanh, "relu": torch.relu}[activation]

    def step(self, inputs: Tensor, *memory: Tensor) -> tuple[Tensor, ...]:
        (hidden,) = memory
        projected, recurrent = self.projections(inputs, hidden)
        return (self.activation(projected.add_(recurrent)),)


class LstmLayer(LibraryLayer):
    """Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000.

    i_t, f_t, o_t = σ(W x_t + U h_{t-1} + b),  c_t = f_t ⊙ c_{t-1} + i_t ⊙ tanh(W_c x_t + U_c h_{t-1} + b_c),
    h_t = o_t ⊙ tanh(c_t).
    """

    memory = ("hidden", "cell")
    joins_layers = True

    def __init__(self, input_size: int, size: int, weight_drop: float, start: Start) -> None:
        network = nn.LSTM(input_size, size, batch_first=True)
        super().__init__(network, torch._VF.lstm, weight_drop, start)
        start_remembering(network)

    def step(self, inputs: Tensor, *memory: Tensor) -> tuple[Tensor, ...]:
        hidden, cell = memory
        return lstm_step(self.network, inputs, hidden, cell)


def lstm_step(network: nn.RNNBase, inputs: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One step of torch's LSTM with weights that are settled: inputs [batch, input_size] -> hidden state and cell."""
    weight, recurrent, bias, other_bias, *projection = network.parameters()
    gates = linear(inputs, weight, bias).add_(linear(hidden, recurrent, other_bias))
    enter, forget, candidate, output = gates.chunk(4, dim=1)
    cell = sigmoid(forget) * cell + sigmoid(enter) * torch.tanh(candidate)
    hidden = sigmoid(output) * torch.tanh(cell)
    return linear(hidden, *projection) if projection else hidden, cell


@torch.no_grad()
def start_remembering(network: nn.LSTM) -> None:
    """Let the forget gate's bias start at 1 (the library's two biases add up to it): a cell remembers before it has
    learned what to forget (Jozefowicz et al. 2015)."""
    _, _, bias, other_bias, *_ = network.parameters()
    forget = slice(network.hidden_size, 2 * network.hidden_size)  # after the input gate
    bias[forget] = 1.0
    other_bias[forget] = 0.0


class GruLayer(LibraryLayer):
    """Cho et al. 2014 (https://arxiv.org/abs/1406.1078), in the form of the library and cuDNN.

    r_t = σ(W_r x_t + U_r h_{t-1} + b_r),  z_t = σ(W_z x_t + U_z h_{t-1} + b_z)
    n_t = tanh(W_n x_t + b_n + r_t ⊙ (U_n h_{t-1} + b'_n))
    h_t = (1 - z_t) ⊙ n_t + z_t ⊙ h_{t-1}

    The reset gate multiplies U_n h_{t-1}, as in the paper's first version; its third version has U_n (r_t ⊙ h_{t-1}).
    Weights trained for one form do not fit the other.
    """

    def __init__(self, input_size: int, size: int, weight_drop: float, start: Start) -> None:
        super().__init__(nn.GRU(input_size, size, batch_first=True), torch._VF.gru, weight_drop, start)

    def step(self, inputs: Tensor, *memory: Tensor) -> tuple[Tensor, ...]:
        (hidden,) = memory
        projected, recurrent = self.projections(inputs, hidden)
        sizes = (2 * self.size, self.size)
        (gates, candidate), (hidden_gates, hidden_candidate) = projected.split(sizes, 1), recurrent.split(sizes, 1)
        reset, update = sigmoid(gates + hidden_gates).chunk(2, dim=1)
        return (torch.lerp(torch.tanh(candidate + reset * hidden_candidate), hidden, update),)


LAYERS: dict[str, type[RnnLayer | LstmLayer | PeepholeLayer | CoupledLayer | GruLayer]] = {
    "rnn": RnnLayer,
    "lstm": LstmLayer,
    "lstm-peephole": PeepholeLayer,
    "lstm-coupled": CoupledLayer,
    "gru": GruLayer,
}


def make_layer(config: SomeRecurrentFeatures, input_size: int, size: int) -> RecurrentLayer:
    """One layer of the kind that a configuration names."""
    options = (input_size, size, config.weight_drop, config.start)
    return RnnLayer(*options, config.activation) if config.kind == "rnn" else LAYERS[config.kind](*options)


class Recurrent(FeatureLayer):
    """A stack of recurrent layers; each reads what the one below gives out.

    The state of layer l is `layer{l}.hidden` and, for LSTMs, `layer{l}.cell`, each [batch, size of the layer].
    """

    carries = True
    sequential = True
    joins = True

    def __init__(self, config: SomeRecurrentFeatures, input_size: int) -> None:
        super().__init__()
        sizes = [input_size] + [config.size] * (config.layers - 1) + [config.output_size or config.size]
        self.output_size = sizes[-1]
        stack = [make_layer(config, below, above) for below, above in pairwise(sizes)]
        self.layers = nn.ModuleList(stack)
        self.memory = [[f"layer{depth}.{name}" for name in layer.memory] for depth, layer in enumerate(stack)]
        self.widths = {name: layer.size for layer, names in zip(stack, self.memory, strict=True) for name in names}
        self.hidden_dropout = choose_dropout(config.hidden_dropout, config.variational)
        self.dropout = choose_dropout(config.dropout, config.variational)

    def start(self, size: int, like: Tensor) -> State:
        return State({name: like.new_zeros(size, width) for name, width in self.widths.items()})

    def forward(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        after = State(position=state.position + inputs.size(1))
        if self._at_once(inputs):
            memories = [tuple(state[name] for name in names) for names in self.memory]
            layers: list[Any] = list(self.layers)
            hidden, memories = read_at_once(layers, inputs, memories)
            for names, memory in zip(self.memory, memories, strict=True):
                after.update(zip(names, memory, strict=True))
            return self.dropout(hidden), after
        hidden = inputs
        for depth, (layer, names) in enumerate(zip(self.layers, self.memory, strict=True)):
            if depth > 0:
                hidden = self.hidden_dropout(hidden)
            hidden, memory = layer(hidden, tuple(state[name] for name in names))
            after.update(zip(names, memory, strict=True))
        return self.dropout(hidden), after

    def _at_once(self, inputs: Tensor) -> bool:
        """Whether all layers are to read a window in one call: on a GPU, where nothing is dropped within or between."""
        if not inputs.is_cuda or inputs.size(1) == 1 or len(self.layers) == 1:
            return False
        if self.training and (self.hidden_dropout.probability or any(layer.weight_drop for layer in self.layers)):
            return False
        return all(getattr(layer, "joins_layers", False) and layer.size == self.output_size for layer in self.layers)
