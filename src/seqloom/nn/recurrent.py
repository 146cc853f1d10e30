"""Recurrent networks as feature layers: stacks of one kind of layer, with dropout between."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from seqloom.nn.cells import CoupledLayer, PeepholeLayer, RecurrentLayer
from seqloom.nn.dropout import choose_dropout, drop_weight
from seqloom.nn.features import FeatureLayer
from seqloom.nn.starts import Start, start_recurrent
from seqloom.nn.state import State


class LibraryLayer(RecurrentLayer):
    """One layer on the library's fused kernels (oneDNN, cuDNN).

    In training with `weight_drop`, the kernel gets a recurrent matrix of which some weights are dropped, the same ones
    for the whole window (Merity et al. 2018, https://arxiv.org/abs/1708.02182). Otherwise it gets the network's own
    weights, which the library keeps in one contiguous piece for cuDNN.
    """

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
        outputs, *after = self.kernel(
            inputs,
            self._before(memory),
            self._weights(),
            True,  # there are biases
            1,  # layer
            0.0,  # dropout between layers
            torch.is_grad_enabled(),  # keep what the backward pass needs
            False,  # one direction
            True,  # batch first
        )
        return outputs, tuple(tensor.squeeze(0) for tensor in after)

    def _weights(self) -> list[Tensor]:
        """Input and recurrent matrix, and a bias for each: the network's own, or a copy with weights dropped."""
        weights: list[Tensor] = list(self.network.parameters())
        if self.training and self.weight_drop > 0.0:
            weights[1] = drop_weight(weights[1], self.weight_drop, training=True)
            pieces = torch.cat([weight.flatten() for weight in weights])  # one piece, as cuDNN wants it
            sizes = [weight.numel() for weight in weights]
            weights = [piece.view_as(like) for piece, like in zip(pieces.split(sizes), weights, strict=True)]
        return weights

    def _before(self, memory: tuple[Tensor, ...]) -> Any:
        """The memory as the kernel wants it: [1, batch, size]."""
        (hidden,) = memory
        return hidden.unsqueeze(0)


class RnnLayer(LibraryLayer):
    """Elman 1990: h_t = φ(W x_t + U h_{t-1} + b), where φ is tanh or the rectifier."""

    def __init__(self, input_size: int, size: int, weight_drop: float, start: Start, activation: str = "tanh") -> None:
        network = nn.RNN(input_size, size, batch_first=True, nonlinearity=activation)
        kernels = {"tanh": torch._VF.rnn_tanh, "relu": torch._VF.rnn_relu}
        super().__init__(network, kernels[activation], weight_drop, start)


class LstmLayer(LibraryLayer):
    """Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000.

    i_t, f_t, o_t = σ(W x_t + U h_{t-1} + b),  c_t = f_t ⊙ c_{t-1} + i_t ⊙ tanh(W_c x_t + U_c h_{t-1} + b_c),
    h_t = o_t ⊙ tanh(c_t).

    The forget gate's bias starts at 1 (the library's two biases add up to it): a cell remembers before it has learned
    what to forget (Jozefowicz et al. 2015).
    """

    memory = ("hidden", "cell")

    def __init__(self, input_size: int, size: int, weight_drop: float, start: Start) -> None:
        network = nn.LSTM(input_size, size, batch_first=True)
        super().__init__(network, torch._VF.lstm, weight_drop, start)
        with torch.no_grad():
            _, _, bias, other_bias = network.parameters()
            bias[size : 2 * size] = 1.0  # gates stand in the order input, forget, candidate, output
            other_bias[size : 2 * size] = 0.0

    def _before(self, memory: tuple[Tensor, ...]) -> Any:
        hidden, cell = memory
        return hidden.unsqueeze(0), cell.unsqueeze(0)


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


class Recurrent(FeatureLayer):
    """A stack of recurrent layers; each reads what the one below gives out.

    The state of layer l is `layer{l}.hidden` and, for LSTMs, `layer{l}.cell`, each [batch, size of the layer].
    """

    carries = True
    layer: ClassVar[Callable[..., RecurrentLayer]]
    """Makes one layer from (input_size, size, weight_drop, start)."""

    def __init__(
        self,
        input_size: int,
        size: int = 256,
        layers: int = 1,
        output_size: int | None = None,
        dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        weight_drop: float = 0.0,
        variational: bool = True,
        start: Start = "uniform",
        **options: Any,
    ) -> None:
        super().__init__()
        sizes = [input_size] + [size] * (layers - 1) + [output_size or size]
        self.input_size = input_size
        self.output_size = sizes[-1]
        stack = [type(self).layer(below, above, weight_drop, start, **options) for below, above in pairwise(sizes)]
        self.layers = nn.ModuleList(stack)
        self.memory = [
            {f"layer{depth}.{name}": layer.size for name in layer.memory} for depth, layer in enumerate(stack)
        ]
        self.hidden_dropout = choose_dropout(hidden_dropout, variational)
        self.dropout = choose_dropout(dropout, variational)

    def start(self, size: int, like: Tensor) -> State:
        return State({name: like.new_zeros(size, width) for names in self.memory for name, width in names.items()})

    def forward(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        after = State(position=state.position + inputs.size(1))
        hidden = inputs
        for depth, (layer, names) in enumerate(zip(self.layers, self.memory, strict=True)):
            if depth > 0:
                hidden = self.hidden_dropout(hidden)
            hidden, memory = layer(hidden, tuple(state[name] for name in names))
            after.update(zip(names, memory, strict=True))
        return self.dropout(hidden), after


class Rnn(Recurrent):
    """Stack of `RnnLayer`. Takes `activation`, "tanh" or "relu", besides."""

    layer = RnnLayer


class Lstm(Recurrent):
    """Stack of `LstmLayer`."""

    layer = LstmLayer


class Gru(Recurrent):
    """Stack of `GruLayer`."""

    layer = GruLayer


class PeepholeLstm(Recurrent):
    """Stack of `PeepholeLayer`."""

    layer = PeepholeLayer


class CoupledLstm(Recurrent):
    """Stack of `CoupledLayer`."""

    layer = CoupledLayer
