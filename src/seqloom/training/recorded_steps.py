"""Whole steps of training on a GPU, recorded once for each kind of batch and replayed as one.

A step launches thousands of kernels: forward and backward pass, clipping, optimiser. Where the layers are small, a GPU
runs them faster than a processor can launch them. Windows of a text all have one shape, so their steps are the same
launches again and again: recorded as a CUDA graph, they are a single one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from seqloom.data.batch import Batch
from seqloom.training.objectives import Objective

WARM = 3  # steps without recording: the optimiser makes its moments, libraries set themselves up

Record = Callable[[Callable[[], None]], Callable[[], None]]
"""What work launches -> what launches it again. To record is not to do it."""


class Taken(NamedTuple):
    """What is known of a step that was taken."""

    sums: dict[str, Tensor]
    """What the objective logs, summed over the tokens."""
    norm: Tensor
    """That of the gradient."""


class RecordedSteps:
    """Steps of `learn`, replayed where the objective says that batches are alike.

    What a recording reads and writes stays where it is in memory. So a batch is copied into tensors of the recording's
    own before a replay, with what the objective carries from batch to batch; afterwards that is carried on from there,
    and figures are copied out, for the next replay writes over them. Learning rates are tensors (`let_rates_change`).
    """

    def __init__(self, learn: Callable[[Batch], Taken], model: Any, objective: Objective, record: Record) -> None:
        self.learn, self.model, self.objective, self.record = learn, model, objective, record
        self._seen: Counter[Hashable] = Counter()
        self._recordings: dict[Hashable, _Recording] = {}

    def __call__(self, batch: Batch, device: torch.device) -> Taken:
        """One step with a batch that may still be on the processor."""
        alike = self.objective.alike(self.model, batch)
        if alike is None or self._seen[alike] < WARM:
            self._seen[alike] += 1
            return self.learn(batch.to(device))
        if alike not in self._recordings:
            self._recordings[alike] = _Recording(self, batch.to(device))
        return self._recordings[alike].replay(batch)


class _Recording:
    """The step with batches of one kind, and the tensors that it reads and writes."""

    def __init__(self, steps: RecordedSteps, batch: Batch) -> None:
        self.batch = batch.map(torch.clone)
        self.objective = steps.objective
        self.carried = {name: tensor.clone() for name, tensor in self.objective.state().items()}
        self.taken: Taken | None = None

        def work() -> None:
            self.objective.restore(self.carried)
            self.taken = steps.learn(self.batch)
            for name, tensor in self.objective.state().items():
                self.carried[name].copy_(tensor)

        self._again = steps.record(work)
        self.objective.restore(self.carried)  # what it carries since has no values: nothing was computed

    def replay(self, batch: Batch) -> Taken:
        """The step with another batch."""
        self.batch.fill(batch)
        for name, tensor in self.objective.state().items():
            if tensor is not self.carried[name]:
                self.carried[name].copy_(tensor)
        self._again()
        self.objective.restore(self.carried)
        assert self.taken is not None
        return Taken({name: each.clone() for name, each in self.taken.sums.items()}, self.taken.norm.clone())


class Tape:
    """Records on a GPU."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Callable[[], None]) -> Callable[[], None]:
        """Record what work launches, as a CUDA graph; what comes back launches it again."""
        drawn = torch.cuda.get_rng_state()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            work()
        torch.cuda.set_rng_state(drawn)  # what is dropped must not depend on when a step is recorded
        return graph.replay


def let_rates_change(optimizer: Optimizer, device: torch.device) -> None:
    """Make the learning rates tensors, which a recorded step reads: a number would be recorded as it is."""
    for group in optimizer.param_groups:
        group["lr"] = torch.tensor(group["lr"], dtype=torch.float32, device=device)
        group["capturable"] = True  # AdamW counts its steps on the GPU


def set_rate(group: dict[str, Any], rate: float) -> None:
    """Let a group of parameters learn at a rate from the next step on."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate
