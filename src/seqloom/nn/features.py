"""The feature layer's interface: from the vectors of the words so far to a vector that predicts the next one."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from seqloom.nn.state import State


class FeatureLayer(nn.Module, ABC):
    """h_t = f(e_1, ..., e_t): reads any number of vectors at once and carries on from where it stopped.

    One method serves training (a whole window in parallel), truncated back-propagation (window after window),
    reading a prompt and generating (one word at a time); they differ only in how many vectors they pass.
    """

    output_size: int
    carries: bool = False
    """True when the state is of fixed size and may be carried from window to window for ever: recurrent networks,
    and those that see a fixed number of recent words."""
    sequential: bool = False
    """Whether it takes word after word even when all are known: recurrent networks do."""
    joins: bool = False
    """Whether it can go on with rows that stand at places of their own, one word at a time: see `State.alone`."""

    @abstractmethod
    def start(self, size: int, like: Tensor) -> State:
        """The state before the first word, for `size` rows, of the device and dtype of `like`."""

    def reserve(self, state: State, steps: int) -> State:
        """The same state with room for so many steps, so that its tensors keep their shapes as it goes on."""
        return state

    @abstractmethod
    def forward(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """inputs [batch, time, input_size] -> features [batch, time, output_size] and the state after them.

        features[:, t] depends on what the state remembers and on inputs[:, :t+1], never on a later input.
        """
