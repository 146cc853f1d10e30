"""A stack of LSTM layers in which each adds to what it reads, and which shows what every layer gives out."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from seqloom.nn.dropout import Dropout
from seqloom.nn.layers import Layers
from seqloom.nn.linear import settled
from seqloom.nn.recurrent import lstm_step, start_remembering
from seqloom.nn.state import State

warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")  # it is slower, that is all


class ResidualLstm(nn.Module):
    """h_1 = LSTM_1(x),  h_j = LSTM_j(h_{j-1}) + h_{j-1}  for j > 1.

    With more `cells` than `size`, a layer's hidden state is h = W (o ⊙ tanh c), of length `size` (LSTMP: Sak et al.
    2014, https://arxiv.org/abs/1402.1128): much memory, and few weights on the way to the next step and layer.
    """

    def __init__(self, size: int, layers: int, cells: int | None, dropout: float) -> None:
        super().__init__()
        self.size, self.cells = size, cells or size
        projected = size if cells else 0
        self.layers: Layers[nn.LSTM] = Layers(
            nn.LSTM(size, self.cells, proj_size=projected, batch_first=True) for _ in range(layers)
        )
        self.dropout = Dropout(dropout)
        for layer in self.layers:
            start_remembering(layer)

    def start(self, rows: int, like: Tensor) -> State:
        """The state of so many rows before anything was read."""
        state = State()
        for depth in range(len(self.layers)):
            state[f"layer{depth}.hidden"] = like.new_zeros(rows, self.size)
            state[f"layer{depth}.cell"] = like.new_zeros(rows, self.cells)
        return state

    def forward(self, inputs: Tensor, state: State | None = None) -> tuple[list[Tensor], State]:
        """inputs [batch, time, size] -> what each layer gives out [batch, time, size], and the state after them."""
        state = self.start(len(inputs), inputs) if state is None else state
        after = State(position=state.position + inputs.size(1))
        outputs: list[Tensor] = []
        hidden = inputs
        with torch.autocast(inputs.device.type, enabled=False):  # the library would go down to half precision
            for depth, layer in enumerate(self.layers):
                names = (f"layer{depth}.hidden", f"layer{depth}.cell")
                found, *memory = _read(layer, self.dropout(hidden).float(), *(state[name].float() for name in names))
                hidden = found if depth == 0 else found + hidden
                after.update(zip(names, memory, strict=True))
                outputs.append(hidden)
        return outputs, after


def _read(layer: nn.LSTM, inputs: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What the layer gives out [batch, time, size], its last hidden state and cell."""
    if inputs.size(1) == 1 and settled(next(layer.parameters())):
        hidden, cell = lstm_step(layer, inputs[:, 0], hidden, cell)
        return hidden.unsqueeze(1), hidden, cell
    outputs, (last, memory) = layer(inputs, (hidden.unsqueeze(0), cell.unsqueeze(0)))
    return outputs, last.squeeze(0), memory.squeeze(0)
