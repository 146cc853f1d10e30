"""Forward and backward passes on a GPU, recorded once for each shape of a batch and replayed as one.

A step of training launches thousands of kernels, and a GPU runs them faster than a processor can launch them. Batches
of pairs come in few shapes, again and again: how many rows of which length depends on the lengths alone.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from seqloom.data.pair_batches import PairBatch
from seqloom.models.seq2seq import Seq2Seq, Source

FREE = 0.25  # of the memory stays free: every recording has its own gradients

Shape = tuple[torch.Size, torch.Size]


class Network(nn.Module):
    """All of a model that has weights, but the output layer: from tokens to features."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.parts = nn.ModuleList([model.source_embedding, model.encoder, model.embedding, model.decoder])
        self._model = (model,)  # in a tuple, so that the output layer's weights are not among this module's

    def forward(self, source: Tensor, lengths: Tensor, inputs: Tensor) -> Tensor:
        """sources [rows, S], their lengths [rows] and target inputs [rows, T] -> features [rows, T, size]."""
        (model,) = self._model
        sources = Source(source, lengths)
        reading, _ = model(inputs, model.begin(model.encode(sources), sources))
        return reading.features


class RecordedNetwork:
    """Features of batches; the second time that a shape comes it is recorded, and replayed from then on.

    Nothing of an earlier pass may be alive when a shape is recorded: its gradients would have to be waited for.
    """

    def __init__(self, model: Seq2Seq) -> None:
        self.model = model
        self._network = Network(model)
        self._recordings: dict[Shape, Callable[..., Tensor]] = {}
        self._seen: set[Shape] = set()
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: PairBatch) -> Tensor:
        """What the decoder makes of the targets so far, at each of them: [rows, T, size]."""
        inputs = (batch.source, batch.source_lengths, batch.target_inputs)
        shape = batch.source.shape, batch.target_inputs.shape
        if shape not in self._recordings:
            comes_again = shape in self._seen
            self._seen.add(shape)
            if not comes_again or not _has_room(batch.source.device):
                return self._network(*inputs)
            self._recordings[shape] = self._record(inputs)
        return self._recordings[shape](*inputs)

    def _record(self, inputs: tuple[Tensor, ...]) -> Callable[..., Tensor]:
        drawn = torch.cuda.get_rng_state()
        cached = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)  # weights are cast within the recording, whenever it is replayed
        try:
            recording: Callable[..., Tensor] = torch.cuda.make_graphed_callables(  # type: ignore[assignment]
                Network(self.model), tuple(each.clone() for each in inputs), allow_unused_input=True, pool=self._pool
            )
        finally:
            torch.set_autocast_cache_enabled(cached)
            torch.cuda.set_rng_state(drawn)  # what is dropped must not depend on when a shape is recorded
        return recording


def _has_room(device: torch.device) -> bool:
    free, total = torch.cuda.mem_get_info(device)
    return free > FREE * total
