"""A copy of a model in bfloat16 that computes in its place, while the model keeps what is learned in float32."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn

from seqloom.errors import ConfigError
from seqloom.training.processes import Processes
from seqloom.training.weights import own_tensors


class ShortCopy:
    """Forward and backward pass of a step are the copy's: every number between its layers takes half the memory, and
    half the time to be read. Steps of the optimiser are smaller than what bfloat16 tells apart: they are the model's.

    Before a step the copy takes the model's weights, rounded; after it, the model is given the copy's gradients. So all
    else (validation, averages, checkpoints) knows only the model.
    """

    def __init__(self, model: nn.Module, processes: Processes) -> None:
        key = "training.precision: bf16-weights"
        if processes.world > 1:
            raise ConfigError(f"{key} is for one process: several take bf16")
        kept = {name for name, tensor in own_tensors(model).items() if tensor.is_floating_point()}
        if statistics := sorted(kept - dict(model.named_parameters()).keys()):
            raise ConfigError(
                f"{key} is for models that learn by gradients alone, and {statistics[0]} is counted: take bf16"
            )
        self.model = deepcopy(model).bfloat16().train()
        pairs = zip(model.parameters(), self.model.parameters(), strict=True)
        self._pairs = [(own, short) for own, short in pairs if own.requires_grad]

    @torch.no_grad()
    def take_weights(self) -> None:
        """The model's weights, rounded."""
        own, short = map(list, zip(*self._pairs, strict=True))
        torch._foreach_copy_(short, own)

    @torch.no_grad()
    def give_gradients(self) -> None:
        """Hand the gradients over to the model."""
        gradients = [short.grad for _, short in self._pairs if short.grad is not None]
        learned = [own for own, short in self._pairs if short.grad is not None]
        room = [torch.empty_like(own) for own in learned]
        torch._foreach_copy_(room, gradients)
        for own, gradient in zip(learned, room, strict=True):
            own.grad = gradient
        for _, short in self._pairs:
            short.grad = None
